# SPDX-License-Identifier: Apache-2.0
"""The known state of registers and stack at one instruction, and the interface of an ISA.

A register is divided into *parts*, each of which is written or kept as a whole: "rdi", "xmm0"
(the low 128 bits of zmm0), "ymm0" (only bits 128 to 255), "zmm0" (the rest), "x0", "q0".

A value is None (anything) or one of the tuples:

    ("in", part)           the part's value at the entry
    ("some", part)         that value on some paths to here, another one on other paths
    ("sp", origin, n)      n bytes behind the stack pointer at the entry (origin 0), or behind
                           the stack pointer that the instruction at `origin` has aligned
    ("num", n)             the number, or link-time address, n
    ("table",)             a number plus something unknown: the target of a switch
    ("at", n)              the word stored at the link-time address n
    ("result", n)          the result of the call at n
    ("parts", {part: …})   in memory only: an area that an instruction like fxsave has filled
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

Value = tuple[Any, ...] | None

# ways in which an instruction goes on
NEXT = "next"
JUMP = "jump"  # jumps to a known target
BRANCH = "branch"  # jumps there, or goes on
CALL = "call"  # calls a known target
JUMP_TO = "jump-to"  # jumps to the address in a register or in memory
CALL_TO = "call-to"
RETURN = "return"
STOP = "stop"  # ud2, hlt


class Flow(NamedTuple):
    """How an instruction goes on: to `target`, or to `value` if the target is not known."""

    kind: str
    target: int | None = None
    value: Value = None


ONWARD = Flow(NEXT)


class State:
    """Registers and memory at one instruction; what is in neither table is unknown.

    `memory` is by (origin, offset) on the stack. `has_left` is true once the called function has
    been called, after which arguments no longer matter. `marks` are other things that were
    recognised.
    """

    __slots__ = ("has_left", "marks", "memory", "regs")

    def __init__(
        self,
        regs: dict[str, Value],
        memory: dict[tuple[int, int], Value] | None = None,
        *,
        has_left: bool = False,
        marks: frozenset[str] = frozenset(),
    ) -> None:
        self.regs = regs
        self.memory = {} if memory is None else memory
        self.has_left = has_left
        self.marks = marks

    def copy(self) -> State:
        """Return a copy that can be changed."""
        return State(dict(self.regs), dict(self.memory), has_left=self.has_left, marks=self.marks)

    def forget(self, parts: Iterable[str]) -> None:
        """Mark the values of these parts as unknown."""
        for part in parts:
            self.regs.pop(part, None)

    def merge(self, other: State) -> bool:
        """Merge the state of another path to this instruction; return whether it changed."""
        changed = _merge(self.regs, other.regs)
        changed |= _merge(self.memory, other.memory)
        left, marks = self.has_left or other.has_left, self.marks | other.marks
        changed |= (left, marks) != (self.has_left, self.marks)
        self.has_left, self.marks = left, marks
        return changed


def _merge(ours: dict[Any, Value], theirs: dict[Any, Value]) -> bool:
    changed = False
    for key, old in ours.items():
        new = joined(old, theirs.get(key))
        if new != old:
            changed = True
            ours[key] = new
    for key, value in theirs.items():
        if key not in ours and value is not None and value[0] in ("in", "some"):
            changed = True
            ours[key] = ("some", value[1])
    return changed


def joined(first: Value, other: Value) -> Value:
    """Return what is known about a location that holds `first` or `other`."""
    if first == other:
        return first
    for value in (first, other):
        if value is not None and value[0] in ("in", "some"):
            return ("some", value[1])
    return None


class Group(NamedTuple):
    """Parts with the same role, under the name that documents use.

    `needs` is the processor feature that they depend on: "", "sse", "avx", "avx512", "mpx".
    """

    name: str
    role: str
    parts: tuple[str, ...]
    needs: str = ""


# roles
ARGUMENT = "argument"  # the psABI passes arguments in it
REGPARM = "regparm"  # i386: only for functions declared regparm or fastcall
VECTOR_COUNT = "vector-count"  # how many vector registers a variadic call uses
RESULT_PLACE = "result-place"  # the address for a large result
STATIC_CHAIN = "static-chain"  # for nested functions, which are not called through slots
EXTENDED = "extended"  # arguments only of __regcall and the like
SCRATCH = "scratch"  # other registers that a TLS descriptor's function must keep


class InstructionSet:
    """One instruction set, by capstone: what its instructions write, move and lead to.

    `groups` are the argument registers in order. `kept_by_tlsdesc` are the registers that a TLS
    descriptor's function must keep. `scratch` are registers that any function may overwrite.
    `below` is how many bytes the stub has pushed; a trampoline removes them when it leaves.
    `table_register` holds the address of the global offset table in a stub, "" if stubs need
    none. `leaves` matches code that a resolver's trampoline must contain: a jump through a
    register, or a return that removes words. `descriptors` matches the start of a TLS
    descriptor's function: a load of the second word at its argument.
    """

    bits: int
    stack: str
    result: str
    scratch: frozenset[str]
    groups: tuple[Group, ...]
    kept_by_tlsdesc: tuple[Group, ...]
    below: int
    leaves: re.Pattern[bytes]
    descriptors: re.Pattern[bytes]
    table_register: str = ""

    def entry(self) -> State:
        """Return the state at the first instruction of a function."""
        regs: dict[str, Value] = {part: ("in", part) for part in self.all_parts()}
        regs[self.stack] = ("sp", 0, 0)
        return State(regs)

    def bare(self) -> State:
        """Return the state in which only the start of the stack is known."""
        return State({self.stack: ("sp", 0, 0)})

    def all_parts(self) -> Iterable[str]:
        """Return the names of all register parts."""
        raise NotImplementedError

    def instructions(self, code: bytes, vaddr: int) -> Iterable[Any]:
        """Decode code linearly; bytes that cannot be decoded have `id` 0."""
        raise NotImplementedError

    def is_padding(self, insn: Any) -> bool:
        """Return whether an instruction only serves alignment."""
        raise NotImplementedError

    def writes(self, insn: Any) -> frozenset[str]:
        """Return the parts that an instruction overwrites, partly or as a whole."""
        raise NotImplementedError

    def writes_at(self, insn: Any, state: State) -> frozenset[str]:
        """Return these parts more exactly; `state` is the state before the instruction."""
        return self.writes(insn)

    def flow(self, insn: Any, state: State) -> Flow:
        """Return where execution goes after an instruction; `state` is the state before it."""
        raise NotImplementedError

    def step(self, insn: Any, state: State) -> None:
        """Apply the effect of an instruction to `state`; the caller handles calls."""
        raise NotImplementedError

    def call(self, insn: Any, state: State) -> None:
        """Apply the effect of a call that returns to `state`."""
        scratch = self.scratch
        state.regs = {part: value for part, value in state.regs.items() if part not in scratch}
        state.regs[self.result] = ("result", insn.address)

    def stores(self, insn: Any, state: State) -> tuple[int, int, Value] | None:
        """Return (link-time address, size, value) of a store to a fixed address, else None."""
        raise NotImplementedError

    def learn(self, code: bytes, vaddr: int) -> None:
        """Record what a function does to a register, for calls of it."""

    def taken(self, insn: Any, state: State) -> int | None:
        """Return the link-time address that an instruction computes into a register, else None."""
        raise NotImplementedError

    def mentions(self, code: bytes, vaddr: int, table: int, low: int, high: int) -> set[int]:
        """Return the addresses from `low` to `high` that code may refer to; rather too many.

        `table` is the link-time address of the global offset table.
        """
        raise NotImplementedError

    def keys(self, pointer: int) -> tuple[int, ...]:
        """Return the addresses with which `mentions` may refer to a pointer."""
        raise NotImplementedError
