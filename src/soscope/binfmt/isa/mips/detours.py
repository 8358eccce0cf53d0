# SPDX-License-Identifier: Apache-2.0
"""Code of soscope that slots of MIPS lead to, because a GDB stub cannot set registers there.

    noticed:  lui $at; j common; addiu $at        $at is the address of the slot's cell
    common:   lw $t9, ($at); rdhwr $v1, $29; jr $t9

    passed:   lui $at; lw $t9, ($at); jr $t9

All calls that soscope should notice run the same instruction, whatever their slot. At the entry
of a function, $at and $v1 hold nothing of use, while unbound slots need $t7, $t8, $gp and $ra.
"""

from __future__ import annotations

import struct

CELL = "r1"  # register with the address of the slot's cell, at `STOP`
STOP = 8  # offset of the stop in the code, in bytes
_NOTICED, _PASSED = 0, 16  # offsets in the code of one slot, in bytes
_OWN = 32
_BEFORE = 32
_LUI_AT, _ADDIU_AT, _LW_T9_AT = 0x3C01_0000, 0x2421_0000, 0x8C39_0000
_LW_T9_0, _RDHWR_V1, _JR_T9, _J = 0x8C39_0000, 0x7C03_E83B, 0x0320_0009, 0x0800_0000
_SEGMENT = 0xF000_0000  # a jump cannot leave its segment


def size(count: int) -> int:
    """Return the size in bytes of the code for `count` slots."""
    return _BEFORE + count * _OWN


def noticed(at: int, number: int) -> int:
    """Return the address for noticed calls of slot `number`; the code lies at `at`."""
    return at + _BEFORE + number * _OWN + _NOTICED


def passed(at: int, number: int) -> int:
    """Return the address for calls of slot `number` that soscope does not notice."""
    return at + _BEFORE + number * _OWN + _PASSED


def code(at: int, cells: int, count: int, order: str) -> bytes:
    """Return the code for `count` slots at address `at`, whose cells lie at `cells`.

    Return b"" if the code would cross a segment's end, which a jump cannot do.
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
