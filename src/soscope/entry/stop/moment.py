# SPDX-License-Identifier: Apache-2.0
"""Threads that run are stopped for a moment, one by one, and let go of untraced.

Between two moments nobody traces a thread, so its signals go their way; one that comes to it
meanwhile it gets as it is let go. Who waits must not be asked: a stop ends system calls. A thread
that has begun one since it was looked at, or that is in the middle of one, makes its call again, or
the rest of it (`rest.py`).
"""

from __future__ import annotations

import os

from soscope.entry import ptrace
from soscope.entry.stop.rest import NONE, TRAP, Rests, Stopped, mended
from soscope.proc.signals import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket

_WAIT = ptrace.WALL | os.WNOHANG


class Moments:
    """Asks threads to stop, and hears when they have. For one thread of soscope's alone.

    `asked` are the threads that have been asked and have not stopped yet. SIGCHLD is to be blocked.
    """

    __slots__ = ("_rests", "asked")

    def __init__(self) -> None:
        self.asked: set[int] = set()
        self._rests = Rests(_detach)

    @property
    def is_idle(self) -> bool:
        """Return whether nobody is to be heard of: else whoever ends waits for us to take note."""
        return not self.asked and not self._rests.tids

    def ask(self, tid: int) -> bool:
        """Ask a thread to stop; False: it still makes the rest of a call.

        Raises OSError where it has ended, or may not be traced, or is traced by somebody else.
        """
        if tid in self._rests or tid in self.asked:
            return False
        ptrace.seize(tid, ptrace.O_TRACESYSGOOD)
        self.asked.add(tid)
        try:
            ptrace.interrupt(tid)
        except ProcessLookupError:
            pass  # it ends, which is told
        return True

    @staticmethod
    def wait(seconds: float, other: _socket.socket) -> bool:
        """Wait until a thread may have stopped, or something is said at `other`; False: neither.

        What is said there has to ring (see `served`).
        """
        del other
        return signal.sigtimedwait((signal.SIGCHLD,), seconds) is not None

    def next(self) -> Stopped | None:
        """Return a thread that has stopped, None: none has. It is to be released at once.

        Nothing is told of those that have ended instead, or that a signal has stopped for longer.
        """
        for tid in self._rests.tids:
            how = self._wait(tid)
            if how is not None:
                self._rests.take(tid, how)
        for tid in list(self.asked):
            how = self._wait(tid)
            if how is None:
                continue
            self.asked.discard(tid)
            if not os.WIFSTOPPED(how):
                continue
            number = os.WSTOPSIG(how)
            is_event = how >> 16 == ptrace.EVENT_STOP
            if is_event and number != TRAP:
                _detach(tid)  # it stays in that stop
                continue
            try:
                return Stopped(tid, NONE if is_event else number, mended(tid))
            except OSError:
                continue  # it has been killed
        return None

    @staticmethod
    def refused() -> list[int]:
        """Return threads that were asked and may not be stopped: `ask` says that at once."""
        return []

    def release(self, stopped: Stopped) -> None:
        """Let a thread go on, untraced as soon as it has made the rest of its call."""
        self._rests.release(stopped)

    def close(self) -> None:
        """Let go of everybody, and of those first that make the rest of a call.

        Those who have been asked go on when this process ends.
        """
        self._rests.close()

    def _wait(self, tid: int) -> int | None:
        """Return how a thread has stopped or ended, None: it has not."""
        try:
            waited, how = os.waitpid(tid, _WAIT)
        except ChildProcessError:  # somebody else has waited for its end
            self.asked.discard(tid)
            self._rests.forget(tid)
            return None
        return how if waited else None


def _detach(tid: int, number: int = NONE) -> None:
    try:
        ptrace.detach(tid, number)
    except OSError:
        pass  # it has been killed
