# SPDX-License-Identifier: Apache-2.0
"""One instruction of aarch64: what it does to the program counter, and whether it can be elsewhere.

Arm Architecture Reference Manual, C4: encodings by bits 25 to 28, then group by group.
"""

from __future__ import annotations

from typing import NamedTuple

SIZE = 4  # bytes
NOP = 0xD503201F

PLAIN = "plain"  # it does the same anywhere
NOTHING = "nothing"  # a hint without an effect
BRANCH = "branch"  # to `number` bytes from itself, always
CONDITION = "condition"  # there, where flags say so
COMPARE = "compare"  # there, where a register is 0, or is not
TEST = "test"  # there, where a bit of a register is 0, or is not
REGISTER = "register"  # to where a register says
ADDRESS = "address"  # a register gets the address that is `number` bytes away
PAGE = "page"  # the same of a page, from its own page
LITERAL = "literal"  # a register gets what lies `number` bytes away
UNFIT = "unfit"  # it must stay where it is


class A64Instruction(NamedTuple):
    """What `word` is. `number` is that of `kind`, `links`: the return address goes to x30."""

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
        """The register that it tests or fills."""
        return self.word & 31


def signed(word: int, low: int, bits: int) -> int:
    """Return the signed number that `word` has in `bits` bits from bit `low` on."""
    value = word >> low & (1 << bits) - 1
    return value - ((value & 1 << bits - 1) << 1)


def paged(word: int) -> int:
    """Return the number of `adr` in bytes, of `adrp` in pages."""
    return signed(word, 5, 19) << 2 | word >> 29 & 3


def decode(code: bytes) -> A64Instruction | None:
    """Return the instruction that `code` begins with, None where it is cut off."""
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
    """Return whether an instruction has to run next to others.

    Exclusive accesses, and parts of a copy of memory: the kernel may go back to the first one.
    """
    return word & 0x3F800000 == 0x08000000 or word & 0x3B200C00 == 0x19000400


def _literal(word: int) -> A64Instruction:
    if word >> 26 & 1:
        return A64Instruction(word, UNFIT)  # into a register of numbers
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
        return A64Instruction(word, PLAIN)  # braa, retaa and the like: where they are is nothing
    if word == NOP:
        return A64Instruction(word, NOTHING)
    if word >> 22 == 0x354:  # hints, barriers, registers of the system
        return A64Instruction(word, PLAIN)
    return A64Instruction(word, UNFIT)  # svc, brk, blraa: they say where they are
