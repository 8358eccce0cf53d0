# SPDX-License-Identifier: Apache-2.0
"""Start a program of this machine, without an agent, and see its calls by breakpoints.

    fork ─ the tracer seizes it ─ exec ─ its loader's first instruction: breakpoints ─ go

The program is a child of soscope, as always. The tracer is another child, which gets its stops.
"""

from __future__ import annotations

import _socket
import os
import time

from soscope.binfmt.elf.image import ElfImage
from soscope.control import child as children
from soscope.control.command import Command, launch_error
from soscope.control.events import SessionEvents
from soscope.control.exitstatus import ExitStatus
from soscope.control.follow import AgentSource, MakeBlock
from soscope.control.instrument import Hooks, Instrument
from soscope.control.native.process import STATIC
from soscope.control.native.started import trace_started
from soscope.control.native.target import NativeFollowing, engine_line, engine_of, hooks_of
from soscope.control.program import Program
from soscope.control.settings import SessionSettings
from soscope.control.signals import Signals
from soscope.control.supervise import Target, Tick
from soscope.control.tracer import Tracer
from soscope.entry.native.isa import machine_of
from soscope.errors import FormatError, LaunchError
from soscope.model.arch import Arch
from soscope.proc import status
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


_BEFORE = 2.0  # seconds for the tracer's reports before the program's end
_PAUSE = 0.002
_KILLED = "the process that traced it was killed: calls from there on were not seen"


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
                        time.sleep(_PAUSE)
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
        following = self._following
        if following is None:
            return []
        following.stop()
        is_whole = following.has_finished or following.refused is not None
        return following.remarks if is_whole else [*following.remarks, _KILLED]

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
        if program.block is not None:
            program.block.close()
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
    try:
        child = children.fork(command, (), signals, lambda entries: entries)
    except OSError as error:
        reason = (error.strerror or "").lower()
        raise LaunchError(f"cannot start a process: {reason}", errno=error.errno) from error
    program.pid = child.pid
    agents = AgentSource(None, make_block)
    tracer = Tracer(child.pid, program, agents, events, follow=False, stay=False)
    target = NativeTarget(tracer, agents, signals, follow=False)
    try:
        if program.reason is None:

            def live(link: _socket.socket) -> None:
                trace_started(program, hooks, link, settings, make_block)

            following = _StartedFollowing(program, events, live)
            target.follow_by(following, children=settings.follow)
        child.go(children.BARE)
        target.watch_group()
        failure = child.exec_error()
        if failure is not None:
            os.waitpid(child.pid, 0)
            raise launch_error(settings.command[0], failure)
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
