# SPDX-License-Identifier: Apache-2.0
"""A native process traced by breakpoints, with the interface that a session needs."""

from __future__ import annotations

import _socket
import time
from collections.abc import Sequence

from soscope.control.agentless import needing_agent
from soscope.control.events import SessionEvents
from soscope.control.exitstatus import ExitStatus
from soscope.control.follow import MakeBlock
from soscope.control.following import Following
from soscope.control.instrument import Hooks, Instrument
from soscope.control.native import tracing
from soscope.control.native.process import NativeProgram, refusal
from soscope.control.native.tracing import NativeTracer
from soscope.control.program import Program
from soscope.control.settings import ENTRIES, SITES, SessionSettings
from soscope.control.signals import Signals
from soscope.control.tracer import tell_inner_pid
from soscope.control.visited import Visited
from soscope.errors import AttachError, UsageError
from soscope.model.arch import arch_here

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing is slow to import
    from typing import Any

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
        if kind == tracing.REFUSED:
            self.refused = rest[0]
            self.is_over = True
        elif kind == tracing.REMARKS:
            self.remarks += rest[0]
        elif kind == tracing.EXECUTED:
            self.executed = rest[0]
        else:
            super()._take(packet, files)
            self.has_finished = self.is_over

    def _not_begun(self) -> AttachError:
        return refusal(self.pid, self.refused or "it may not be traced")


class NativeVisited(Visited):
    """A process that is traced by breakpoints. `remarks` tell what was not seen of it."""

    def __init__(
        self, program: Program, following: NativeFollowing, signals: Signals, events: SessionEvents
    ) -> None:
        super().__init__(program.pid, signals, events)
        self._program = program
        self._following = following

    @property
    def programs(self) -> list[Program]:
        """The program that it runs, and the followed programs that were executed since."""
        return [self._program, *self._following.programs]

    @property
    def exit(self) -> ExitStatus | None:
        """Its exit status, None before its end."""
        return self._following.exit

    @property
    def remarks(self) -> list[str]:
        """Remarks on what soscope could not see of the process."""
        if self._closed and not self._following.has_finished:
            return [*self._following.remarks, _KILLED]
        return self._following.remarks

    def hear(self) -> bool:
        """Take the events of its processes. Return whether all events have been reported."""
        return self._following.hear()

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

    def attend(self) -> bool:
        """Handle signals and events (see `Visited.attend`)."""
        self._following.poll()
        return super().attend()

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
        if program.block is not None:
            program.block.close()
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
        raise UsageError(f"{what}: not with --engine sites, which puts no agent in")
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
