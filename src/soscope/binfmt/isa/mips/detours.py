# SPDX-License-Identifier: Apache-2.0
"""Code of ours that slots of MIPS lead to, as a stub may set no register of the thread there.

    noticed:  lui $at; j common; addiu $at        $at is the address of the slot's cell
    common:   lw $t9, ($at); rdhwr $v1, $29; jr $t9

    passed:   lui $at; lw $t9, ($at); jr $t9

All calls that are noticed come by one instruction, whatever their slot. $at and $v1 have nothing
in them where a function is entered; $t7, $t8, $gp and $ra are what unbound slots need.
"""

from __future__ import annotations

import struct

CELL = "r1"  # has the cell of the slot whose call stands at `STOP`
STOP = 8  # bytes behind the beginning of the code
_NOTICED, _PASSED = 0, 16  # bytes behind that of a slot's own
_OWN = 32
_BEFORE = 32
_LUI_AT, _ADDIU_AT, _LW_T9_AT = 0x3C01_0000, 0x2421_0000, 0x8C39_0000
_LW_T9_0, _RDHWR_V1, _JR_T9, _J = 0x8C39_0000, 0x7C03_E83B, 0x0320_0009, 0x0800_0000
_SEGMENT = 0xF000_0000  # a jump stays in it


def size(count: int) -> int:
    """Return how many bytes the code for so many slots has."""
    return _BEFORE + count * _OWN


def noticed(at: int, number: int) -> int:
    """Return where calls of slot `number` are to go that are noticed; `at` is where the code is."""
    return at + _BEFORE + number * _OWN + _NOTICED


def passed(at: int, number: int) -> int:
    """Return where calls of slot `number` are to go that are not noticed."""
    return at + _BEFORE + number * _OWN + _PASSED


def code(at: int, cells: int, count: int, order: str) -> bytes:
    """Return the code for `count` slots at address `at`, whose cells lie at `cells`.

    There is none, b"", where it would reach over the end of what a jump reaches.
    """
    if at & _SEGMENT != at + size(count) & _SEGMENT:
        return b""
    words = [_LW_T9_0, _RDHWR_V1, _JR_T9, 0, 0, 0, 0, 0]
    common = _J | (at & ~_SEGMENT) >> 2
    for number in range(count):
        cell = cells + 4 * number
        low = cell & 0xFFFF
        high = _LUI_AT | (cell - low >> 16) + (low >> 15) & 0xFFFF
        words += (high, common, _ADDIU_AT | low, 0)
        words += (high, _LW_T9_AT | low, _JR_T9, 0)
    return struct.pack(f"{order}{len(words)}I", *words)
