# SPDX-License-Identifier: Apache-2.0
"""A program under its emulator, with the interface that a session needs."""

from __future__ import annotations

import os
import time

from soscope.control.exitstatus import ExitStatus
from soscope.control.follow import AgentSource
from soscope.control.outcome import EngineVerdict
from soscope.control.remote.engine import Engine
from soscope.control.remote.guest import GuestMemory
from soscope.control.signals import Signals
from soscope.control.supervise import Target, Tick
from soscope.control.tracer import Tracer
from soscope.entry import ptrace
from soscope.errors import RemoteError
from soscope.proc import status
from soscope.proc.status import signal
from soscope.wire import layout

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
                    "the emulator has died, not its program: nothing is known of that one's end",
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
        engine = self.engine
        return [] if engine is None else [*engine.remarks, *engine.unmatched()]

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
        """Return the next wait status. While there is a turnstile, it takes them.

        A process that has ended is looked at before its wait status is taken, because an executed
        program may be over by now. A zombie has no program that could be read, but it has its
        name (proc(5)).
        """
        turnstile = None if self.engine is None else self.engine.turnstile
        if turnstile is not None and not turnstile.is_gone:
            return turnstile.take_status() if self.exit is None else None
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
        if self.engine is not None and self.engine.turnstile is not None:
            self.engine.turnstile.close()
        super().leave()
