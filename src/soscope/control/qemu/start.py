# SPDX-License-Identifier: Apache-2.0
"""Start a program of another architecture under an emulator, and choose an engine."""

from __future__ import annotations

import os
import time

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.reader import Segment
from soscope.binfmt.isa import part
from soscope.control.breakpoints.images import GuestMemory, base_of
from soscope.control.breakpoints.program import Company
from soscope.control.breakpoints.values import FprUpperHalves
from soscope.control.breakpoints.watch import CallWatch, NoSlots, Sender
from soscope.control.command import Command, ExitStatus
from soscope.control.launch import fork_bare, go_bare
from soscope.control.outcome import EngineVerdict
from soscope.control.program import Program, SessionEvents
from soscope.control.qemu.engine import Engine
from soscope.control.qemu.program import ForeignProgram, RemoteRun
from soscope.control.qemu.sites import DetouredSlots, SiteWatch
from soscope.control.qemu.watches import CheckedWatch, FaultingSlots, PltWatch
from soscope.control.settings import (
    AUTO,
    ENTRIES,
    POISON,
    SITES,
    SLOT,
    Hooks,
    Instrument,
    SessionSettings,
    needing_agent,
)
from soscope.control.signals import Signals
from soscope.control.supervise import Target, Tick
from soscope.control.tracer import AgentSource, MakeBlock, Tracer
from soscope.entry import ptrace
from soscope.entry.breakpoint import Points
from soscope.entry.remote import packets
from soscope.entry.remote.convention import Convention
from soscope.entry.remote.qemu import PIECE, Socket
from soscope.entry.remote.stub import RemoteStub
from soscope.errors import FormatError, RemoteError, UsageError
from soscope.live.images.linkmaps import program_segments
from soscope.model.arch import Arch
from soscope.proc import maps, status
from soscope.proc.status import signal
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


# Get memory of soscope's in a program: its first thread makes one borrowed system call.

SIZE = 2 << 20
_BELOW = 4096  # bytes
_ANSWER = 10.0  # seconds
_READ_WRITE_RUN = 7
_RUN = 4
_PRIVATE = 2


def make(
    stub: RemoteStub,
    memory: GuestMemory,
    convention: Convention,
    loader: ElfImage,
    bias: int,
    *,
    is_code: bool = False,
) -> int:
    """Return the address of `SIZE` bytes that the program has mapped for soscope.

    With `is_code` the memory is executable. The thread is stopped at the first instruction of
    `loader`, and is there again afterwards. Raises RemoteError if the loader has no system call
    instruction to borrow, or if this system call fails.
    """
    vaddr = _system_call(loader, convention)
    if not vaddr:
        raise RemoteError("the program's loader has no system call to borrow")
    at = vaddr + bias
    behind = at + len(convention.system)
    flags = _PRIVATE | convention.mmap_anonymous
    access = _READ_WRITE_RUN if is_code else _READ_WRITE_RUN & ~_RUN
    values = (0, SIZE, access, flags, (1 << memory.coding.bits) - 1, 0)
    changed = {convention.number: convention.mmap}
    changed |= dict(zip(convention.system_words, values, strict=False))
    changed[convention.pc] = at
    if convention.state is not None:  # the system call is in the other instruction set
        state, bit = convention.state
        changed[state] = stub.get(state) | 1 << bit
    if convention.mmap_by_address:  # the arguments lie below the stack
        place = stub.get(convention.sp) - _BELOW
        size = memory.coding.word.size
        for number, value in enumerate(values):
            memory.write_word(place + number * size, value)
        changed = {convention.number: convention.mmap, convention.system_words[0]: place}
        changed[convention.pc] = at
    if convention.system_stack:
        place = changed[convention.sp] = stub.get(convention.sp) - _BELOW
        size = memory.coding.word.size
        for number, value in enumerate(values[len(convention.system_words) :]):
            memory.write_word(place + convention.system_stack + number * size, value)
    before = {name: stub.get(name) for name in (*changed, convention.result)}
    for name, value in changed.items():
        stub.put(name, value)
    stub.insert(behind, convention.breakpoint)
    stub.resume_alone()
    stop = stub.wait(_ANSWER)
    if stop is None or stop.kind != packets.SIGNAL or stub.get(convention.pc) != behind:
        raise RemoteError("a system call of the program's loader could not be borrowed")
    result = stub.get(convention.result)
    stub.remove(behind, convention.breakpoint)
    for name, value in before.items():
        stub.put(name, value)
    if not result or result % 4096 or len(memory.read(result, 8)) < 8:
        raise RemoteError("the program has no memory for the tracer")
    return result


