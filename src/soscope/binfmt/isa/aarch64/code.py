# SPDX-License-Identifier: Apache-2.0
"""Decode instructions of aarch64: jumps, calls, and uses of slots."""

from __future__ import annotations

from typing import NamedTuple

from soscope.binfmt.stubs.finder import Through

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    import numpy as np
    from numpy.typing import NDArray

    Words = NDArray[np.uint32]


# One instruction of aarch64: its effect on the program counter, and whether it can be moved.
#
# Arm Architecture Reference Manual, C4: encodings by bits 25 to 28, then group by group.

SIZE = 4  # bytes
NOP = 0xD503201F

PLAIN = "plain"  # its effect does not depend on its address
NOTHING = "nothing"  # a hint without effect
BRANCH = "branch"  # always jumps `number` bytes from itself
CONDITION = "condition"  # jumps there if the flags match
COMPARE = "compare"  # jumps there if a register is 0, or is not
TEST = "test"  # jumps there if a bit of a register is 0, or is not
REGISTER = "register"  # jumps to the address in a register
ADDRESS = "address"  # loads the address `number` bytes away into a register
PAGE = "page"  # loads the address of a page, counted from its own page
LITERAL = "literal"  # loads the data `number` bytes away into a register
UNFIT = "unfit"  # cannot be moved


class A64Instruction(NamedTuple):
    """A decoded `word`; `number` belongs to `kind`. If `links`, x30 gets the return address."""

    word: int
    kind: str
    number: int = 0
    links: bool = False

    @property
    def size(self) -> int:
        """Its length in bytes."""
        return SIZE

    @property
    def register(self) -> int:
        """The register that it tests or loads."""
        return self.word & 31


def signed(word: int, low: int, bits: int) -> int:
    """Return the signed number in `bits` bits of `word`, from bit `low` on."""
    value = word >> low & (1 << bits) - 1
    return value - ((value & 1 << bits - 1) << 1)


def paged(word: int) -> int:
    """Return the offset in an `adr` in bytes, in an `adrp` in pages."""
    return signed(word, 5, 19) << 2 | word >> 29 & 3


def decode(code: bytes) -> A64Instruction | None:
    """Return the instruction at the start of `code`, None if it is cut."""
    if len(code) < SIZE:
        return None
    word = int.from_bytes(code[:SIZE], "little")
    group = word >> 25 & 15
    if word & 0x1F000000 == 0x10000000:
        if word >> 31:
            return A64Instruction(word, PAGE, paged(word) << 12)
        return A64Instruction(word, ADDRESS, paged(word))
    if word & 0x3B000000 == 0x18000000:
        return _literal(word)
    if group in (10, 11):
        return _branch(word)
    return A64Instruction(word, UNFIT if group in (0, 1, 3) or _is_tied(word) else PLAIN)


def _is_tied(word: int) -> bool:
    """Return whether an instruction must stay next to its neighbours.

    These are exclusive accesses, and the parts of a memory copy, as the kernel may restart the
    copy at its first instruction.
    """
    return word & 0x3F800000 == 0x08000000 or word & 0x3B200C00 == 0x19000400


def _literal(word: int) -> A64Instruction:
    if word >> 26 & 1:
        return A64Instruction(word, UNFIT)  # load into a vector register
    if word >> 30 == 3:
        return A64Instruction(word, NOTHING)  # a prefetch
    return A64Instruction(word, LITERAL, signed(word, 5, 19) << 2)


def _branch(word: int) -> A64Instruction:
    if word & 0x7C000000 == 0x14000000:  # b, bl
        return A64Instruction(word, BRANCH, signed(word, 0, 26) << 2, links=bool(word >> 31))
    if word >> 24 == 0x54:  # b.cond, bc.cond
        return A64Instruction(word, CONDITION, signed(word, 5, 19) << 2)
    if word & 0x7E000000 == 0x34000000:  # cbz, cbnz
        return A64Instruction(word, COMPARE, signed(word, 5, 19) << 2)
    if word & 0x7E000000 == 0x36000000:  # tbz, tbnz
        return A64Instruction(word, TEST, signed(word, 5, 14) << 2)
    if word & 0xFF9FFC1F == 0xD61F0000 and word >> 21 & 3 != 3:  # br, blr, ret
        return A64Instruction(word, REGISTER, links=word >> 21 & 3 == 1)
    if word & 0xFEFFF800 == 0xD61F0800 or word & 0xFFFFFBFF == 0xD65F0BFF:
        return A64Instruction(word, PLAIN)  # braa, retaa etc.: independent of their address
    if word == NOP:
        return A64Instruction(word, NOTHING)
    if word >> 22 == 0x354:  # hints, barriers, system registers
        return A64Instruction(word, PLAIN)
    return A64Instruction(word, UNFIT)  # svc, brk, blraa: their address is visible


# Instructions of aarch64 that call or jump through slots, in stubs or without one.
#
# Two instructions address a slot, by its page and by its offset in the page. A stub has both in a
# row, so a thread that runs the first is about to jump. In other code, a register is followed from
# the load of the slot to the call. The caller then compares the register's value with the slot's.

_FAR = 1024  # instructions between page and offset: the page may be kept for a whole function
_FOLLOWED = 256  # instructions
_LINKER = (16, 17)  # registers reserved for stubs (IP0, IP1)
_KEPT = 19  # functions preserve the registers from this one on
_TO_X17 = (0xD61F0220, 0xD71F0A30)  # br x17; braa x17, x16
_AUTIA1716 = 0xD503219F
_SIGNS = (0xD503233F, 0xD503237F)  # paciasp, pacibsp: the start of a function


