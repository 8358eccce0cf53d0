# SPDX-License-Identifier: Apache-2.0
"""Which instructions of MIPS take effect behind the next one: jumps and branches.

A signal between the two comes back to the jump, which is run once more.
"""

from __future__ import annotations

_JUMPS = frozenset((1, 2, 3, 4, 5, 6, 7, 20, 21, 22, 23))  # opcodes: regimm, j, jal, b…, b…l
_JR, _JALR = 8, 9
_COP1, _BC = 17, 8


def is_delayed(word: int) -> bool:
    """Return whether an instruction takes effect behind the next one."""
    kind = word >> 26
    if kind == 0:
        return word & 63 in (_JR, _JALR)
    if kind == _COP1:
        return word >> 21 & 31 == _BC
    return kind in _JUMPS
