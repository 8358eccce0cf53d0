# SPDX-License-Identifier: Apache-2.0
"""Trace programs of this machine by breakpoints: started ones and running ones."""

from __future__ import annotations

import _socket  # 0.2 ms; socket takes 7
import os
import resource
import time

from soscope.binfmt.elf.image import ElfImage
from soscope.control import helper
from soscope.control.attach import Visited
from soscope.control.command import Command, ExitStatus
from soscope.control.helper import Following, Packets
from soscope.control.launch import fork_bare, go_bare
from soscope.control.native.engine import NativeEngine, NativeFamily
from soscope.control.native.process import STATIC, NativeCompany, NativeProgram, NativeRun, refusal
from soscope.control.program import Program, SessionEvents
from soscope.control.settings import (
    ENTRIES,
    SITES,
    Hooks,
    Instrument,
    SessionSettings,
    needing_agent,
)
from soscope.control.signals import Signals
from soscope.control.supervise import Target, Tick
from soscope.control.tracer import AgentSource, MakeBlock, Tracer, tell_inner_pid
from soscope.entry import ptrace
from soscope.entry.isa import arch
from soscope.entry.native.isa import machine_of
from soscope.entry.native.threads import OPTIONS
from soscope.entry.native.traps import NativeMemory
from soscope.errors import AttachError, FormatError, LaunchError, UsageError
from soscope.model.arch import Arch, arch_here
from soscope.proc import status
from soscope.proc.status import signal
from soscope.wire import layout
from soscope.wire.block import ControlBlock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


# Find out whether there is an agent for a process's machine, with few imports.

_HEAD = 1 << 12  # bytes that include the ELF header
_CLASS, _MACHINE = 4, slice(18, 20)  # EI_CLASS and e_machine
_CLASSES = {32: 1, 64: 2}


def agentless(pid: int) -> str:
    """Return the machine of a process, or "" if there is an agent for that machine.

    Also return "" if the breakpoint engine does not support the machine, or if the program cannot
    be read.
    """
    try:
        with open(f"/proc/{pid}/exe", "rb", buffering=0) as file:
            head = file.read(_HEAD)
    except OSError:
        return ""  # attaching will report the error
    if len(head) < _MACHINE.stop:
        return ""
    machine = int.from_bytes(head[_MACHINE], "little")
    if machine == arch.MACHINE and head[_CLASS] == _CLASSES[arch.BITS]:
        return ""
    from soscope.binfmt.source import BufferSource

    try:
        header = ElfImage.from_source(BufferSource(head, "")).header
    except FormatError:
        return ""  # the same as above
    other = None if header is None else header.arch
    if other is None or other.has_agent or machine_of(other) is None:
        return ""
    name: str = other.name
    return name


# The tracer: a child process of soscope that traces a native process by breakpoints.
#
# A breakpoint without a tracer kills the thread that runs into it. So the tracer is a child of
# soscope in its own process group, which users do not know and so do not kill. When soscope has
# ended, by whatever signal, the tracer undoes all breakpoints, detaches and ends, too.
#
#     soscope ── STOP, or the end of the socket ──► tracer
#     soscope ◄── signals, forks, the end, what was not seen ── tracer ──► control block

REMARKS, EXECUTED, REFUSED = "remarks", "executed", "refused"

_TURN = 0.05  # seconds between checks for soscope's messages
_LAST = 2.0  # seconds that soscope may take to receive the last packets
_ROOM = 1.0  # seconds that a full ring may delay a thread; then it has no reader
_PAUSE = 0.0005


