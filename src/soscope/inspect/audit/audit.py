# SPDX-License-Identifier: Apache-2.0
"""The audit: which registers each resolver trampoline saves, and which it may lose."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from soscope.binfmt.elf import constants as c
from soscope.inspect.audit import machine as m
from soscope.inspect.audit.loader import GLIBC, CodePiece, Loader, open_loader, own_loader
from soscope.inspect.audit.machine import Flow, Group, State, Value
from soscope.model.record import Record, fresh

# Find the code that a function can reach, and the registers that this code may overwrite.
#
# The result is an upper bound. A function counts as a whole, and so does a function whose address
# is taken. If a call leads through a pointer that the file does not fill, any code may follow.

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


class Reach(Record):
    """What can be reached: functions by address, writes by part, and unknown calls.

    `instructions` is the number of instructions, `undecoded` the number of bytes that capstone
    cannot decode.
    """

    functions: dict[int, CodePiece] = fresh(dict)
    writes: dict[str, Write] = fresh(dict)
    leaps: list[Leap] = fresh(list)
    instructions: int = 0
    undecoded: int = 0


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


# Find trampolines by what they do, without names.
#
# A lazy resolver's trampoline starts with two more words on the stack than the called function may
# see. It makes a call, removes these words, and goes on at the address that the call returned. A
# TLS descriptor's function reads the second word of its descriptor, finds the thread's memory, and
# may have to call a function to allocate more of it.

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


# The audit of a resolver: what each trampoline saves, what may be overwritten, and a verdict.
#
# Only argument registers are compared. By the psABI every function may overwrite the others, so no
# caller keeps anything in them when it calls through a slot.

# fates of a register
SAVED = "saved"  # has its old value afterwards, whatever the resolver does
UNLESS_CHANGED = "saved-unless-changed"  # as SAVED, unless an audit module (LD_AUDIT) changes it
UNTOUCHED = "untouched"  # not saved, but no reachable code overwrites it
OPEN = "open"  # not saved, and no code in this file overwrites it
LOST = "lost"  # not saved, and overwritten
ABSENT = "absent"  # processors that use this trampoline lack the register

# verdicts
SOUND = "sound"
CONDITIONAL = "conditional"  # sound if functions outside of the file keep the registers
UNSOUND = "unsound"

JUDGED = (m.ARGUMENT, m.REGPARM, m.VECTOR_COUNT, m.RESULT_PLACE, m.SCRATCH)
_VERSION = re.compile(rb"stable release version (\d+\.\d+)")
_MAX_TEXT = 1 << 24
_EVERY = "on every processor"
_ALL = ("sse", "avx", "avx512", "mpx")


class OverwriteSite(NamedTuple):
    """An instruction that overwrites a register; `function` is its function's name or address."""

    vaddr: int
    function: str
    text: str
    times: int


class Register(NamedTuple):
    """A register, or several with the same fate; `role` as in `machine.Group`."""

    name: str
    role: str
    fate: str
    site: OverwriteSite | None


class UnknownCall(NamedTuple):
    """A call on the path whose target is not in the file; `through` is the name of the pointer."""

    vaddr: int
    function: str
    through: str


class Path(NamedTuple):
    """The code that a trampoline's call can reach; `start` is the link-time address it calls."""

    start: int
    name: str
    functions: int
    instructions: int
    undecoded: int
    ways: tuple[UnknownCall, ...]


class Variant(NamedTuple):
    """One trampoline; `kind` as in `shape`, `condition` tells when the loader uses it.

    `how` is how it saves the processor's state beside general registers, "" if by moves.
    `alignment` is the alignment of its stack in bytes, None if it does not align the stack.
    """

    kind: str
    vaddr: int
    name: str
    condition: str
    how: str
    alignment: int | None
    registers: tuple[Register, ...]
    path: Path
    verdict: str

    def named(self, *fates: str) -> list[str]:
        """Return the names of the registers with one of these fates."""
        return [register.name for register in self.registers if register.fate in fates]


class Audit(NamedTuple):
    """The results for one dynamic linker.

    `loader` is "glibc" or "musl". `version` is "" if the file does not contain it. `binds_lazily`
    is False if the linker has no trampolines because it never binds lazily.
    """

    path: str
    loader: str
    version: str
    arch: str
    bits: int
    build_id: str
    binds_lazily: bool
    variants: tuple[Variant, ...]

    @property
    def verdict(self) -> str | None:
        """The worst verdict on a trampoline for plain lazy binding, None if there is none."""
        verdicts = {variant.verdict for variant in self.variants if variant.kind == RESOLVE}
        return next(
            (verdict for verdict in (UNSOUND, CONDITIONAL, SOUND) if verdict in verdicts), None
        )


def audit(path: str | None = None) -> Audit:
    """Audit the dynamic linker at `path`; None means the linker of this Python interpreter.

    Raises SoscopeError: there is no such file (no-such-file), it is not a dynamic linker
    (no-loader), it cannot be disassembled (no-disassembler), capstone is missing (no-extra).
    Raises FormatError.
    """
    loader = open_loader(path if path is not None else own_loader())
    image = loader.image
    assert image.header is not None
    variants: tuple[Variant, ...] = ()
    if loader.kind == GLIBC:
        listed = trampolines(loader)
        reaching = Reaching(loader)
        variants = tuple(_variant(loader, reaching, trampoline, listed) for trampoline in listed)
    return Audit(
        loader.path,
        loader.kind,
        _version(loader),
        loader.arch,
        image.encoding.bits,
        image.build_id.hex(),
        loader.kind == GLIBC,
        variants,
    )


