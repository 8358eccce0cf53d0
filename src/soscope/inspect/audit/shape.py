# SPDX-License-Identifier: Apache-2.0
"""Find trampolines by what they do, without names.

A lazy resolver's trampoline starts with two more words on the stack than the called function may
see. It makes a call, removes these words, and goes on at the address that the call returned. A
TLS descriptor's function reads the second word of its descriptor, finds the thread's memory, and
may have to call a function to allocate more of it.
"""

from __future__ import annotations

from typing import Any

from soscope.inspect.audit import machine as m
from soscope.inspect.audit.loader import CodePiece, Loader
from soscope.inspect.audit.machine import Flow, State

RESOLVE = "resolve"  # resolver of a lazy slot
PROFILE = "profile"  # resolver when an audit module or sprof watches calls
TLSDESC = "tlsdesc"  # function of a TLS descriptor whose variable may not be allocated yet

_MAX_STEPS = 6000
_PIECE = 512
_LONGEST = 15  # bytes of an instruction, at most
_LONGEST_FUNCTION = 2048
_MOST_CALLS = 3  # calls; a function with more is something else
_LEAST_KEPT = 2


class Trampoline:
    """One trampoline; `vaddr` is its first instruction, `calls` what it calls before it leaves.

    `kept` are the parts that have their entry values at every way out. `sometimes` are parts for
    which that depends on the path. `writes` tells where it overwrites a part itself. `marks`
    describe how it saves them: "saved xsavec 0xee", "aligned 64", "leaves by jump".
    """

    __slots__ = ("calls", "function", "kept", "kind", "marks", "sometimes", "vaddr", "writes")

    def __init__(
        self,
        kind: str,
        vaddr: int,
        function: CodePiece,
        calls: list[int],
        exits: list[State],
        marks: frozenset[str],
        writes: dict[str, tuple[int, str]],
    ) -> None:
        self.writes = writes
        self.kind = kind
        self.vaddr = vaddr
        self.function = function
        self.calls = calls
        self.marks = marks
        held: dict[str, set[object]] = {}
        for state in exits:
            for part, value in state.regs.items():
                held.setdefault(part, set()).add(_is_kept(part, value))
        self.kept = frozenset(part for part, ways in held.items() if ways == {"always"})
        self.sometimes = frozenset(
            part for part, ways in held.items() if part not in self.kept and "no" not in ways
        )


def _is_kept(part: str, value: m.Value) -> str:
    if value == ("in", part):
        return "always"
    return "sometimes" if value == ("some", part) else "no"


def trampolines(loader: Loader) -> list[Trampoline]:
    """Return the trampolines of a loader, in order of address. Raises FormatError."""
    by_vaddr: dict[int, Trampoline] = {}
    leaves, descriptors = loader.isa.leaves, loader.isa.descriptors
    codes = [(piece, loader.code(piece)) for piece in loader.functions]
    for function, code in codes:
        loader.isa.learn(code, function.vaddr)
    for function, code in codes:
        if len(code) > _LONGEST_FUNCTION:
            continue
        if leaves.search(code) or descriptors.search(code, 0, 64):
            trampoline = _Walk(loader, function).result()
            if trampoline is not None:
                by_vaddr.setdefault(trampoline.vaddr, trampoline)
    return [by_vaddr[vaddr] for vaddr in sorted(by_vaddr)]


