# SPDX-License-Identifier: Apache-2.0
"""Files with stubs for tests: built for many processors, read, run, and shown by objdump."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.elf.image import ElfImage
from soscope.inspect import emulate
from tests.support.tools import need

# calls functions of libc, one of them also by its address
PROGRAM = """
extern int puts(const char *), abs(int), toupper(int), atoi(const char *);
extern void *malloc(unsigned long);
extern void free(void *);
int main(int argc, char **argv)
{
	void *p = malloc(argc);
	int (*f)(int) = argc > 1 ? abs : toupper;
	free(p);
	puts(argv[0]);
	return f(argc) + abs(argc) + atoi(argv[0]);
}
"""


@contextmanager
def opened(path: Path) -> Iterator[ElfMap]:
    """Open a file as `soscope map` does."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield ElfMap(ElfImage.from_descriptor(descriptor, str(path)))
    finally:
        os.close(descriptor)


def differences(mapped: ElfMap) -> list[str]:
    """Run every stub under Unicorn; return what differs from what the file says."""
    slots = {one.vaddr: one for one in mapped.slots}
    found = []
    for ran in emulate.run_stubs(mapped):
        slot = slots.get(ran.stub.slot)
        why = "leads to no slot" if slot is None else emulate.disagreement(slot, ran)
        if why:
            found.append(f"{slot.symbol if slot else '?'}: {ran.stub}: {why}")
    return found


def named_by_objdump(path: Path, objdump: str, *words: str) -> dict[int, str]:
    """Return what `objdump -d` calls foo@plt: address -> foo."""
    need(objdump)
    done = subprocess.run(
        [objdump, "-d", "--no-show-raw-insn", *words, str(path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    rows = re.finditer(r"^([0-9a-f]+) <(.+)@plt>:$", done.stdout, re.MULTILINE)
    return {int(row[1], 16): row[2].partition("@")[0] for row in rows}
