# SPDX-License-Identifier: Apache-2.0
"""Find the code that a function can reach, and the registers that this code may overwrite.

The result is an upper bound. A function counts as a whole, and so does a function whose address
is taken. If a call leads through a pointer that the file does not fill, any code may follow.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from soscope.inspect.audit import machine as m
from soscope.inspect.audit.loader import CodePiece, Loader
from soscope.inspect.audit.machine import Flow, State, Value

_MAX_FUNCTIONS = 20_000
_MAX_BYTES = 1 << 20  # limit for one function
_ROUNDS = 2  # passes; nested loops would need more
_STUB = 5  # instructions of a stub, at most
_WITHOUT_RANGE = 256  # bytes of a function whose length is in no unwind table


class Write(NamedTuple):
    """The instructions that overwrite one part: their number, and the first one."""

    times: int
    vaddr: int
    function: int
    text: str


class Leap(NamedTuple):
    """A call or jump whose target is not in the file; `through` is the pointer, None if unknown.

    `name` is the name of the pointer, if known, or of a function that other images may replace.
    """

    vaddr: int
    function: int
    through: int | None
    name: str


class Reach:
    """What can be reached: functions by address, writes by part, and unknown calls.

    `instructions` is the number of instructions, `undecoded` the number of bytes that capstone
    cannot decode.
    """

    __slots__ = ("functions", "instructions", "leaps", "undecoded", "writes")

    def __init__(self) -> None:
        self.functions: dict[int, CodePiece] = {}
        self.writes: dict[str, Write] = {}
        self.leaps: list[Leap] = []
        self.instructions = 0
        self.undecoded = 0


class Reaching:
    """The analysis of one loader; results for functions and pointers are cached."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader
        self._looks: dict[int, _Look] = {}
        self._stored: dict[int, tuple[set[int], bool]] = {}
        self._named: dict[int, list[CodePiece]] | None = None

    def reach(self, starts: list[int]) -> Reach:
        """Return what can be reached from functions at these link-time addresses."""
        reach = Reach()
        todo = list(starts)
        while todo and len(reach.functions) < _MAX_FUNCTIONS:
            at = todo.pop()
            function = self._function(at)
            if function.vaddr in reach.functions:
                continue
            reach.functions[function.vaddr] = function
            look = self._look(function)
            look.settle()
            reach.instructions += look.instructions
            reach.undecoded += look.undecoded
            for part, write in look.writes.items():
                old = reach.writes.get(part)
                count = write.times + (0 if old is None else old.times)
                reach.writes[part] = (old or write)._replace(times=count)
            todo += look.targets
            for vaddr, value in look.leaps:
                targets, leap = self._follow(function.vaddr, vaddr, value)
                todo += targets
                if leap is not None:
                    reach.leaps.append(leap)
        reach.leaps.sort()
        return reach

    def _function(self, vaddr: int) -> CodePiece:
        """Return the code to analyse for a call of `vaddr`: the whole function, or a stub."""
        known = self.loader.function_at(vaddr)
        if known is None:
            return CodePiece(vaddr, _WITHOUT_RANGE)
        if self.loader.is_function(vaddr):
            return known
        isa = self.loader.isa
        state = isa.bare()
        for insn in list(isa.instructions(self.loader.bytes_at(vaddr, 32), vaddr))[:_STUB]:
            kind = isa.flow(insn, state).kind
            if kind == m.JUMP_TO:
                return CodePiece(vaddr, insn.address + insn.size - vaddr)
            if kind != m.NEXT:
                break
        return known

    def _look(self, function: CodePiece) -> _Look:
        known = self._looks.get(function.vaddr)
        if known is None:
            is_known = self.loader.function_at(function.vaddr) is not None
            is_stub = function != self.loader.function_at(function.vaddr)
            known = _Look(self.loader, function, is_bounded=is_known, is_stub=is_stub)
            self._looks[function.vaddr] = known
        return known

    # ---- pointers ----

    def _follow(self, function: int, vaddr: int, value: Value) -> tuple[list[int], Leap | None]:
        """Return the targets of a call through a pointer, and a Leap if there may be others."""
        if value is None or value[0] != "at":
            if value is not None and value[0] == "num":
                return [int(value[1])], None
            return [], Leap(vaddr, function, None, "")
        pointer = int(value[1])
        target = self.loader.pointer(pointer)
        if target is not None and target.interposed_as:
            return [target.vaddr], Leap(vaddr, function, pointer, target.interposed_as)
        stored, is_open = self._stores(pointer)
        targets = sorted(stored | ({target.vaddr} if target is not None else set()))
        if targets and not is_open and not self.loader.is_writable(pointer):
            return targets, None
        return targets, Leap(vaddr, function, pointer, self.loader.object_at(pointer))

    def _stores(self, pointer: int) -> tuple[set[int], bool]:
        """Return the functions that the file stores in a pointer, and whether it stores others."""
        known = self._stored.get(pointer)
        if known is not None:
            return known
        targets: set[int] = set()
        is_open = False
        loader = self.loader
        index = self._index()
        near = {function for key in loader.isa.keys(pointer) for function in index.get(key, ())}
        for function in sorted(near):
            for vaddr, size, value in self._look(function).stores:
                if not vaddr <= pointer < vaddr + size:
                    continue
                is_code = value is not None and value[0] == "num" and loader.is_code(value[1])
                if is_code and value is not None and vaddr == pointer:
                    targets.add(int(value[1]))
                else:
                    is_open = True
        self._stored[pointer] = targets, is_open
        return self._stored[pointer]

    def _index(self) -> dict[int, list[CodePiece]]:
        """Return writable address -> functions that may refer to it."""
        if self._named is None:
            self._named = {}
            loader = self.loader
            for function in loader.functions:
                code = loader.code(function)
                place = (function.vaddr, loader.table, *loader.writable)
                for vaddr in loader.isa.mentions(code, *place):
                    self._named.setdefault(vaddr, []).append(function)
        return self._named


