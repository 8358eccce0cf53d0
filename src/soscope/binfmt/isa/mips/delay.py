# SPDX-License-Identifier: Apache-2.0
"""Jumps and branches of MIPS, whose next instruction (the delay slot) runs before the jump.

If a signal arrives between the two, the thread returns to the jump, which runs once more.
"""

from __future__ import annotations

_JUMPS = frozenset((1, 2, 3, 4, 5, 6, 7, 20, 21, 22, 23))  # opcodes: regimm, j, jal, b…, b…l
_JR, _JALR = 8, 9
_COP1, _BC = 17, 8


def is_delayed(word: int) -> bool:
    """Return whether an instruction has a delay slot."""
    kind = word >> 26
    if kind == 0:
        return word & 63 in (_JR, _JALR)
    if kind == _COP1:
        return word >> 21 & 31 == _BC
    return kind in _JUMPS