def _system_call(image: ElfImage, convention: Convention) -> int:
    """Return the link-time address of a system call instruction, 0 if there is none."""
    step = convention.code
    for segment in image.segments:
        if segment.type != c.PT_LOAD or not segment.flags & c.PF_X:
            continue
        code = image.read(segment.vaddr, segment.filesz, "PT_LOAD")
        at = code.find(convention.system)
        while at >= 0:
            if not (segment.vaddr + at) % step:
                return segment.vaddr + at
            at = code.find(convention.system, at + 1)
    return 0


# Choose the engine that notices the calls of an emulated program.

_WHAT = {
    POISON: "slots that fault",
    SITES: "breakpoints where stubs jump",
    ENTRIES: "breakpoints where functions begin",
    SLOT: "slots that lead to their PLT entries",
}
_DETOURS = "slots that lead to code of ours"
_ON_STARTING = "each breakpoint would slow all jumps of an emulator"
_TO_CHECK = "the other one that changes slots, for --check"


class EngineChoice:
    """The engine that sees the calls of a program which starts under an emulator.

    `beside` is the engine that it is compared with, or "". `line` describes the choice.
    """

    __slots__ = ("beside", "line", "name")

    def __init__(
        self, asked: str | None, arch: Arch, *, is_checked: bool, because: str = ""
    ) -> None:
        """Choose an engine. Raises UsageError if `asked` does not support programs of `arch`.

        `because` is the reason for the choice, if it differs from the usual ones.
        """
        self.beside = ""
        if asked == ENTRIES:
            self.name = ENTRIES
            self.line = f"engine {ENTRIES}, {_WHAT[ENTRIES]} (-x)"
            return
        detours = part(arch, "detours") is not None
        has_slot = detours or PltWatch.is_possible(arch)
        if asked == SLOT and not has_slot:
            raise UsageError(f"--engine slot: not for programs for {arch.name}")
        if asked == POISON and detours:
            raise UsageError(
                f"--engine {POISON}: not for programs for {arch.name}, as stubs cannot send their"
                f" threads on from a fault; --engine {SLOT} is"
            )
        is_left_to_us = asked in (None, AUTO)
        by_slots = SLOT if detours or (has_slot and is_checked) else POISON
        self.name = by_slots if is_left_to_us or asked is None else asked
        why = "--engine"
        if is_left_to_us:
            why = _TO_CHECK if self.name == SLOT and not detours else _ON_STARTING
        what = _WHAT | ({SLOT: _DETOURS} if detours else {})
        self.line = f"engine {self.name}, {what[self.name]} ({because or why})"
        if is_checked:
            self.beside = by_slots if self.name == SITES else SITES
            self.line += f"; beside it {self.beside}, {what[self.beside]}"
            if SLOT in (self.name, self.beside) and not detours:
                self.line += ", its resolver stepped through"


