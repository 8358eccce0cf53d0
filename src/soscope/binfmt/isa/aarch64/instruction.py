# SPDX-License-Identifier: Apache-2.0
"""One instruction of aarch64: its effect on the program counter, and whether it can be moved.

Arm Architecture Reference Manual, C4: encodings by bits 25 to 28, then group by group.
"""

from __future__ import annotations

from typing import NamedTuple

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
