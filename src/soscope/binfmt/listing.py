# SPDX-License-Identifier: Apache-2.0
"""Print machine code of stubs as instructions: what all instruction sets share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from soscope.binfmt.isa import part
from soscope.model.arch import arch_named

# The output of every decoder, and a walk over code from one jump to the next.

# How the thread goes on after an instruction.
ON = ""
JUMP = "jump"  # jumps to `Line.target`
CALL = "call"  # calls `Line.target`
THROUGH = "through"  # jumps through the cell at `Line.target`
CALL_THROUGH = "call-through"  # calls through the cell at `Line.target`
LEAVE = "leave"  # jumps to an unknown address, or does not go on

# Kinds of values that a register or a word of the stack can hold.
NUMBER = "number"
CELL = "cell"  # the value in the cell at `Value.number` at run time
REGISTER = "register"  # the value that register `Value.name` had before
UNKNOWN = "unknown"

Read = Callable[[int, int], bytes]


class Value(NamedTuple):
    """The value of a register or a word of the stack, as far as the code alone tells."""

    kind: str
    number: int = 0
    name: str = ""


class Line(NamedTuple):
    """One instruction at link-time address `vaddr`.

    `refer` is the address that it computes or reads, None if it does neither. `known` is False
    for bytes that the decoder does not know.
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

    `flow` is CALL or CALL_THROUGH; for a tail call it is JUMP or THROUGH. `start` is the first of
    the instructions that compute the address, or the instruction itself if there are none. `text`
    is set if `Lister.line` would decode the bytes wrongly, because they are Thumb code.
    """

    vaddr: int
    size: int
    flow: str
    target: int
    start: int
    text: str = ""


class Lister:
    """Decodes instructions in order; `registers` and `stack` are the values that they leave.

    The last word of `stack` is the word at the stack pointer.
    """

    longest = 8  # bytes of an instruction, at most
    step = 1  # alignment of instructions

    def __init__(self, bits: int, order: str, base: int = 0) -> None:
        """Decode for addresses of `bits` bits; `base` is the base of position-independent code."""
        self.bits = bits
        self.order = order
        self.mask = (1 << bits) - 1
        self.registers: dict[str, Value] = {}
        self.stack: list[Value] = []
        self.literals: Callable[[int, int], int | None] | None = None
        if base:
            self.use_base(base)

    def literal(self, vaddr: int, size: int) -> int | None:
        """Return the number in the code at `vaddr`, None if there is no code."""
        return None if self.literals is None else self.literals(vaddr, size)

    def use_base(self, base: int) -> None:
        """Set the value of the register from which distances count."""

    def line(self, code: bytes, vaddr: int) -> Line:
        """Decode the instruction at the start of `code`, and record the values that it leaves."""
        raise NotImplementedError

    def calls(
        self, code: bytes, vaddr: int, stubs: Collection[int], slots: Collection[int]
    ) -> Iterator[CallInstruction]:
        """Yield the instructions in `code`, at `vaddr`, that call one of the stubs or slots."""
        raise NotImplementedError

    def thunks(self, code: bytes, vaddr: int, stubs: Collection[int]) -> Iterator[tuple[int, int]]:
        """Yield (vaddr, stub) of thunks, which only extend the reach of a call to a stub."""
        return iter(())

    def get(self, name: str) -> Value:
        """Return the value of a register."""
        return self.registers.get(name, Value(REGISTER, 0, name))

    def unknown(self, code: bytes, vaddr: int) -> Line:
        """Return the line for bytes that the decoder does not know."""
        code = code[: max(self.step, 1)]
        words = ", ".join(f"{byte:#04x}" for byte in code)
        return Line(vaddr, code, f".byte {words}" if code else "no bytes", LEAVE, known=False)


def spots(code: bytes, pattern: bytes, start: int, end: int) -> Iterator[int]:
    """Yield the positions of `pattern` in code[start:end], also overlapping ones."""
    at = code.find(pattern, start, end)
    while at >= 0:
        yield at
        at = code.find(pattern, at + 1, end)


def walk(lister: Lister, read: Read, vaddr: int, most: int = 24) -> list[Line]:
    """Return the instructions from `vaddr` to the first jump; calls are followed into the callee.

    `read(vaddr, size)` returns the bytes at an address, fewer at the end of the file.
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


# Choose the decoder for the code of an architecture.


def lister_of(arch: str, bits: int, order: str, base: int = 0) -> Lister | None:
    """Return a decoder for `arch`, named as in model/filemap.py; None if there is none.

    `base` is the value of the base register of position-independent code, 0 if it is not known.
    """
    module = part(arch_named(arch), "listing")
    if module is None:
        return None
    lister: Lister = module.LISTER(bits, order, base)
    return lister