class WatchMaker:
    """Return the watch of the chosen engine. The program is at its loader's first instruction."""

    __slots__ = ("_choice", "_detours", "_foreign", "_memory", "_place", "_stub")

    def __init__(
        self,
        choice: EngineChoice,
        stub: RemoteStub,
        memory: GuestMemory,
        foreign: ForeignProgram,
        base: int,
    ) -> None:
        """Prepare the watch. `base` is the load bias of the loader. Raises RemoteError."""
        self._choice = choice
        self._stub = stub
        self._memory = memory
        self._foreign = foreign
        self._place = 0
        self._detours = part(foreign.arch, "detours")
        if self._detours is not None and SLOT in (choice.name, choice.beside):
            assert foreign.loader is not None
            self._place = make(stub, memory, foreign.convention, foreign.loader, base, is_code=True)
        if POISON in (choice.name, choice.beside):
            if not FaultingSlots.is_possible(memory):
                raise RemoteError(
                    "the program has memory at the lowest addresses, which are needed",
                    hint="--engine sites",
                )
            assert foreign.loader is not None
            self._place = make(stub, memory, foreign.convention, foreign.loader, base)

    def __call__(self, points: Points) -> CallWatch:
        """Return the watch, which uses the breakpoints `points` of its engine."""
        convention = self._foreign.convention
        if self._choice.name == ENTRIES:
            return NoSlots()
        sites = SiteWatch(self._stub, self._memory, convention, points)
        if self._choice.name == SITES and not self._choice.beside:
            return sites
        by_slots = self._by_slots(points)
        if not self._choice.beside:
            return by_slots
        return CheckedWatch(sites, by_slots, self._choice.name)

    def _by_slots(self, points: Points) -> CallWatch:
        convention = self._foreign.convention
        if self._detours is not None:
            return DetouredSlots(
                self._stub,
                self._memory,
                self._detours,
                self._place,
                SIZE,
                points,
                SiteWatch(self._stub, self._memory, convention, points),
            )
        sender = Sender(self._stub, convention, self._memory)
        if SLOT in (self._choice.name, self._choice.beside):
            steps = bool(self._choice.beside)
            return PltWatch(self._memory, sender, points, self._foreign.arch, steps=steps)
        words = 1 + len(convention.descriptor)
        # If `points` are in use for call sites, points at slots that are code would conflict with
        # them.
        return FaultingSlots(
            self._memory,
            sender,
            self._place,
            SIZE,
            words=words,
            points=None if self._choice.beside else points,
        )


# A program under its emulator, with the interface that a session needs.

_TURN = 0.02  # seconds of handling stops before others get their turn
_END = 2.0  # seconds in which the emulator ends after its program
_READY = os.WEXITED | os.WSTOPPED | os.WNOHANG | os.WNOWAIT | ptrace.WALL