def _version(loader: Loader) -> str:
    for segment in loader.image.segments:
        if segment.type == c.PT_LOAD and not segment.flags & 2:
            text = loader.image.source.read(segment.offset, min(segment.filesz, _MAX_TEXT))
            match = _VERSION.search(text)
            if match is not None:
                return match[1].decode("ascii")
    return ""


def _variant(
    loader: Loader, reaching: Reaching, trampoline: Trampoline, others: list[Trampoline]
) -> Variant:
    reach = reaching.reach(trampoline.calls)
    condition, features = _condition(
        trampoline, [other for other in others if other.kind == trampoline.kind]
    )
    groups = loader.isa.kept_by_tlsdesc if trampoline.kind == TLSDESC else loader.isa.groups
    registers = tuple(
        _register(loader, group, trampoline, reach, features) for group in groups if group.parts
    )
    judged = {register.fate for register in registers if register.role in JUDGED}
    verdict = UNSOUND if LOST in judged else CONDITIONAL if OPEN in judged else SOUND
    start = trampoline.calls[-1] if trampoline.kind == TLSDESC else trampoline.calls[0]
    return Variant(
        trampoline.kind,
        trampoline.vaddr,
        loader.name(trampoline.vaddr),
        condition,
        next((mark[6:] for mark in sorted(trampoline.marks) if mark.startswith("saved ")), ""),
        next(
            (int(mark[8:]) for mark in sorted(trampoline.marks) if mark.startswith("aligned ")),
            None,
        ),
        registers,
        Path(
            start,
            loader.name(start),
            len(reach.functions),
            reach.instructions,
            reach.undecoded,
            tuple(_way(loader, leap) for leap in reach.leaps),
        ),
        verdict,
    )


def _way(loader: Loader, leap: Leap) -> UnknownCall:
    through = leap.name
    if leap.through is not None and not through:
        through = f"{leap.through:#x}"
    return UnknownCall(leap.vaddr, _function_name(loader, leap.function), through)


def _function_name(loader: Loader, vaddr: int) -> str:
    function = loader.function_at(vaddr)
    if function is None or function.vaddr != vaddr:
        return loader.name(vaddr) or f"{vaddr:#x}"
    return loader.name_of(function) or f"{vaddr:#x}"


def _register(
    loader: Loader, group: Group, trampoline: Trampoline, reach: Reach, features: tuple[str, ...]
) -> Register:
    """Return what happens to a group of registers in a trampoline and its callees."""
    if group.needs and group.needs not in features:
        return Register(group.name, group.role, ABSENT, None)
    parts = frozenset(group.parts)
    if parts <= trampoline.kept:
        return Register(group.name, group.role, SAVED, None)
    if trampoline.kind == PROFILE and parts <= trampoline.kept | trampoline.sometimes:
        return Register(group.name, group.role, UNLESS_CHANGED, None)
    left = sorted(parts - trampoline.kept)
    writes = [reach.writes[part] for part in left if part in reach.writes]
    site = None
    if writes:
        first = max(writes)
        site = OverwriteSite(
            first.vaddr,
            _function_name(loader, first.function),
            first.text,
            sum(write.times for write in writes),
        )
    own = next((trampoline.writes[part] for part in left if part in trampoline.writes), None)
    if own is not None and site is None:
        site = OverwriteSite(own[0], _function_name(loader, trampoline.function.vaddr), own[1], 1)
    fate = LOST if site is not None else OPEN if reach.leaps or reach.undecoded else UNTOUCHED
    return Register(group.name, group.role, fate, site)


def _condition(trampoline: Trampoline, alike: list[Trampoline]) -> tuple[str, tuple[str, ...]]:
    """Return when the loader uses a trampoline, and the features of processors that use it.

    glibc's loader chooses the best trampoline in its file by CPUID, and by what the kernel has
    switched on (sysdeps/x86_64/dl-machine.h, elf_machine_runtime_setup).
    """
    ways = {_way_of(other) for other in alike}
    way = _way_of(trampoline)
    if way == "fxsave" and ways & {"xsave", "xsavec"}:
        return "without XSAVE: neither AVX nor AVX-512", ("sse",)
    if way == "xsave" and "xsavec" in ways:
        return "with XSAVE, without XSAVEC", _ALL
    if way in ("xsave", "xsavec"):
        return f"with {way.upper()}", _ALL
    if way in ("plain", "fnsave") and "fxsave" in ways:
        return "without FXSAVE: no SSE", ()
    if way == "zmm":
        return "with AVX-512", _ALL
    if way == "ymm" and "zmm" in ways:
        return "with AVX, without AVX-512", ("sse", "avx")
    if way == "ymm":
        return "with AVX", _ALL
    if way == "xmm" and ways & {"ymm", "zmm"}:
        return "without AVX", ("sse",)
    leaving = {"leaves by jump", "leaves by return"}
    how = trampoline.marks & leaving
    if how == {"leaves by jump"} and any(other.marks & leaving - how for other in alike):
        return "with shadow stacks (it leaves by a jump)", _ALL
    return _EVERY, _ALL


def _way_of(trampoline: Trampoline) -> str:
    """Return how a trampoline saves vector registers: an instruction's name, or the widest move."""
    for mark in trampoline.marks:
        if mark.startswith("saved "):
            return mark.split()[1].removesuffix("opt")
    held = trampoline.kept | trampoline.sometimes
    if trampoline.kind == TLSDESC:
        held = trampoline.kept
    return next((f"{kind}mm" for kind in "zyx" if f"{kind}mm0" in held), "plain")
