# SPDX-License-Identifier: Apache-2.0
"""A process of somebody else's that is traced, however that is done: what ends that, and how."""

from __future__ import annotations

import os

from soscope.control.events import SessionEvents
from soscope.control.exitstatus import ExitStatus
from soscope.control.program import Program
from soscope.control.signals import ENDING, OWN_SIGNALS, Signals
from soscope.entry.agent.undo import Taken
from soscope.proc.signals import heeded, signal


class Visited:
    """One process of somebody else's.

    `has_ended` says that it has, `executed` is the path of the program that it executed and
    that is not followed, None before. `taken` says what came of taking out what was put into it,
    None before, and where there was nothing or the process ended. `failure` says why that could not
    be done. `beside` are processes of the same trace, which are let go of by themselves.
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
        self._end_forced = False  # not by the terminal alone: who reads us got its signal, too
        self._is_interrupted = False
        self._closed = False

    def stop(self) -> None:
        """Let the loop end soon."""
        self._stop = True

    @property
    def is_stopped(self) -> bool:
        """Return whether the loop is to end."""
        return self._stop

    @property
    def is_closed(self) -> bool:
        """Return whether the process has been let go of."""
        return self._closed

    # ---- parts of the loop ----

    def wait(self, seconds: float) -> None:
        """Wait, but not longer than until a signal comes: it may be the one to stop for."""
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
        """Stop as Ctrl-Z wants it; the process goes on, and drops what finds no room."""
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTSTP,))
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTSTP,))

    def attend(self) -> bool:
        """Hear signals while the tick waits for somebody who reads its output.

        Return False where it should not wait any longer.
        """
        self.wait(0)
        return not self._end_forced

    @property
    def is_asked_to_end(self) -> bool:
        """Return whether somebody wants soscope to end, so that it waits for no reader any more."""
        return self._end_forced

    @property
    def is_interrupted(self) -> bool:
        """Whether a signal has ended the observation. The process goes on."""
        return self._is_interrupted

    # ---- what each kind says for itself ----

    @property
    def programs(self) -> list[Program]:
        """The programs under observation; the first is the one that ran already."""
        raise NotImplementedError

    @property
    def exit(self) -> ExitStatus | None:
        """How it ended, if that is known."""
        return None

    @property
    def longest_stop(self) -> int:
        """The longest time that a thread of the process was stopped, in ns."""
        return 0

    @property
    def remarks(self) -> list[str]:
        """What was not seen of it."""
        return []

    @property
    def lacks_children(self) -> bool:
        """Whether children, or what they have executed, could not be seen."""
        return False

    def hear(self) -> bool:
        """Hear what has happened to its processes; return whether that is all told."""
        return True

    def note_exec(self, name: int) -> None:
        """Take note that the process is about to execute a program.

        `name` is the address of the path or name that its call gives, 0: it gives none.
        """

    def is_over(self) -> bool:
        """Return whether the process has ended, or runs another program that is not followed."""
        raise NotImplementedError

    def close(self) -> None:
        """Undo all that was done to the process, and let go of it. May be called twice."""
        raise NotImplementedError