class RemoteTarget(Target):
    """The emulator's process, which ends as the program does.

    `engine` sees its calls, or is None if no engine does. `is_uncompared` is set if two engines
    should have seen them nevertheless.
    """

    def __init__(self, tracer: Tracer, agents: AgentSource, signals: Signals) -> None:
        super().__init__(tracer, agents, signals, follow=False)
        self.engine: Engine | None = None
        self.memory: GuestMemory | None = None
        self.is_uncompared = False
        self._emulator = self._emulators_name = ""
        self._has_executed = False  # and ended so soon that only its name was left

    def run(self, tick: Tick | None = None) -> ExitStatus:
        """Supervise the program until it has ended (see `Target.run`).

        Raises RemoteError if the emulator is gone, and its program has not ended.
        """
        ended = super().run(lambda: self._turn(tick))
        engine = self.engine
        is_killed = ended.signal == signal.SIGKILL  # a stub cannot report that
        if engine is not None and not (engine.has_ended or engine.is_left or is_killed):
            self._drain_stops(engine)
            if self._has_executed and not engine.has_ended:
                engine.executed()
            elif not engine.has_ended:
                raise RemoteError(
                    "the emulator died before its program: how the program ended is not known",
                    slug="remote-gone",
                )
        return ended

    def _turn(self, tick: Tick | None) -> float:
        engine = self.engine
        if engine is not None and not engine.is_over:
            program = self.programs[0]
            if program.block is not None and program.block.command == layout.COMMAND_STOP:
                engine.stop()
            engine.work(_TURN)
            if tick is not None:
                tick()
            return 0.0
        if engine is not None and not (engine.has_ended or engine.is_left):
            self._look_whether_executed(engine)
        pause = tick() if tick is not None else None
        return 0.02 if pause is None else pause

    def remarks(self) -> list[str]:
        """Return remarks on what its engine has not seen."""
        return [] if self.engine is None else self.engine.remarks()

    def verdict(self) -> EngineVerdict | None:
        """Return whether two engines agree, None if there were not to be two."""
        if self.is_uncompared:
            return EngineVerdict(
                "check: no calls to compare, as the program ran untraced", is_same=False
            )
        return None if self.engine is None else self.engine.verdict()

    @property
    def is_left(self) -> bool:
        """Return whether the target was detached, and went on unobserved, before it ended."""
        return self.engine is not None and self.engine.is_left

    def emulator_runs(self) -> None:
        """Note the emulator's program and process name."""
        self._emulator = status.program_path(self.pid)
        self._emulators_name = status.comm(self.pid)

    def ended(self) -> str:
        """Return how the emulator has ended, "" while it is running."""
        self._take_events()
        if self.exit is None:
            return ""
        number = self.exit.signal
        return f"status {self.exit.status}" if number is None else f"signal {number}"

    def kill(self) -> None:
        """Kill the emulator, which has not run any of its program."""
        try:
            os.kill(self.pid, signal.SIGKILL)
            self.reap()
        except OSError:
            pass  # the process or thread has ended

    def reap(self) -> None:
        """Wait for the end of the emulator, which is about to come."""
        if self.exit is None:
            os.waitpid(self.pid, 0)

    def _look_whether_executed(self, engine: Engine) -> None:
        """Check whether the emulator's process runs another program by now."""
        path = status.program_path(self.pid)
        if path and self._emulator and path != self._emulator:
            engine.executed()

    def _drain_stops(self, engine: Engine) -> None:
        """Handle the last stops that the stub has reported."""
        end = time.monotonic() + _END
        while not engine.is_over and time.monotonic() < end:
            engine.work(0.05)

    def _next_event(self) -> tuple[int, int] | None:
        """Return the next wait status. While stops are serialized, the serializer takes them.

        A process that has ended is looked at before its wait status is taken, because an executed
        program may be over by now. A zombie has no program that could be read, but it has its
        name (proc(5)).
        """
        serializer = None if self.engine is None else self.engine.serializer
        if serializer is not None and not serializer.is_gone:
            return serializer.take_status() if self.exit is None else None
        if self.engine is None or self.exit is not None:
            return super()._next_event()
        try:
            ready = os.waitid(os.P_PID, self.pid, _READY)
        except ChildProcessError:
            return None  # another part of this process has waited for it
        if ready is None:
            return None
        if ready.si_code in (os.CLD_EXITED, os.CLD_KILLED, os.CLD_DUMPED):
            names = ("", self._emulators_name)
            self._has_executed = bool(names[1]) and status.comm(self.pid) not in names
        return super()._next_event()

    def _look_at_program(self) -> None:
        """Do nothing, because the running file is the emulator's."""

    def leave(self) -> None:
        """Restore soscope's own signal handling (see `Target.leave`)."""
        if self.memory is not None:
            self.memory.close()
        if self.engine is not None and self.engine.serializer is not None:
            self.engine.serializer.close()
        super().leave()


# Start a program of another architecture under an emulator that waits for soscope.
#
# The steps are: fork, exec of the emulator, connect to its stub, run the program to its loader's
# first instruction, allocate memory for soscope in it, and let it run.

_NO_CHILDREN = (
    "-f: not for programs of another architecture: their emulator's stub tells of one process"
)