class NativeTracer:
    """The main loop of the tracer of one process."""

    def __init__(
        self,
        native: NativeProgram,
        memory: NativeMemory,
        program: Program,
        hooks: Hooks,
        link: _socket.socket,
        settings: SessionSettings,
        places: tuple[int, int] | tuple[int, int, ElfImage],
        make_block: MakeBlock,
    ) -> None:
        """Prepare to trace. `make_block` makes the blocks of programs that are executed.

        `places` are the result of `NativeProgram.places`, or of `first_places` for a child of
        soscope that is stopped after its exec.
        """
        self._settings = settings
        self._places = places
        self._pid = native.pid
        self._native = native
        self._memory = memory
        self._hooks = hooks
        self._link = link
        self._packets = Packets(link, None, keeps_blocks=True)
        self._program = program
        self._make_block = make_block
        self._is_due = False
        self._is_first = len(places) > 2
        self._waits = settings.when_full == "block"

    def run(self) -> None:
        """Trace the process until soscope sends STOP or has ended, or the process has ended."""
        company = NativeCompany(self._packets, follows=self._settings.follow)
        if company.follows:
            _take_descriptors()
        engine = NativeEngine(self._memory, self._run_of(self._native, self._program), company)
        family = NativeFamily(engine, company, self._new_run)
        signal.signal(signal.SIGALRM, self._ring)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGALRM,))
        try:
            engine.begin(*self._places)
        except Exception as error:  # noqa: BLE001  whatever it is, soscope says it
            if self._is_first:
                ptrace.detach(self._pid)
            family.let_go()
            refuse(self._packets, error)
            return
        try:
            self._packets.send((helper.OVER, False))  # tells soscope that tracing has begun
            if self._is_first:
                ptrace.resume(self._pid)
            signal.setitimer(signal.ITIMER_REAL, _TURN, _TURN)
            while not family.is_over and not self._is_told():
                self._is_due = False
                family.work(lambda: self._is_due)
                self._count(family)
        except Exception as error:  # noqa: BLE001  the process comes first, then soscope hears
            company.say(f"tracing ended early: {type(error).__name__}: {error}")
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            if family.executed is None:
                family.let_go()
        self._finish(family)

    def _count(self, family: NativeFamily) -> None:
        """Write into the control block for how long threads were stopped."""
        if (block := self._program.block) is not None:
            block.stood_still = family.stood_ns

    def _run_of(self, native: NativeProgram, program: Program) -> NativeRun:
        block = program.block
        assert block is not None
        return NativeRun(
            native, program, self._hooks, self._settings, lambda: self._wait_for_room(block)
        )

    def _new_run(self, native: NativeProgram, program: Program) -> NativeRun:
        """Make the run of a program that was executed. Raises SoscopeError."""
        program.arch, program.engine = native.arch.unames[0], self._program.engine
        program.block = self._make_block(program.path, None, 0)
        return self._run_of(native, program)

    def _ring(self, *_: object) -> None:
        self._is_due = True

    def _is_told(self) -> bool:
        """Return whether soscope has sent STOP or has ended."""
        try:
            if self._link.recv(len(helper.STOP), _socket.MSG_DONTWAIT) in (helper.STOP, b""):
                return True
        except BlockingIOError:
            pass  # no message: go on
        except OSError:
            return True  # that process is gone
        self._packets.flush()
        return False

    def _wait_for_room(self, block: ControlBlock) -> None:
        """Wait until soscope has emptied the ring, if no call may be lost."""
        end = time.monotonic() + _ROOM
        while self._waits and layout.CHUNK_FREE not in block.chunk_states():
            if time.monotonic() > end:
                self._waits = False
            self._packets.flush()  # soscope must know the block to empty it
            time.sleep(_PAUSE)

    def _finish(self, family: NativeFamily) -> None:
        self._packets.send((REMARKS, tuple(family.remarks())))
        if family.executed is not None:
            self._packets.send((EXECUTED, family.executed))
        self._packets.send((helper.OVER, True))
        end = time.monotonic() + _LAST
        while not self._packets.flush() and time.monotonic() < end:
            time.sleep(_PAUSE)


def refuse(packets: Packets, error: BaseException) -> None:
    """Report to soscope why the process is not traced."""
    said = error.strerror if isinstance(error, OSError) else None
    packets.send((REFUSED, (said or "").lower() or str(error) or type(error).__name__))
    packets.flush()


