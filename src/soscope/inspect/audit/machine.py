# SPDX-License-Identifier: Apache-2.0
"""What is known of the registers and the stack at one instruction, and what an ISA must tell.

A register is counted in *parts*, of which each is written or kept as a whole: "rdi", "xmm0" (the
low 128 bits of zmm0), "ymm0" (bits 128 to 255 alone), "zmm0" (the rest), "x0", "q0".

A value is None (anything) or one of the tuples:

    ("in", part)           what the part held at the entry
    ("some", part)         that, on some ways here, and something else on others
    ("sp", origin, n)      n bytes behind the stack pointer at the entry (origin 0), or behind
                           what the instruction at `origin` has made of it by aligning
    ("num", n)             the number, or link-time address, n
    ("table",)             a number plus something unknown: where a switch goes on
    ("at", n)              what is stored at the link-time address n
    ("result", n)          what the call at n has returned
    ("parts", {part: …})   in memory only: an area that an instruction like fxsave has filled
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

Value = tuple[Any, ...] | None

# how an instruction goes on
NEXT = "next"
JUMP = "jump"  # to a known target
BRANCH = "branch"  # there, or on
CALL = "call"  # of a known target
JUMP_TO = "jump-to"  # to what a register or memory holds
CALL_TO = "call-to"
RETURN = "return"
STOP = "stop"  # ud2, hlt


class Flow(NamedTuple):
    """How an instruction goes on: to `target`, or to `value` where that is not known."""

    kind: str
    target: int | None = None
    value: Value = None


ONWARD = Flow(NEXT)


class State:
    """Registers and memory at one instruction; what is in no table is unknown.

    `memory` is by (origin, offset) on the stack. `has_left` says that the called function has
    been called from here, so that arguments no longer matter; `marks` are what else was seen.
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
        """Let these parts hold anything."""
        for part in parts:
            self.regs.pop(part, None)

    def merge(self, other: State) -> bool:
        """Take what comes another way; return whether that changed anything."""
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
    """Return what is known where a place holds `first` or `other`."""
    if first == other:
        return first
    for value in (first, other):
        if value is not None and value[0] in ("in", "some"):
            return ("some", value[1])
    return None


class Group(NamedTuple):
    """Parts that have the same role, under the name that people give them.

    `needs` is what the processor must have for them to exist: "", "sse", "avx", "avx512", "mpx".
    """

    name: str
    role: str
    parts: tuple[str, ...]
    needs: str = ""


# roles
ARGUMENT = "argument"  # the psABI passes arguments in it
REGPARM = "regparm"  # i386: of functions declared regparm or fastcall; others take all by the stack
VECTOR_COUNT = "vector-count"  # how many vector registers a variadic call uses
RESULT_PLACE = "result-place"  # where the callee is to put a large result
STATIC_CHAIN = "static-chain"  # of nested functions, which are not called through slots
EXTENDED = "extended"  # arguments of __regcall and the like alone
SCRATCH = "scratch"  # what else a TLS descriptor must keep


class InstructionSet:
    """One instruction set, by capstone: what its instructions write, move and lead to.

    `groups` are the argument registers in order, `kept_by_tlsdesc` what a TLS descriptor's
    function must keep, `scratch` what any function may overwrite. `below` is how many bytes the
    stub has pushed, which a trampoline takes off the stack when it leaves. `table_register` holds
    the address of the global offset table in a stub, "" where stubs need none. `leaves` is code
    that a resolver's trampoline needs, a jump through a register or a return that takes off
    words; `descriptors` what a TLS descriptor's function begins with, a load of the second word
    of what its argument points to.
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
        """Return the state of which nothing is known but where the stack begins."""
        return State({self.stack: ("sp", 0, 0)})

    def all_parts(self) -> Iterable[str]:
        """Return the names of all parts."""
        raise NotImplementedError

    def instructions(self, code: bytes, vaddr: int) -> Iterable[Any]:
        """Decode code linearly; what cannot be decoded has `id` 0."""
        raise NotImplementedError

    def is_padding(self, insn: Any) -> bool:
        """Return whether an instruction is there for alignment alone."""
        raise NotImplementedError

    def writes(self, insn: Any) -> frozenset[str]:
        """Return the parts that an instruction overwrites, in part or as a whole."""
        raise NotImplementedError

    def writes_at(self, insn: Any, state: State) -> frozenset[str]:
        """Return the same, as far as `state`, that before it, says more."""
        return self.writes(insn)

    def flow(self, insn: Any, state: State) -> Flow:
        """Say how an instruction goes on; `state` is that before it."""
        raise NotImplementedError

    def step(self, insn: Any, state: State) -> None:
        """Change `state` as an instruction does; calls are the caller's business."""
        raise NotImplementedError

    def call(self, insn: Any, state: State) -> None:
        """Change `state` as a call does that returns."""
        scratch = self.scratch
        state.regs = {part: value for part, value in state.regs.items() if part not in scratch}
        state.regs[self.result] = ("result", insn.address)

    def stores(self, insn: Any, state: State) -> tuple[int, int, Value] | None:
        """Return (link-time address, size, value) of a store there, None for others."""
        raise NotImplementedError

    def learn(self, code: bytes, vaddr: int) -> None:
        """Look at a function that others may call for what it does to a register."""

    def taken(self, insn: Any, state: State) -> int | None:
        """Return the link-time address that an instruction puts into a register, None for none."""
        raise NotImplementedError

    def mentions(self, code: bytes, vaddr: int, table: int, low: int, high: int) -> set[int]:
        """Return what code may name of the addresses from `low` to `high`; too much does no harm.

        `table` is the link-time address of the global offset table.
        """
        raise NotImplementedError

    def keys(self, pointer: int) -> tuple[int, ...]:
        """Return under which addresses `mentions` may have a pointer."""
        raise NotImplementedError
