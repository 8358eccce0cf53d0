# SPDX-License-Identifier: Apache-2.0
"""Which call stands in front of an address of x86 code, as objdump reads it."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.isa.x86.code import LONGEST, call_before
from soscope.binfmt.source import BufferSource
from tests.support.files import elffiles

TEXT = """\
#include <stdlib.h>
struct wide { char room[300]; int (*call)(int); int (*other[9])(int); };
int by_pointer(int (*call)(int), struct wide *wide, int at)
{
    int near = call(1) + wide->call(2) + wide->other[at](3) + (wide - 1)->other[at](4);
    return near + rand() + abs(at) + ((int (**)(int))wide)[at](5) + ((int (**)(int))wide)[1](6);
}
__asm__("call *%r12; call *(%rsp); call *8(%r13); call *(%r12,%rax,8); call *0x1234(,%rax,8)");
int main(int argc, char **argv) { return by_pointer(abs, (void *)argv, argc); }
"""


@pytest.mark.parametrize("flags", [["-O1"], ["-O2", "-fno-plt"], ["-Os", "-no-pie"]])
def test_every_call_of_a_program(flags: list[str], tmp_path: Path) -> None:
    path = elffiles.built(tmp_path, "prog", TEXT, *flags)
    image = ElfImage.from_source(BufferSource(path.read_bytes()))
    said = elffiles.run("objdump", "-d", "--no-show-raw-insn", path)
    lines = re.findall(r"^ +([0-9a-f]+):\t(.*)$", said, re.MULTILINE)
    calls = 0
    for (_, text), (after, _) in pairwise(lines):
        match = re.match(r"call +(\*?)(?:0x)?([0-9a-f]*)(.*)", text)
        if match is None:
            continue
        calls += 1
        addr = int(after, 16)
        call = call_before(image.read(addr - LONGEST, LONGEST, "code"), addr)
        slot = re.search(r"\(%rip\) +# ([0-9a-f]+)", match[3])
        target = None if match[1] else int(match[2], 16)
        assert call == (True, target, int(slot[1], 16) if slot else None), text
    assert calls > 12


@pytest.mark.parametrize(
    "code", ["", "e8", "ff", "90909090909090", "ff25000000009090", "ffe0", "c3"]
)
def test_what_is_no_call(code: str) -> None:
    assert call_before(bytes.fromhex(code), 0x1000) == (False, None, None)
