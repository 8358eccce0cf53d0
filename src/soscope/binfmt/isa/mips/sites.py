# SPDX-License-Identifier: Apache-2.0
"""Call sites in code of MIPS: a word of the GOT is loaded into $t9, and $t9 is called.

The word is addressed by $gp, or a copy of it. The code does not tell which register has the copy,
so a load of the same distance from another base looks alike. When a thread stops at the jump, the
caller compares $t9 with the slot.

Other instructions stand between load and jump, and the one in the delay slot runs before the
function. All arguments are set only when both have run. Calls of bound slots do not go through
the stubs of unbound ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from soscope.binfmt.isa.mips import slots as mipsgot
from soscope.binfmt.stubs.sites import ENTER, PASS, SiteInStub, StubSite
from soscope.binfmt.stubs.table import Code, SlotTable
from soscope.binfmt.stubs.words import big_endian, numbers, signed

_GP = 0x7FF0  # offset of $gp from the start of the GOT
_LOAD = re.compile(rb"[\x8c-\x8f](?P<registers>.)(?P<offset>..)", re.DOTALL)  # lw
_T9, _SP = 25, 29
_CALL_T9, _JUMPS_T9 = 0x0320F809, (0x03200008, 0x03200009)
_JUMP_RA = 0x03E00008
_NEAR = 24  # instructions from the load of a slot to the call, at most
_FAR = 4096  # instructions of one function, at most
_JUMP_IN_PLT = re.compile(rb"(?:.{4})*?\x03\x20\x00[\x08\x09]", re.DOTALL)
_SAVED = frozenset((*range(8, 26), 28, 30)) | {2, 3}  # registers that may keep a function's address
_BOTH = 8  # bytes of a jump with its delay slot


def place(code: bytes, order: str) -> SiteInStub:
    """Return the call site in an entry of the PLT."""
    jump = _JUMP_IN_PLT.match(big_endian(code, order))
    return SiteInStub(0 if jump is None else jump.end() - 4, PASS)


def in_place(code: Code, table: SlotTable) -> Iterator[StubSite]:
    """Yield the call sites in code."""
    words, loads = _loads(code, table)
    for index, register, slot in loads:
        at = _jump_behind(words, index) if register == _T9 else 0
        if at:
            yield StubSite(code.vaddr + 4 * at, slot, ENTER, _BOTH)


def unclear(code: Code, table: SlotTable) -> Iterator[int]:
    """Yield slots that code loads without calling the function directly afterwards.

    An address that is passed on or stored does not count, because such a call does not go through
    the slot.
    """
    words, loads = _loads(code, table)
    for index, register, slot in loads:
        if register == _T9:
            if not _jump_behind(words, index):
                yield slot
        elif register in _SAVED and _reaches_t9(words, index, register):
            yield slot


def _loads(code: Code, table: SlotTable) -> tuple[list[int], list[tuple[int, int, int]]]:
    """Return all instructions, and (index, register, slot) of each load of a slot."""
    base = mipsgot.first_word(table.image)
    if base is None or code.vaddr & 3:
        return [], []
    data = big_endian(code.data, table.image.encoding.order)
    gp = table.got + _GP
    loads = []
    for match in _LOAD.finditer(data):
        slot = gp + signed(match["offset"])
        if slot not in table.slots or match.start() & 3:
            continue
        first, second = match[0][:2]
        if (first & 3) << 3 | second >> 5 != _SP:  # compilers keep $gp in any other register
            loads.append((match.start() // 4, second & 31, slot))
    return list(numbers(data)) if loads else [], loads


def _jump_behind(words: list[int], index: int) -> int:
    """Return the index of the jump to a function loaded into $t9 at `index`, 0 if none is near."""
    for at in range(index + 1, min(index + _NEAR, len(words))):
        word = words[at]
        if word == _CALL_T9 or word in _JUMPS_T9:
            return at
        if word == _JUMP_RA or _sets(word) == _T9:
            return 0
    return 0


def _reaches_t9(words: list[int], index: int, register: int) -> bool:
    """Return whether the function copies a register into $t9 before it sets the register."""
    for at in range(index + 1, min(index + _FAR, len(words))):
        word = words[at]
        if word & 0xFC1F_07FF in (0x25, 0x21) and word >> 11 & 31 == _T9:  # move
            if word >> 21 & 31 == register:
                return True
        elif word == _JUMP_RA:
            return False
    return False


def _sets(word: int) -> int:
    """Return the general register that an instruction writes, as far as it matters here, else 0."""
    kind = word >> 26
    if not kind:
        return word >> 11 & 31
    if kind in (*range(8, 16), 24, 25, *range(32, 40), 55):
        return word >> 16 & 31
    return 0
