# SPDX-License-Identifier: Apache-2.0
"""Brief stops of threads by another process, which is their tracer.

    sampler ── ASK a thread; RELEASE it ──► tracer
    sampler ◄── STOPPED, with its registers; GONE: it does not stop; REFUSED ── tracer

Each is one packet. The memory of a stopped thread can be read without being its tracer.
"""

from __future__ import annotations

import _socket
import fcntl
import os
import select
from struct import Struct

from soscope.entry.isa import arch
from soscope.entry.stop.rest import NONE, Stopped
from soscope.proc.status import signal

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
