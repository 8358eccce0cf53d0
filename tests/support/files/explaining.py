# SPDX-License-Identifier: Apache-2.0
"""Files whose calls `soscope explain` follows, and what objdump says of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.files.elffiles import built, run
from tests.support.files.stubs import FOREIGN
from tests.support.machines.tools import need

CALLS = """
#include <stdlib.h>
#include <stdio.h>
int main(void) {
	void *p = malloc(10), *q = malloc(20);
	printf("%p %p\\n", p, q);
	free(p), free(q);
	return 0;
}
"""
BUILDS = {
    "lazy": ("-Wl,-z,lazy",),
    "no-pie": ("-no-pie", "-Wl,-z,lazy"),
    "ibt": ("-fcf-protection", "-Wl,-z,lazy,-z,ibtplt"),
    "now": ("-Wl,-z,now",),
    "no-plt": ("-fno-plt",),
    "lld": ("-fuse-ld=lld", "-Wl,-z,lazy"),
    "retpoline": ("-fuse-ld=lld", "-Wl,-z,lazy,-z,retpolineplt"),
    "mold": ("-fuse-ld=mold", "-Wl,-z,lazy"),
    "gold": ("-fuse-ld=gold", "-Wl,-z,lazy"),
    "i386": ("-m32", "-Wl,-z,lazy"),
    "i386-no-pie": ("-m32", "-no-pie", "-Wl,-z,lazy"),
    "i386-ibt": ("-m32", "-fcf-protection", "-Wl,-z,lazy,-z,ibtplt"),
    "i386-lld": ("-m32", "-fuse-ld=lld", "-Wl,-z,lazy"),
    "i386-mold": ("-m32", "-fuse-ld=mold", "-Wl,-z,lazy"),
    "i386-no-plt": ("-m32", "-fno-plt"),
}
LINKERS = {
    "i386-lld": "ld.lld",
    "i386-mold": "mold",
    "lld": "ld.lld",
    "retpoline": "ld.lld",
    "mold": "mold",
    "gold": "ld.gold",
}

Explain = Callable[..., Any]


def made(folder: Path, build: str, *more: str) -> Path:
    if build in LINKERS:
        need(LINKERS[build])
    compiler = "clang" if LINKERS.get(build) in ("ld.lld", "mold") else "gcc"
    return built(folder, build, CALLS, *BUILDS[build], *more, compiler=compiler)


def objdump(path: Path) -> dict[int, tuple[str, str]]:
    """Return (bytes, instruction) by address, as objdump -d has them."""
    found = {}
    for line in run("objdump", "-dw", path).splitlines():
        row = re.fullmatch(r"\s*([0-9a-f]+):\t((?:[0-9a-f]{2} )+)\s*(?:\t(.*))?", line)
        if row is not None:
            found[int(row[1], 16)] = (row[2].replace(" ", ""), row[3] or "")
    return found


def same(text: str) -> str:
    """Return an instruction without what disassemblers write differently."""
    text = re.sub(r"\s*(# |<|@|//).*", "", text)
    text = re.sub(r"\b(push|pop|jmp|call|mov|sub|lea|xor|add|test)[lqb]\b", r"\1", text)
    return re.sub(r"\b0x|(?<=#)0x|[\s$*]", "", text)


def objdump_of(path: Path, arch: str) -> dict[int, tuple[str, str]]:
    """Return (bytes, instruction) by address, the bytes in the order of the file."""
    prefix = FOREIGN[arch][1]
    found = {}
    for line in run(need(f"{prefix}objdump"), "-dw", path).splitlines():
        row = re.match(r"\s*([0-9a-f]+):\t((?:[0-9a-f]{2,8} )+) *(?:\t(.*))?", line)
        if row is not None:
            parts = [bytes.fromhex(one) for one in row[2].split()]
            is_big = arch in ("s390x", "mips")
            code = b"".join(parts if is_big else [one[::-1] for one in parts])
            found[int(row[1], 16)] = (code.hex(), row[3] or "")
    return found
