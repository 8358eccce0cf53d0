# SPDX-License-Identifier: Apache-2.0
"""What every decoder gives, and how code is followed from one jump to the next."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

# How code goes on behind an instruction.
ON = ""
JUMP = "jump"  # to `Line.target`
CALL = "call"  # of `Line.target`
THROUGH = "through"  # a jump to where the cell at `Line.target` says
CALL_THROUGH = "call-through"  # a call of where the cell at `Line.target` says
LEAVE = "leave"  # to where nobody knows, or not at all

# What a register or a word of the stack holds.
NUMBER = "number"
CELL = "cell"  # what the cell at `Value.number` holds when the code runs
REGISTER = "register"  # what the register `Value.name` held before
UNKNOWN = "unknown"

Read = Callable[[int, int], bytes]


class Value(NamedTuple):
    """What a register or a word of the stack holds, as far as the code alone tells."""

    kind: str
    number: int = 0
    name: str = ""


class Line(NamedTuple):
    """One instruction at link-time address `vaddr`.

    `refer` is the address that it computes or reads, None where it does neither. `known` is
    False for bytes that are no instruction of the decoder's.
    """

    vaddr: int
    code: bytes
    text: str
    flow: str = ON
    target: int | None = None
    refer: int | None = None
    known: bool = True


class CallInstruction(NamedTuple):
    """An instruction at `vaddr` that calls `target`: a stub or, for CALL_THROUGH, a slot.

    `flow` is CALL, CALL_THROUGH or, for a tail call, JUMP or THROUGH. `start` is where the
    instructions begin that compute the address; the instruction itself where it is one alone.
    `text` is the instruction where `Lister.line` would take it for another one: Thumb's.
    """

    vaddr: int
    size: int
    flow: str
    target: int
    start: int
    text: str = ""


class Lister:
    """Decodes instructions one after another; `registers` and `stack` are what they leave.

    The last word of `stack` is the one that the stack pointer points to.
    """

    longest = 8  # bytes of an instruction
    step = 1  # what addresses of instructions are multiples of

    def __init__(self, bits: int, order: str, base: int = 0) -> None:
        """Decode for addresses of `bits` bits; `base` is what position-independent code has."""
        self.bits = bits
        self.order = order
        self.mask = (1 << bits) - 1
        self.registers: dict[str, Value] = {}
        self.stack: list[Value] = []
        self.literals: Callable[[int, int], int | None] | None = None
        if base:
            self.use_base(base)

    def literal(self, vaddr: int, size: int) -> int | None:
        """Return the number that lies in the code at `vaddr`; None where that is no code."""
        return None if self.literals is None else self.literals(vaddr, size)

    def use_base(self, base: int) -> None:
        """Say what the register holds that distances count from."""

    def line(self, code: bytes, vaddr: int) -> Line:
        """Decode the instruction that `code` begins with, and keep what it leaves."""
        raise NotImplementedError

    def calls(
        self, code: bytes, vaddr: int, stubs: Collection[int], slots: Collection[int]
    ) -> Iterator[CallInstruction]:
        """Give the instructions in `code`, at `vaddr`, that call one of the stubs or slots."""
        raise NotImplementedError

    def thunks(self, code: bytes, vaddr: int, stubs: Collection[int]) -> Iterator[tuple[int, int]]:
        """Give (vaddr, stub) of the code that only makes a call reach further."""
        return iter(())

    def get(self, name: str) -> Value:
        """Return what a register holds."""
        return self.registers.get(name, Value(REGISTER, 0, name))

    def unknown(self, code: bytes, vaddr: int) -> Line:
        """Return the line for bytes that are none of the decoder's."""
        code = code[: max(self.step, 1)]
        words = ", ".join(f"{byte:#04x}" for byte in code)
        return Line(vaddr, code, f".byte {words}" if code else "no bytes", LEAVE, known=False)


def spots(code: bytes, pattern: bytes, start: int, end: int) -> Iterator[int]:
    """Give where `pattern` lies in code[start:end], overlapping ones too."""
    at = code.find(pattern, start, end)
    while at >= 0:
        yield at
        at = code.find(pattern, at + 1, end)


def walk(lister: Lister, read: Read, vaddr: int, most: int = 24) -> list[Line]:
    """Return the instructions from `vaddr` up to the first that jumps; calls are followed.

    `read(vaddr, size)` returns the bytes at an address, fewer where the file ends.
    """
    lines: list[Line] = []
    while len(lines) < most:
        line = lister.line(read(vaddr, lister.longest), vaddr)
        lines.append(line)
        if line.flow == CALL and line.target is not None:
            vaddr = line.target
        elif line.flow == ON:
            vaddr += len(line.code)
        else:
            break
    return lines