def _take_descriptors() -> None:
    """Raise the limit of descriptors, because each followed process takes some."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


# The tracer's process for a program that is about to be started (see `tracing`).

_GROUP_STOPS = (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)


def trace_started(
    program: Program,
    hooks: Hooks,
    link: _socket.socket,
    settings: SessionSettings,
    make_block: MakeBlock,
) -> None:
    """Trace a child of soscope that waits before it executes the command.

    When it is traced, soscope is told that it may go on. If it may not be traced, soscope gets
    the reason.
    """
    packets = Packets(link, None)
    try:
        ptrace.seize(program.pid, OPTIONS)
    except OSError as error:
        refuse(packets, error)
        return
    packets.send((helper.OVER, False))
    if not _executes(program.pid):
        packets.send((helper.OVER, True))
        return
    try:
        native = NativeProgram(program.pid, is_ours=True)
        memory = native.open_memory()
        places = native.first_places(memory)
    except BaseException as error:  # noqa: BLE001  whatever it is, soscope says it
        ptrace.detach(program.pid)
        refuse(packets, error)
        return
    NativeTracer(native, memory, program, hooks, link, settings, places, make_block).run()


def _executes(pid: int) -> bool:
    """Wait until a process has executed its command. Return whether it is stopped there."""
    while True:
        _, wait_status = os.waitpid(pid, ptrace.WALL)
        if not os.WIFSTOPPED(wait_status):
            return False
        number, event = os.WSTOPSIG(wait_status), wait_status >> 16
        if event == ptrace.EVENT_EXEC:
            return True
        try:
            if event == ptrace.EVENT_STOP and number in _GROUP_STOPS:
                ptrace.listen(pid)
            else:
                ptrace.resume(pid, 0 if event else number)
        except ProcessLookupError:
            pass  # killed; its end is reported next


# A native process traced by breakpoints, with the interface that a session needs.

_KILLED = "the process that traced it was killed: calls from there on were not seen"


class NativeFollowing(Following):
    """The tracer of one process, as soscope sees it. `refused` tells why it has not begun.

    `remarks` tell what it has not seen, and `executed` is the program that the process has
    executed. `has_finished` is set if it has reported that all its changes are undone.
    """

    most_to_begin = 60.0  # the tracer first reads all images, while the process runs

    def __init__(self, program: Program, events: SessionEvents, tracer: Any) -> None:
        self.refused: str | None = None
        self.remarks: list[str] = []
        self.executed: str | None = None
        self.has_finished = False
        super().__init__(program, events, tracer)

    def _take(self, packet: tuple[Any, ...], files: list[int]) -> None:
        kind, *rest = packet
        if kind == REFUSED:
            self.refused = rest[0]
            self.is_over = True
        elif kind == REMARKS:
            self.remarks += rest[0]
        elif kind == EXECUTED:
            self.executed = rest[0]
        else:
            super()._take(packet, files)
            self.has_finished = self.is_over

    def _not_begun(self) -> AttachError:
        return refusal(self.pid, self.refused or "it may not be traced")


class NativeVisited(Visited):
    """A process that is traced by breakpoints. `remarks` tell what was not seen of it."""

    _following: NativeFollowing

    def __init__(
        self, program: Program, following: NativeFollowing, signals: Signals, events: SessionEvents
    ) -> None:
        super().__init__(program, signals, events)
        self._following = following

    @property
    def remarks(self) -> list[str]:
        """Remarks on what soscope could not see of the process."""
        return [*self._following.remarks, *self.lacking]

    @property
    def lacking(self) -> list[str]:
        """A line if the tracer was killed (see `Visited.lacking`)."""
        return [_KILLED] if self._closed and not self._following.has_finished else []

    def is_over(self) -> bool:
        """Return whether the process has ended or runs another program."""
        self._following.poll()
        self._look()
        return self._following.is_over

    def _look(self) -> None:
        self.executed = self._following.executed
        self.has_ended = self._following.is_over and (
            self.executed is not None or self._following.exit is not None
        )

    def close(self) -> None:
        """Undo all breakpoints and detach from the process. May be called twice."""
        if self._closed:
            return
        self._closed = True
        try:
            self._following.stop()
            self._look()
        finally:
            self._signals.restore()


def attach_by_sites(
    pid: int,
    make_block: MakeBlock,
    settings: SessionSettings,
    instruments: Sequence[Instrument],
    events: SessionEvents,
) -> NativeVisited:
    """Trace process `pid` by breakpoints. Return when they are in place and it runs.

    Raises UsageError for features that need an agent, NoSuchProcess, NotPermitted, AttachError.
    """
    hooks = hooks_of(settings, instruments)
    native = NativeProgram(pid)
    memory = native.open_memory()
    signals = Signals()
    signals.block()
    program = Program(0, pid, native.path, time.time_ns())
    program.arch, program.engine = native.arch.unames[0], engine_of(settings)
    try:
        places = native.places(memory)
        program.block = make_block(native.path, None, pid)

        def live(link: _socket.socket) -> None:
            tracer = NativeTracer(
                native, memory, program, hooks, link, settings, places, make_block
            )
            tracer.run()

        following = NativeFollowing(program, events, live)
    except BaseException:
        program.close_block()
        signals.restore()
        raise
    finally:
        memory.close()
    program.time_ns = time.time_ns()
    target = NativeVisited(program, following, signals, events)
    tell_inner_pid(events, pid)
    events.on_process("start", pid, None, program, program.time_ns)
    return target


def engine_of(settings: SessionSettings) -> str:
    """Return the name of the breakpoint engine that the settings choose."""
    return ENTRIES if settings.engine == ENTRIES else SITES


def hooks_of(settings: SessionSettings, instruments: Sequence[Instrument]) -> Hooks:
    """Return the hooks to be seen. Raises UsageError for features that need an agent."""
    what = lacking(settings, instruments)
    if what:
        raise UsageError(f"{what}: not with --engine sites, which uses no agent")
    return next(each.hooks for each in instruments if each.hooks is not None)


def lacking(settings: SessionSettings, instruments: Sequence[Instrument]) -> str:
    """Return the option or feature that needs an agent, or "" if none does."""
    what = needing_agent(settings, instruments)
    return what or ("--check" if settings.check else "")


def needs_agent(settings: SessionSettings, instruments: Sequence[Instrument]) -> bool:
    """Return whether the settings have a feature that needs an agent.

    Raises UsageError on a machine for which there is no agent.
    """
    what = lacking(settings, instruments)
    here = arch_here()
    if what and here is not None and not here.has_agent:
        raise UsageError(f"{what}: not on {here.name}, for which no agent is made")
    return bool(what)


def engine_line(settings: SessionSettings, machine: str) -> str:
    """Return a line with the engine and the reason. `machine` is one without an agent, or ""."""
    if settings.engine == ENTRIES:
        return f"engine {ENTRIES}, breakpoints where functions begin (-x)"
    why = f"no agent is made for {machine}" if machine else "-x"
    if settings.engine == SITES:
        why = "--engine"
    return f"engine {SITES}, breakpoints where code goes through slots ({why})"


# Start a program of this machine, without an agent, and see its calls by breakpoints.
#
#     fork ─ the tracer seizes it ─ exec ─ its loader's first instruction: breakpoints ─ go
#
# The program is a child of soscope, as always. The tracer is another child, which gets its stops.

_BEFORE = 2.0  # seconds for the tracer's reports before the program's end
_PAUSE_START = 0.002


class _StartedFollowing(NativeFollowing):
    """The tracer of a program that soscope has started. soscope itself waits for its end."""

    def _ended(self, pid: int, code: int | None, number: int | None, time_ns: int) -> None:
        if pid == self.pid:
            self.exit = ExitStatus(code, number)
        else:
            super()._ended(pid, code, number, time_ns)

    def _not_begun(self) -> Any:
        return LaunchError(f"cannot trace the command: {self.refused or 'it may not be traced'}")


class NativeTarget(Target):
    """A program that another child of soscope traces by breakpoints."""

    _following: _StartedFollowing | None = None
    _was_stopped = False

    _follows = False

    def follow_by(self, following: _StartedFollowing, *, children: bool) -> None:
        """Set the tracer. `children` tells whether it traces children, too."""
        self._following = following
        self._follows = children

    @property
    def programs(self) -> list[Program]:
        """The programs under observation, in the order of their exec."""
        followed = [] if self._following is None else self._following.programs
        return [*super().programs, *followed]

    def run(self, tick: Tick | None = None) -> ExitStatus:
        """Supervise the program until it has ended (see `Target.run`)."""
        return super().run(lambda: self._turn(tick))

    def _turn(self, tick: Tick | None) -> float | None:
        program, following = self.programs[0], self._following
        if following is not None:
            following.poll()
            if following.refused is not None and program.reason is None:
                program.reason = following.refused.partition(": ")[2] or following.refused
            self._look_whether_executed(following)
            blocks = [each.block for each in self.programs if each.block is not None]
            is_over = any(block.command == layout.COMMAND_STOP for block in blocks)
            if is_over and not self._was_stopped:
                self._was_stopped = True
                following.stop()
        return tick() if tick is not None else None

    def _look_whether_executed(self, following: _StartedFollowing) -> None:
        task = self._tracer.tasks.get(self.pid)
        path = following.executed
        if path and task is not None and task.program is self.programs[0]:
            self._tracer.note_exec(task, path, status.NOT_FOLLOWED)

    def _next_event(self) -> tuple[int, int] | None:
        event = super()._next_event()
        following = self._following
        if event is not None and following is not None:
            following.poll()  # events before that one
            if self._follows and not os.WIFSTOPPED(event[1]):
                end = time.monotonic() + _BEFORE
                while following.exit is None and not following.is_over and time.monotonic() < end:
                    if not following.poll():
                        time.sleep(_PAUSE_START)
        return event

    def _is_over(self) -> bool:
        following = self._following
        is_left = not self._follows or following is None or following.is_over
        return super()._is_over() and (is_left or self._end_forced)

    def _look_at_program(self) -> None:
        if not self._follows:
            super()._look_at_program()

    def _look_at_end(self) -> None:
        if not self._follows:
            super()._look_at_end()

    def hear(self) -> bool:
        """Take the events of its processes. Return whether all events have been reported."""
        return self._following is None or self._following.hear()

    def remarks(self) -> list[str]:
        """Return remarks on what soscope could not see of the program."""
        lacking = self.lacking()  # the tracer has sent its last remarks by now
        return [] if self._following is None else [*self._following.remarks, *lacking]

    def lacking(self) -> list[str]:
        """Return a line if the tracer was killed."""
        following = self._following
        if following is None:
            return []
        following.stop()
        return [] if following.has_finished or following.refused is not None else [_KILLED]

    def close(self) -> None:
        """Detach from all threads (see `Target.close`)."""
        if self._following is not None:
            self._following.stop()
        super().close()


def is_understood(command: Command) -> bool:
    """Return whether breakpoints can see the calls of a command's program."""
    try:
        _arch_of(command, "")
    except LaunchError:
        return False  # another engine will report the error
    return True


