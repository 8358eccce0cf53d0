# SPDX-License-Identifier: Apache-2.0
"""Entries of the BSS PLT of 32-bit PowerPC, which consist of code that the loader writes.

For a near function, glibc (sysdeps/powerpc/powerpc32/dl-machine.c) writes a branch to it.
Otherwise the entry loads a number into r11 and branches to a common piece of code in the PLT. One
such piece calls the resolver, the other loads an address from a table at r11 and jumps to it.
"""

from __future__ import annotations

from collections.abc import Callable

SIZE = 16  # bytes of the longest entry

_MASK = 0xFFFF_FFFF
_OPCODE = 0xFFFF_0000
_LI_R11 = 0x3960_0000
_LIS_R11 = 0x3D60_0000
_ADDI_R11 = 0x396B_0000
_ADDIS_R11 = 0x3D6B_0000
_LWZ_R11 = 0x816B_0000
_BRANCH = 18  # the upper six bits
_LINK, _ABSOLUTE = 1, 2


def target(code: bytes, at: int, word: Callable[[int], int | None]) -> int | None:
    """Return the target of the entry at `at`, None if it is unknown, 0 if the entry is empty.

    The target of an unbound entry lies in the PLT. `word` reads memory.
    """
    words = [int.from_bytes(code[place : place + 4], "big") for place in range(0, len(code), 4)]
    if len(words) < 2:
        return None
    if not words[0]:
        return 0
    number, place = 0, 0
    if words[0] & _OPCODE == _LI_R11:
        number, place = _low(words[0]), 1
    elif words[0] & _OPCODE == _LIS_R11 and words[1] & _OPCODE == _ADDI_R11:
        number, place = (_low(words[0]) << 16) + _low(words[1]), 2
    if place >= len(words):
        return None
    to = _branched(words[place], at + 4 * place)
    if to is None or not place:
        return to
    first, second = word(to), word(to + 4)
    if first is None or second is None:
        return None
    if first & _OPCODE == _ADDIS_R11 and second & _OPCODE == _LWZ_R11:
        return word(number + (_low(first) << 16) + _low(second) & _MASK)
    return to


def _branched(word: int, at: int) -> int | None:
    """Return the target of a branch, None if it is no branch."""
    if word >> 26 != _BRANCH or word & _LINK:
        return None
    far = word & 0x03FF_FFFC
    far -= (far & 0x0200_0000) << 1
    return far + (0 if word & _ABSOLUTE else at) & _MASK


def _low(word: int) -> int:
    """Return the signed number in an instruction."""
    return ((word & 0xFFFF) ^ 0x8000) - 0x8000
