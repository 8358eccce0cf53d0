# SPDX-License-Identifier: Apache-2.0
"""Which instructions of MIPS run the next one first: jumps and branches, by objdump."""

from __future__ import annotations

from soscope.binfmt.isa.mips.stubs import is_delayed

DELAYED = (
    0x03200008,  # jr $t9
    0x0320F809,  # jalr $t9
    0x03200009,  # jalr $zero, $t9
    0x10400019,  # beqz $v0
    0x04110001,  # bal
    0x0C100000,  # jal
    0x45000003,  # bc1f
)
PLAIN = (0x00000000, 0x8F998038, 0x27BDFFE0, 0x0200E025, 0x46200306, 0xAFBF0014)


def test_jumps_and_branches_are_delayed() -> None:
    assert all(map(is_delayed, DELAYED))
    assert not any(map(is_delayed, PLAIN))
