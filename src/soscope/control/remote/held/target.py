# SPDX-License-Identifier: Apache-2.0
"""A program that a stub holds, as a session knows targets."""

from __future__ import annotations

from contextlib import suppress

from soscope.control.events import SessionEvents
from soscope.control.exitstatus import ExitStatus
from soscope.control.outcome import EngineVerdict
from soscope.control.program import Program
from soscope.control.remote.guest import GuestMemory
from soscope.control.remote.held.family import HeldFamily
from soscope.control.remote.held.guard import Guard
from soscope.control.remote.held.leaving import HeldLeaving
from soscope.control.signals import ENDING, OWN_SIGNALS, Signals
from soscope.control.supervise import Tick
from soscope.entry.remote.stub import RemoteStub
from soscope.errors import RemoteError
from soscope.proc.signals import heeded, signal
from soscope.wire import layout

_TURN = 0.02  # seconds for the program's stops before everybody else's turn


class HeldTarget:
    """One program; it belongs to somebody else. `family` are its processes, None: none is traced.

    `guard` lets it go when soscope is killed, None: the stub ends it then.

    `exit` is how it ended, None: it has been let go on.
    """

    def __init__(
        self,
        program: Program,
        stub: RemoteStub,
        memory: GuestMemory,
        signals: Signals,
        events: SessionEvents,
    ) -> None:
        self.pid = program.pid
        self.family: HeldFamily | None = None
        self._program = program
        self._leaving: HeldLeaving | None = None
        self.guard: Guard | None = None
        self._stub = stub
        self._memory = memory
        self._signals = signals
        self._events = events
        self._asked = 0  # times that soscope was asked to end

    @property
    def programs(self) -> list[Program]:
        """The program, and those that its processes have executed since."""
        return [self._program] if self.family is None else self.family.programs

    @property
    def exit(self) -> ExitStatus | None:
        """How the program ended; after it was let go: status 0, as for processes."""
        if self.family is not None and self.family.exit is not None:
            return self.family.exit
        return ExitStatus(0, None)

    def run(self, tick: Tick | None = None) -> None:
        """Observe it until it has ended, or is to be let go; see `Target.run`.

        Raises RemoteError where the stub is gone, and the program has not ended.
        """
        try:
            while not self._is_over():
                self._take_signals()
                if self._is_asked_to_stop():
                    self._let_go()
                    break
                if self.family is not None:
                    self.family.work(_TURN)
                if tick is not None:
                    tick()
            self._check_end()
            if tick is not None:
                tick()
        except RemoteError:
            self._undo()
            raise
        finally:
            self.close()

    def _is_over(self) -> bool:
        return self.family is None or self.family.is_over

    def _is_asked_to_stop(self) -> bool:
        if self._asked:
            return True
        blocks = [program.block for program in self.programs if program.block is not None]
        return any(block.command == layout.COMMAND_STOP for block in blocks)

    def _let_go(self) -> None:
        if self.family is not None:
            self._leaving = HeldLeaving(self.family)
            self._leaving.let_go()

    def _undo(self) -> None:
        """Let the program go whose stub has failed us, as far as it still hears us."""
        if self.family is not None and not self._stub.is_over:
            with suppress(RemoteError):  # what has failed once may fail again
                HeldLeaving(self.family).finish()

    def _check_end(self) -> None:
        family = self.family
        if family is not None and family.exit is None and not family.is_left:
            raise RemoteError(
                "the stub is gone, and its program has not ended: nothing is known of that one's"
                " end",
                slug="remote-gone",
            )

    def _take_signals(self) -> None:
        received = signal.sigtimedwait(OWN_SIGNALS, 0)
        while received is not None:
            if received.si_signo in heeded(ENDING):
                self._asked += 1
            else:
                self._events.on_own_signal(received.si_signo)
            received = signal.sigtimedwait(OWN_SIGNALS, 0)

    def hear(self) -> bool:
        """Say that all is told that has happened: stops are handled in turn."""
        return True

    def attend(self) -> bool:
        """Hear signals while the tick waits for somebody who reads its output; see `Target`."""
        self._take_signals()
        return not self._asked

    @property
    def is_asked_to_end(self) -> bool:
        """Return whether somebody wants soscope to end, so that it waits for no reader any more."""
        return bool(self._asked)

    @property
    def is_interrupted(self) -> bool:
        """Whether a signal has ended the observation. The program goes on."""
        return bool(self._asked)

    @property
    def is_left(self) -> bool:
        """Return whether it was let go on unobserved though nobody asked for that."""
        return self.family is not None and self.family.is_left and not self._is_asked_to_stop()

    def remarks(self) -> list[str]:
        """Return what its engine has not seen."""
        return [] if self.family is None else self.family.remarks()

    def verdict(self) -> EngineVerdict | None:
        """Return whether two engines agree, None where there is but one."""
        return None if self.family is None else self.family.first.verdict()

    def close(self) -> None:
        """Let go of the program, if that has not been done. May be called twice."""
        if self.family is not None:
            self.family.is_over = True
        self._stub.let_go()
        if self.guard is not None and self._leaving is not None and self._leaving.is_for_guard:
            self.guard.stay()
        elif self.guard is not None:
            self.guard.dismiss()
        self._memory.close()

    def leave(self) -> None:
        """Put soscope's own signals back, when all is written down. May be called twice."""
        self._signals.restore()