def through(
    code: bytes, vaddr: int, slots: Collection[int], _bits: int, _base: int | None = None
) -> Iterator[Through]:
    """Yield these instructions in `code`, which lies at `vaddr`; `slots` are addresses."""
    import numpy as np

    skipped = -vaddr % SIZE
    start = vaddr + skipped
    words = np.frombuffer(code, "<u4", max(len(code) - skipped, 0) // SIZE, skipped)
    told = set()
    for page, load, slot in _loads(words, start, slots):
        register = int(words[load]) & 31
        if page == load - 1 and _is_stub(words, page):
            yield Through(start + SIZE * page, slot, is_call=False)
            continue
        for at, is_call in _followed(words, load, register):
            if at not in told:
                told.add(at)
                yield Through(start + SIZE * at, slot, is_call, register)


def _loads(words: Words, start: int, slots: Collection[int]) -> list[tuple[int, int, int]]:
    """Return (index of the adrp, index of the load, slot) of each load of a slot."""
    import numpy as np

    pages = np.flatnonzero(words & 0x9F000000 == 0x90000000)
    loads = np.flatnonzero(words & 0xFFC00000 == 0xF9400000)  # 64-bit ldr
    named = words[pages].astype(np.int64)
    numbers = (named >> 5 & 0x7FFFF) << 2 | named >> 29 & 3
    numbers -= (numbers & 1 << 20) << 1
    addrs = (start + pages * SIZE & ~0xFFF) + (numbers << 12)
    known = np.array(sorted(slots), dtype=np.int64)
    uses: list[tuple[int, int, int]] = []
    for register in range(31):
        of = np.flatnonzero(named & 31 == register)
        using = loads[words[loads] >> 5 & 31 == register]
        if not len(of) or not len(using):
            continue
        last = np.searchsorted(pages[of], using) - 1
        using, last = using[last >= 0], of[last[last >= 0]]
        places = addrs[last] + (words[using].astype(np.int64) >> 10 & 0xFFF) * 8
        fits = np.isin(places, known) & (using - pages[last] <= _FAR)
        uses += zip(
            pages[last][fits].tolist(),
            using[fits].tolist(),
            places[fits].tolist(),
            strict=True,
        )
    return sorted(uses, key=lambda each: each[1])


def _is_stub(words: Words, page: int) -> bool:
    """Return whether a stub begins: adrp x16; ldr x17, [x16]; [add x16]; [autia1716]; br x17."""
    first, load = int(words[page]), int(words[page + 1])
    if first & 31 != _LINKER[0] or load & 0x3FF != _LINKER[0] << 5 | _LINKER[1]:
        return False
    for word in words[page + 2 : page + 5].tolist():
        if word in _TO_X17:
            return True
        if word & 0xFFC003FF != 0x91000210 and word != _AUTIA1716:  # add x16, x16, #number
            return False
    return False


def _followed(words: Words, load: int, register: int) -> Iterator[tuple[int, bool]]:
    """Yield the calls and jumps through a register loaded at `load`, until it is overwritten."""
    call, jump = 0xD63F0000 | register << 5, 0xD61F0000 | register << 5
    for at, word in enumerate(words[load + 1 : load + _FOLLOWED].tolist(), load + 1):
        if word == jump:
            yield at, False
            return
        is_call = word & 0xFFFFFC1F == 0xD63F0000 or word >> 26 == 0x25
        if word == call:
            yield at, True
        if is_call and register < _KEPT:
            return
        # stp x29, x30, [sp, #number]!
        if word & 0xFFC07FFF == 0xA9807BFD or word in _SIGNS or register in _written(word):
            return


def _written(word: int) -> tuple[int, ...]:
    """Return the registers that an instruction writes; in doubt, rather too many."""
    group, filled = word >> 25 & 15, word & 31
    if group in (8, 9):
        return (filled,)
    if group & 7 == 5:
        return () if word & 0x1FE00000 == 0x1A400000 else (filled,)  # ccmp, ccmn
    if group & 7 == 7:
        return (filled,) if _leaves_numbers(word) else ()
    if group & 5 == 4:
        return _accessed(word)
    return (filled,) if word & 0xFFF00000 == 0xD5300000 else ()  # mrs


def _leaves_numbers(word: int) -> bool:
    """Return whether a vector instruction writes a general register."""
    if word & 0xBFE0EC00 == 0x0E002C00:  # umov, smov
        return True
    # fcvt… and fmov, by their opcode
    return word & 0x7F20FC00 == 0x1E200000 and word >> 16 & 7 in (0, 1, 4, 5, 6)


def _accessed(word: int) -> tuple[int, ...]:
    """Return the registers that a memory access loads."""
    first, base, second = word & 31, word >> 5 & 31, word >> 10 & 31
    is_number = word >> 26 & 1
    is_load = word >> 22 & 1
    kind = word >> 27 & 7
    if kind & 3 == 1 and not is_number:  # an exclusive store writes its status
        return (first, second) if is_load else (word >> 16 & 31,)
    if kind == 5:
        moved = (base,) if word >> 23 & 1 else ()
        return moved if is_number or not is_load else (first, second, *moved)
    if kind == 7:
        is_indexed = not word >> 24 & 1
        is_atomic = is_indexed and word >> 21 & 1 and word >> 10 & 3 == 0
        moved = (base,) if is_indexed and not word >> 21 & 1 and word >> 10 & 1 else ()
        fills = word >> 22 & 3 or is_atomic
        return moved if is_number or not fills else (first, *moved)
    return () if is_number else (first,)