def start_by_sites(
    command: Command,
    settings: SessionSettings,
    instruments: Sequence[Instrument],
    make_block: MakeBlock,
    events: SessionEvents,
) -> Target:
    """Start a command and return when its breakpoints are about to be put.

    The caller must call `Target.run` next, in this thread. Raises LaunchError, and UsageError for
    features that need an agent.
    """
    hooks = hooks_of(settings, instruments)
    name = settings.command[0]
    arch = _arch_of(command, name)
    events.on_engine(engine_line(settings, "" if arch.has_agent else arch.name))
    program = Program(0, 0, command.program, 0)
    program.arch, program.engine = arch.unames[0], engine_of(settings)
    if command.reason in (status.SETUID, status.UNREADABLE):
        program.reason = command.reason
    else:
        program.block = make_block(program.path, None, 0)
    signals = Signals()
    try:
        signals.block()
        return _started(command, program, hooks, settings, signals, events, make_block)
    except BaseException:
        program.close_block()
        signals.restore()
        raise


def _started(
    command: Command,
    program: Program,
    hooks: Hooks,
    settings: SessionSettings,
    signals: Signals,
    events: SessionEvents,
    make_block: MakeBlock,
) -> NativeTarget:
    child = fork_bare(command, program, signals)
    agents = AgentSource(None, make_block)
    tracer = Tracer(child.pid, program, agents, events, follow=False, stay=False)
    target = NativeTarget(tracer, agents, signals, follow=False)
    try:
        if program.reason is None:

            def live(link: _socket.socket) -> None:
                trace_started(program, hooks, link, settings, make_block)

            following = _StartedFollowing(program, events, live)
            target.follow_by(following, children=settings.follow)
        go_bare(child, target, settings.command[0])
        program.path = status.program_path(child.pid) or program.path
        program.time_ns = time.time_ns()
        tracer.start_untraced()
    except BaseException:
        child.close()
        target.close()
        raise
    child.close()
    return target


def _arch_of(command: Command, name: str) -> Arch:
    """Return the machine of the command's program. Raises LaunchError if it cannot be traced."""
    about = f"cannot trace '{name}' by breakpoints"
    try:
        with open(command.program, "rb", buffering=0) as file:
            image = ElfImage.from_descriptor(file.fileno(), command.program)
            header, interpreter = image.header, image.interpreter
    except (FormatError, OSError):
        header, interpreter = None, None
    arch: Arch | None = None if header is None else header.arch
    if arch is None or machine_of(arch) is None:
        other = "an unknown machine" if header is None else header.arch_name
        raise LaunchError(f"{about}: programs for {other} are not understood")
    if interpreter is None:
        raise LaunchError(f"{about}: {STATIC}")
    return arch