def start_foreign(
    settings: SessionSettings,
    instruments: Sequence[Instrument],
    make_block: MakeBlock,
    events: SessionEvents,
    make_room: Callable[[], object],
) -> RemoteTarget:
    """Start the command of `settings` and return when its loader is about to run.

    `make_room` drains what has been recorded. The caller must call `RemoteTarget.run` next, in
    this thread. Raises LaunchError, UsageError, RemoteError.
    """
    hooks = check_settings(settings, instruments)
    foreign = ForeignProgram(settings.command, settings.cwd, settings.sysroot, settings.qemu)
    choice = EngineChoice(settings.engine, foreign.arch, is_checked=settings.check)
    if foreign.loader is not None:
        events.on_engine(choice.line)
    place = Socket()
    signals = Signals()
    try:
        words = place.words(foreign.emulator, foreign.sysroot, foreign.path, settings.command)
        command = Command(words, settings.cwd, settings.environ, settings.user)
        program = Program(0, 0, foreign.path, 0)
        agents = AgentSource(None, make_block)
        if foreign.loader is None:
            program.reason = status.STATIC
        else:
            program.block = make_block(program.path, None, 0)
            program.arch, program.engine = foreign.arch.emulator, choice.name
        signals.block()
        target = _forked(command, program, agents, signals, events, settings.command[0])
        try:
            connected = place.connect(target.ended)
            target.emulator_runs()
            stub = RemoteStub(
                connected, foreign.elf.encoding.order, PIECE, plain=foreign.convention.plain
            )
            if program.block is None:
                stub.detach()
                target.is_uncompared = settings.check
                return target
            memory, segments, bias, base = _places(target, stub, foreign)
            run = RemoteRun(
                program,
                foreign,
                hooks,
                settings,
                make_room,
                segments=segments,
                bias=bias,
                base=base,
            )
            run.make_watch = WatchMaker(choice, stub, memory, foreign, base)
            target.engine = Engine(stub, memory, run, Company(events, follows=False))
            target.engine.go()
        except BaseException:
            target.kill()
            target.forget_group()
            raise
    except BaseException:
        place.close()
        signals.restore()
        raise
    return target


def check_settings(settings: SessionSettings, instruments: Sequence[Instrument]) -> Hooks:
    """Return the hooks to be seen. Raises UsageError for features that need an agent."""
    if settings.follow and settings.remote is None:
        raise UsageError(_NO_CHILDREN)
    what = needing_agent(settings, instruments)
    if what:
        raise UsageError(f"{what}: not for programs of another architecture")
    return next(each.hooks for each in instruments if each.hooks is not None)


def _forked(
    command: Command,
    program: Program,
    agents: AgentSource,
    signals: Signals,
    events: SessionEvents,
    name: str,
) -> RemoteTarget:
    """Fork a process that executes the emulator. Raises LaunchError."""
    child = fork_bare(command, program, signals, dies_with_us=True)
    tracer = Tracer(child.pid, program, agents, events, follow=False, stay=False)
    target = RemoteTarget(tracer, agents, signals)
    try:
        go_bare(child, target, name)
        tracer.start_untraced()
    finally:
        child.close()
    return target


def _places(
    target: RemoteTarget, stub: RemoteStub, foreign: ForeignProgram
) -> tuple[GuestMemory, list[Segment], int, int]:
    """Return a program's memory and layout at its loader's first instruction.

    The layout is its segments, its load bias and its loader's load bias. Raises RemoteError.
    """
    coding = foreign.coding
    told = stub.object("auxv")
    if told is None:
        raise RemoteError("the stub does not say where the program is (auxv)")
    vector = maps.parse_auxv(told, bits=coding.bits, order=coding.order)
    phdr, count = vector.get(maps.AT_PHDR, 0), vector.get(maps.AT_PHNUM, 0)
    bias = phdr - foreign.elf.header.phoff - _first_load(foreign) if foreign.elf.header else 0
    base = base_of(target.pid, foreign.path, bias + _first_load(foreign))
    memory = target.memory = GuestMemory(target.pid, coding, base)
    if foreign.convention.is_whole is not None:
        stub.upper = FprUpperHalves(target.pid, stub, foreign.convention).read
    try:
        segments = program_segments(memory, coding, phdr, count)
    except FormatError as error:
        raise RemoteError(f"the program's headers cannot be read: {error.message}") from error
    return memory, segments, bias, vector.get(maps.AT_BASE, 0)


def _first_load(foreign: ForeignProgram) -> int:
    return next((s.vaddr - s.offset for s in foreign.elf.segments if s.type == c.PT_LOAD), 0)
