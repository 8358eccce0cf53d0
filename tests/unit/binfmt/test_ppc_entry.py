# SPDX-License-Identifier: Apache-2.0
"""Where entries of a BSS PLT lead: the words are as the assembler makes them."""

from __future__ import annotations

import struct

import pytest

from soscope.binfmt.isa.ppc.stubs import target

AT, PLT, FAR = 0x1001_0048, 0x1001_0000, 0x3FE0_1234
MEMORY = {
    PLT: 0x3D6B_1001,  # addis r11,r11,0x1001
    PLT + 4: 0x816B_FFF0,  # lwz r11,-16(r11)
    PLT + 24: 0x3D8B_0000,  # what calls the resolver
    PLT + 28: 0x7D6B_5A14,
    0x1001_0000: 0x3D6B_1001,
    0x1000_FFF0 + 8: FAR,
    0x1000_FFF0 + 0x18000: FAR + 4,
}


@pytest.mark.parametrize(
    ("words", "where"),
    [
        ([0x4800_0100, 0], AT + 0x100),  # b .+0x100
        ([0x4BFF_FF00, 0], AT - 0x100),  # b .-0x100
        ([0x4800_0102, 0], 0x100),  # ba 0x100
        ([0x4BFF_FF02, 0], 0xFFFF_FF00),  # ba -0x100
        ([0x3960_0008, 0x4BFF_FFB4], FAR),  # li r11,8; b PLT
        ([0x3960_0008, 0x4BFF_FFCC], PLT + 24),  # li r11,8; b PLT+24
        ([0x3D60_0002, 0x396B_8000, 0x4BFF_FFB0], FAR + 4),  # lis; addi; b PLT
        ([0, 0], 0),  # the loader was not here yet
        ([0x4800_0101, 0], None),  # bl .+0x100
        ([0x7C08_02A6, 0x4E80_0020], None),  # mflr r0; blr
        ([0x3960_0008, 0x6000_0000], None),  # li r11,8; nop
        ([0x3D60_0001, 0x396B_8000], None),  # cut
        ([0x3960_0008, 0x4800_4000], None),  # to where no memory is
        ([0x4800_0100], None),
    ],
)
def test_an_entry(words: list[int], where: int | None) -> None:
    code = struct.pack(f">{len(words)}I", *words)
    assert target(code, AT, MEMORY.get) == where