class _Look:
    """The analysis of one function, from its first byte to its last, in order of address.

    One pass is enough to find its stores. `settle` finds the rest. If the function calls unknown
    targets, it makes further passes, with the states that backward jumps bring.
    """

    __slots__ = (
        "_back",
        "_function",
        "_insns",
        "_is_bounded",
        "_is_settled",
        "_is_stub",
        "_loader",
        "instructions",
        "leaps",
        "stores",
        "targets",
        "undecoded",
        "writes",
    )

    def __init__(
        self, loader: Loader, function: CodePiece, *, is_bounded: bool, is_stub: bool
    ) -> None:
        self._loader = loader
        self._function = function
        self._is_bounded = is_bounded
        self._is_stub = is_stub
        self._back: dict[int, State] = {}
        self.writes: dict[str, Write] = {}
        code = loader.bytes_at(function.vaddr, min(function.size, _MAX_BYTES))
        self.instructions = 0
        self.undecoded = 0
        self._is_settled = False
        self._insns = list(loader.isa.instructions(code, function.vaddr))
        self._run()

    def settle(self) -> None:
        """Find all writes, and as many targets of calls as possible."""
        if self._is_settled:
            return
        self._is_settled = True
        if any(value is None for _, value in self.leaps):
            self._back = {}
            for _ in range(_ROUNDS):
                self._run(is_last=False)
            self._run()
        for insn in self._insns:
            self._count(insn)

    def _run(self, *, is_last: bool = True) -> None:
        """Make one pass; except in the last one, skip code that no known path reaches."""
        self.targets: list[int] = []
        self.leaps: list[tuple[int, Value]] = []
        self.stores: list[tuple[int, int, Value]] = []
        isa, table = self._loader.isa, self._loader.table
        start = isa.bare()
        tables: dict[str, Value] = {}
        pending: dict[int, State] = {}
        back, self._back = self._back, {}
        if self._is_stub and isa.table_register:  # the stub's caller has set this register
            tables[isa.table_register] = ("num", table)
            start.regs |= tables
        state: State | None = start
        farthest = 0
        for insn in self._insns:
            for waiting in (pending.pop(insn.address, None), back.get(insn.address)):
                if waiting is None:
                    continue
                # if the stack pointers differ, the call before does not return here
                if state is None or not _is_alike(isa.stack, state, waiting):
                    state = waiting.copy()
                else:
                    state.merge(waiting)
            if state is None:
                if not is_last:
                    continue
                # reached by a backward jump or a table: only values of the whole function are
                # known
                state = State(dict(tables))
            flow = isa.flow(insn, state)
            self._note(insn, flow, state)
            store = isa.stores(insn, state)
            if store is not None:
                self.stores.append(store)
            if flow.kind in (m.CALL, m.CALL_TO):
                isa.call(insn, state)
            else:
                isa.step(insn, state)
                if table:
                    for part in isa.writes(insn):
                        if state.regs.get(part) == ("num", table):
                            tables[part] = ("num", table)
            if flow.kind in (m.JUMP, m.BRANCH) and flow.target is not None:
                farthest = max(farthest, flow.target)
                waits = pending if flow.target > insn.address else self._back
                known = waits.get(flow.target)
                if known is None:
                    waits[flow.target] = state.copy()
                else:
                    known.merge(state)
            if flow.kind in (m.JUMP, m.JUMP_TO, m.RETURN, m.STOP):
                state = None
                if not self._is_bounded and insn.address >= farthest:
                    end = self._insns.index(insn) + 1
                    del self._insns[end:]
                    break

    def _count(self, insn: Any) -> None:
        if not insn.id:
            self.undecoded += insn.size
            return
        self.instructions += 1
        for part in self._loader.isa.writes(insn):
            old = self.writes.get(part)
            if old is None:
                text = f"{insn.mnemonic} {insn.op_str}".strip()
                self.writes[part] = Write(1, insn.address, self._function.vaddr, text)
            else:
                self.writes[part] = old._replace(times=old.times + 1)

    def _note(self, insn: Any, flow: Flow, state: State) -> None:
        """Record the target of an instruction, and functions whose address it takes."""
        start, end = self._function.vaddr, self._function.vaddr + self._function.size
        if flow.target is not None and flow.kind in (m.CALL, m.JUMP, m.BRANCH):
            if not start <= flow.target < end:
                self.targets.append(flow.target)
        elif flow.kind in (m.CALL_TO, m.JUMP_TO) and flow.value != ("table",):
            self.leaps.append((insn.address, flow.value))
        taken = self._loader.isa.taken(insn, state)
        if taken is not None and self._loader.is_function(taken):
            self.targets.append(taken)


def _is_alike(stack: str, state: State, other: State) -> bool:
    """Return whether two paths to an instruction have the same stack pointer, as they must."""
    return state.regs.get(stack) == other.regs.get(stack) or other.regs.get(stack) is None