class _Walk:
    """All paths through one function, with the possible states at each instruction."""

    def __init__(self, loader: Loader, function: CodePiece) -> None:
        self.loader = loader
        self.isa = loader.isa
        self.function = function
        self.insns: dict[int, Any] = {}
        self.states: dict[int, State] = {}
        self.calls: dict[int, int] = {}
        self.left: dict[int, State] = {}  # states at jumps to, or calls of, the resolved function
        self.returned: dict[int, State] = {}
        self.called_on: set[int] = set()
        self.marks: frozenset[str] = frozenset()
        self.written: dict[str, tuple[int, str]] = {}

    def result(self) -> Trampoline | None:
        """Return the function as a trampoline, None if it is not one."""
        start = self._start()
        if start is None or not self._walk(start):
            return None
        if not self.calls:
            return None
        calls = [self.calls[at] for at in sorted(self.calls)]
        if self.left and not (self.left.keys() <= self.called_on):
            kind = PROFILE if self.called_on else RESOLVE
            exits = list(self.left.values())
            return Trampoline(kind, start, self.function, calls, exits, self.marks, self.written)
        if self.returned and self._is_descriptor():
            exits = list(self.returned.values())
            trampoline = Trampoline(
                TLSDESC, start, self.function, calls, exits, self.marks, self.written
            )
            # any other function returns with whatever its callee left in these registers
            if len(trampoline.kept & self.isa.scratch) >= _LEAST_KEPT:
                return trampoline
        return None

    def _is_descriptor(self) -> bool:
        return {"descriptor"} <= self.marks and bool(self.marks & {"fs", "gs"})

    def _start(self) -> int | None:
        """Return the first instruction that is not padding."""
        at = self.function.vaddr
        while at < self.function.vaddr + self.function.size:
            insn = self._insn(at)
            if insn is None or not self.isa.is_padding(insn):
                return at if insn is not None else None
            at += insn.size
        return None

    def _insn(self, vaddr: int) -> Any:
        known = self.insns.get(vaddr)
        if known is None:
            if not self.loader.is_code(vaddr):
                return None
            code = self.loader.bytes_at(vaddr, _PIECE)
            for insn in self.isa.instructions(code, vaddr):
                if insn.address in self.insns:
                    break
                # the last instruction may be cut
                if insn.address > vaddr and insn.address + _LONGEST > vaddr + len(code):
                    break
                self.insns[insn.address] = insn
            known = self.insns.get(vaddr)
        return known

    def _walk(self, start: int) -> bool:
        """Walk all paths; return False if that takes too long for a trampoline."""
        self.states[start] = self.isa.entry()
        todo = [start]
        for _ in range(_MAX_STEPS):
            if not todo:
                return True
            at = todo.pop()
            insn = self._insn(at)
            if insn is None or not insn.id:
                return False
            state = self.states[at].copy()
            flow = self.isa.flow(insn, state)
            if flow.kind == m.RETURN and self.isa.stack in ("rsp", "esp"):
                self._note_return(at, state, flow)
                continue
            if flow.kind == m.RETURN:
                self._note_plain_return(at, state)
                continue
            if flow.kind == m.CALL:
                if not state.has_left and flow.target is not None:
                    self.calls[at] = flow.target
                    if len(self.calls) > _MOST_CALLS:
                        return False
                self.isa.call(insn, state)
            elif flow.kind == m.CALL_TO:
                if not state.has_left and _is_result(flow.value):
                    self.called_on.add(at)
                    self.left[at] = state.copy()
                    state.has_left = True
                self.isa.call(insn, state)
            elif flow.kind == m.JUMP_TO:
                if _is_result(flow.value) and self._has_dropped(state, 0):
                    self.left[at] = state
                    self.marks |= {"leaves by jump"}
                continue
            elif flow.kind == m.STOP:
                continue
            else:
                if not state.has_left:
                    for part in self.isa.writes_at(insn, state):
                        text = f"{insn.mnemonic} {insn.op_str}".strip()
                        self.written.setdefault(part, (at, text))
                self.isa.step(insn, state)
            self.marks |= state.marks
            if flow.kind != m.JUMP:
                self._go(at + insn.size, state, todo)
            if flow.kind in (m.JUMP, m.BRANCH) and flow.target is not None:
                self._go(flow.target, state, todo)
        return False

    def _go(self, to: int, state: State, todo: list[int]) -> None:
        known = self.states.get(to)
        if known is None:
            self.states[to] = state.copy()
        elif not known.merge(state):
            return
        todo.append(to)

    def _note_return(self, at: int, state: State, flow: Flow) -> None:
        """Record a return, which may be a jump to an address on the stack."""
        if _is_result(flow.value):
            word = self.isa.bits // 8
            if self._has_dropped(state, word + (flow.target or 0)):
                self.left[at] = state
                self.marks |= {"leaves by return"}
        elif not flow.target:
            self._note_plain_return(at, state)

    def _note_plain_return(self, at: int, state: State) -> None:
        if state.regs.get(self.isa.stack) == ("sp", 0, 0) and not state.has_left:
            self.returned[at] = state

    def _has_dropped(self, state: State, more: int) -> bool:
        """Return whether the stack pointer is as the called function expects it."""
        place = state.regs.get(self.isa.stack)
        return place is not None and place == ("sp", 0, self.isa.below - more)


def _is_result(value: m.Value) -> bool:
    return value is not None and value[0] == "result"
