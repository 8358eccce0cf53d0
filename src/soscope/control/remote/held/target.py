# SPDX-License-Identifier: Apache-2.0
"""A program that a stub holds, with the interface that a session needs."""

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
from soscope.proc.status import heeded, signal
from soscope.wire import layout

_TURN = 0.02  # seconds of handling stops before others get their turn


class HeldTarget:
    """One program that soscope did not start.

    `family` has its processes, and is None if none is traced. `guard` detaches from it if soscope
    is killed, and is None if the stub ends the program then. `exit` is its exit status, None if
    it was detached and goes on.
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
        self._asked = 0  # requests to end soscope

    @property
    def programs(self) -> list[Program]:
        """The program, and the programs that its processes have executed since."""
        return [self._program] if self.family is None else self.family.programs

    @property
    def exit(self) -> ExitStatus | None:
        """The exit status of the program, or status 0 after a detach, as for processes."""
        if self.family is not None and self.family.exit is not None:
            return self.family.exit
        return ExitStatus(0, None)

    def run(self, tick: Tick | None = None) -> None:
        """Observe the program until it has ended or must be detached (see `Target.run`).

        Raises RemoteError if the stub is gone, and the program has not ended.
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
        """Detach from the program after an error of the stub, as far as the stub still answers."""
        if self.family is not None and not self._stub.is_over:
            with suppress(RemoteError):  # the error may come again
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
        """Return True: stops are handled in order, so all events have been reported."""
        return True

    def attend(self) -> bool:
        """Handle signals while the tick waits for a reader of its output (see `Target`)."""
        self._take_signals()
        return not self._asked

    @property
    def is_asked_to_end(self) -> bool:
        """Return whether a signal asks soscope to end, so that it waits for no reader any more."""
        return bool(self._asked)

    @property
    def is_interrupted(self) -> bool:
        """Whether a signal has ended the observation. The program goes on."""
        return bool(self._asked)

    @property
    def is_left(self) -> bool:
        """Return whether the program was detached without a request to do so."""
        return self.family is not None and self.family.is_left and not self._is_asked_to_stop()

    def remarks(self) -> list[str]:
        """Return remarks on what its engine has not seen."""
        return [] if self.family is None else self.family.remarks()

    def verdict(self) -> EngineVerdict | None:
        """Return whether two engines agree, or None if there is only one."""
        return None if self.family is None else self.family.first.verdict()

    def close(self) -> None:
        """Detach from the program, if that has not been done. May be called twice."""
        if self.family is not None:
            self.family.is_over = True
        self._stub.let_go()
        if self.guard is not None and self._leaving is not None and self._leaving.is_for_guard:
            self.guard.stay()
        elif self.guard is not None:
            self.guard.dismiss()
        self._memory.close()

    def leave(self) -> None:
        """Restore soscope's own signal handling when all is written. May be called twice."""
        self._signals.restore()
