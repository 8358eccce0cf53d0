# SPDX-License-Identifier: Apache-2.0
"""Threads that run are stopped for a moment, one by one: by us, or by whoever traces them."""

from __future__ import annotations

import _socket
import fcntl
import os
import select
from struct import Struct

from soscope.entry import ptrace
from soscope.entry.isa import arch
from soscope.entry.stop.rest import NONE, TRAP, Rests, Stopped, mended
from soscope.proc.status import signal

# Stop running threads briefly, one by one, and detach from them again.
#
# Between two such stops a thread has no tracer, so its signals are not affected. A signal that
# comes during a stop is delivered at the detach. A thread that waits must not be asked to stop,
# because a stop ends system calls. A thread that has begun a call since it was checked, or that is
# in the middle of one, repeats its call, or the rest of it (`rest.py`).

_WAIT = ptrace.WALL | os.WNOHANG


class Moments:
    """Asks threads to stop, and reports when they have. For use by one thread of soscope.

    `asked` are the threads that have been asked and have not stopped yet. SIGCHLD must be
    blocked.
    """

    __slots__ = ("_rests", "asked")

    def __init__(self) -> None:
        self.asked: set[int] = set()
        self._rests = Rests(_detach)

    @property
    def is_idle(self) -> bool:
        """Return whether no thread is traced. A traced thread's end waits until it is noticed."""
        return not self.asked and not self._rests.tids

    def ask(self, tid: int) -> bool:
        """Ask a thread to stop. Return False if it is still making the rest of a call.

        Raises OSError if it has ended, may not be traced, or has another tracer.
        """
        if tid in self._rests or tid in self.asked:
            return False
        ptrace.seize(tid, ptrace.O_TRACESYSGOOD)
        self.asked.add(tid)
        try:
            ptrace.interrupt(tid)
        except ProcessLookupError:
            pass  # the thread ends, which is reported later
        return True

    @staticmethod
    def wait(seconds: float, other: _socket.socket) -> bool:
        """Wait until a thread may have stopped, or `other` is readable. Return False for neither.

        Data at `other` must raise SIGCHLD (see `served`).
        """
        del other
        return signal.sigtimedwait((signal.SIGCHLD,), seconds) is not None

    def next(self) -> Stopped | None:
        """Return a thread that has stopped, or None. It has to be released soon.

        Threads that have ended instead, or that a signal has stopped for longer, are not
        returned.
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
                _detach(tid)  # the thread stays in the group stop
                continue
            try:
                return Stopped(tid, NONE if is_event else number, mended(tid))
            except OSError:
                continue  # it was killed
        return None

    @staticmethod
    def refused() -> list[int]:
        """Return asked threads that may not be stopped: none, because `ask` raises the error."""
        return []

    def release(self, stopped: Stopped) -> None:
        """Resume a thread, and detach from it as soon as it has made the rest of its call."""
        self._rests.release(stopped)

    def close(self) -> None:
        """Detach from all threads, but first from those that make the rest of a call.

        Threads that have only been asked go on when this process ends.
        """
        self._rests.close()

    def _wait(self, tid: int) -> int | None:
        """Return the wait status of a thread that has stopped or ended, else None."""
        try:
            waited, how = os.waitpid(tid, _WAIT)
        except ChildProcessError:  # the thread's end was reaped elsewhere
            self.asked.discard(tid)
            self._rests.forget(tid)
            return None
        return how if waited else None


def _detach(tid: int, number: int = NONE) -> None:
    try:
        ptrace.detach(tid, number)
    except OSError:
        pass  # it was killed


# Brief stops of threads by another process, which is their tracer.
#
#     sampler ── ASK a thread; RELEASE it ──► tracer
#     sampler ◄── STOPPED, with its registers; GONE: it does not stop; REFUSED ── tracer
#
# Each is one packet. The memory of a stopped thread can be read without being its tracer.

ASK, RELEASE = 1, 2
STOPPED, GONE, REFUSED = 3, 4, 5
WORDS = Struct("<II")  # message and thread; registers may follow
MOST = 1 << 12
_SETSIG = 10  # of fcntl(2); the module lacks the name


def rings(link: _socket.socket) -> None:
    """Make data on this link raise SIGCHLD in this process, like the stops of threads."""
    fcntl.fcntl(link, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(link, _SETSIG, signal.SIGCHLD)
    fcntl.fcntl(link, fcntl.F_SETFL, fcntl.fcntl(link, fcntl.F_GETFL) | os.O_ASYNC)


class ServedMoments:
    """The same as `Moments`, by a tracer at the other end of a packet socket."""

    __slots__ = ("_link", "_refused", "asked")

    def __init__(self, link: _socket.socket) -> None:
        link.setblocking(False)
        self._link = link
        self._refused: list[int] = []
        self.asked: set[int] = set()

    @property
    def is_idle(self) -> bool:
        """Return whether no answer is pending."""
        return not self.asked

    def ask(self, tid: int) -> bool:
        """Ask for a stop of a thread. Return False if that is not possible now."""
        if tid in self.asked or not self._say(ASK, tid):
            return False
        self.asked.add(tid)
        return True

    def wait(self, seconds: float, other: _socket.socket) -> bool:
        """Wait until a thread may have stopped, or `other` is readable, for at most `seconds`.

        Return False if neither has happened.
        """
        return bool(select.select([self._link, other], (), (), seconds)[0])

    def next(self) -> Stopped | None:
        """Return a thread that has stopped, or None. It has to be released soon."""
        while True:
            try:
                packet = self._link.recv(MOST)
            except BlockingIOError:
                return None  # no more data so far
            except OSError:
                packet = b""
            if len(packet) < WORDS.size:
                self.asked.clear()  # the tracer has ended, and will end this process
                return None
            what, tid = WORDS.unpack_from(packet)
            if tid not in self.asked:
                continue
            self.asked.discard(tid)
            if what == STOPPED:
                registers = arch.Registers.from_buffer_copy(packet, WORDS.size)
                return Stopped(tid, NONE, registers)
            if what == REFUSED:
                self._refused.append(tid)

    def refused(self) -> list[int]:
        """Return the threads, since the last call, that may not be stopped."""
        refused, self._refused = self._refused, []
        return refused

    def release(self, stopped: Stopped) -> None:
        """Resume a thread."""
        self._say(RELEASE, stopped.tid)

    def close(self) -> None:
        """Close the link. The tracer then releases all threads."""
        self._link.close()

    def _say(self, what: int, tid: int) -> bool:
        try:
            self._link.send(WORDS.pack(what, tid), _socket.MSG_NOSIGNAL)
        except OSError:
            return False  # the tracer has ended, or is far behind
        return True
