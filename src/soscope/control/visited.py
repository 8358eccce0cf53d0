# SPDX-License-Identifier: Apache-2.0
"""A traced process that soscope did not start: the base of all engines for it."""

from __future__ import annotations

import os

from soscope.control.events import SessionEvents
from soscope.control.exitstatus import ExitStatus
from soscope.control.program import Program
from soscope.control.signals import ENDING, OWN_SIGNALS, Signals
from soscope.entry.agent.resident import Taken
from soscope.proc.status import heeded, signal


class Visited:
    """One process that soscope did not start.

    `has_ended` is set when it has ended. `executed` is the path of the program that it has
    executed and that is not followed, or None. `taken` is the result of taking out what was put
    into it. It is None before that, if nothing was put in, and if the process ended. `failure`
    tells why that failed. `beside` are processes of the same trace, which are detached
    separately.
    """

    def __init__(self, pid: int, signals: Signals, events: SessionEvents) -> None:
        self.pid = pid
        self.has_ended = False
        self.executed: str | None = None
        self.taken: Taken | None = None
        self.failure: str | None = None
        self.beside: set[int] = set()
        self._events = events
        self._signals = signals
        self._stop = False
        self._end_forced = False  # not by Ctrl-C alone, which the reader of our output got, too
        self._is_interrupted = False
        self._closed = False

    def stop(self) -> None:
        """Make the loop end soon."""
        self._stop = True

    @property
    def is_stopped(self) -> bool:
        """Return whether the loop should end."""
        return self._stop

    @property
    def is_closed(self) -> bool:
        """Return whether soscope has detached from the process."""
        return self._closed

    # ---- parts of the loop ----

    def wait(self, seconds: float) -> None:
        """Wait for some seconds, or until a signal comes, and handle the signals."""
        received = signal.sigtimedwait(OWN_SIGNALS, max(seconds, 0.0))
        while received is not None:
            if received.si_signo in heeded(ENDING):
                self._end_forced = self._stop or received.si_code <= 0
                self._stop = self._is_interrupted = True
            elif received.si_signo == signal.SIGTSTP:
                self._suspend()
            else:
                self._events.on_own_signal(received.si_signo)
            received = signal.sigtimedwait(OWN_SIGNALS, 0)

    def _suspend(self) -> None:
        """Stop soscope for Ctrl-Z. The process goes on, and drops calls that find no room."""
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTSTP,))
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTSTP,))

    def attend(self) -> bool:
        """Handle signals while the tick waits for a reader of its output.

        Return False if the tick should not wait any longer.
        """
        self.wait(0)
        return not self._end_forced

    @property
    def is_asked_to_end(self) -> bool:
        """Return whether a signal asks soscope to end, so that it waits for no reader any more."""
        return self._end_forced

    @property
    def is_interrupted(self) -> bool:
        """Whether a signal has ended the observation. The process goes on."""
        return self._is_interrupted

    # ---- what each kind of process overrides ----

    @property
    def programs(self) -> list[Program]:
        """The programs under observation. The first is the one that was running at the attach."""
        raise NotImplementedError

    @property
    def exit(self) -> ExitStatus | None:
        """The exit status, or None if it is not known."""
        return None

    @property
    def longest_stop(self) -> int:
        """The longest time that a thread of the process was stopped, in ns."""
        return 0

    @property
    def remarks(self) -> list[str]:
        """Remarks on what soscope could not see of the process."""
        return []

    @property
    def lacks_children(self) -> bool:
        """Whether children, or programs that they have executed, could not be observed."""
        return False

    def hear(self) -> bool:
        """Take the events of its processes. Return whether all events have been reported."""
        return True

    def note_exec(self, name: int) -> None:
        """Note that the process is about to execute a program.

        `name` is the address of the path or name in its call, 0 if it has none.
        """

    def is_over(self) -> bool:
        """Return whether the process has ended, or runs another program that is not followed."""
        raise NotImplementedError

    def close(self) -> None:
        """Undo all changes to the process and detach from it. May be called twice."""
        raise NotImplementedError
