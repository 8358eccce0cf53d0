# SPDX-License-Identifier: Apache-2.0
"""Moments of threads that somebody else traces, who is asked to stop them and to let them go.

    sampler ── ASK a thread; RELEASE it ──► tracer
    sampler ◄── STOPPED, with its registers; GONE: it does not stop; REFUSED ── tracer

One packet each. What a thread that stands still has in its memory needs no tracer to be read.
"""

from __future__ import annotations

import _socket
import fcntl
import os
import select
from struct import Struct

from soscope.entry.isa import arch
from soscope.entry.stop.rest import NONE, Stopped
from soscope.proc.signals import signal

ASK, RELEASE = 1, 2
STOPPED, GONE, REFUSED = 3, 4, 5
WORDS = Struct("<II")  # what is said, and of which thread; registers follow
MOST = 1 << 12
_SETSIG = 10  # of fcntl(2), which the module has no name for


def rings(link: _socket.socket) -> None:
    """Have this process get SIGCHLD, as threads' stops have, when something is said to it."""
    fcntl.fcntl(link, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(link, _SETSIG, signal.SIGCHLD)
    fcntl.fcntl(link, fcntl.F_SETFL, fcntl.fcntl(link, fcntl.F_GETFL) | os.O_ASYNC)


class ServedMoments:
    """The same as `Moments`, by a tracer at the other end of a socket of whole packets."""

    __slots__ = ("_link", "_refused", "asked")

    def __init__(self, link: _socket.socket) -> None:
        link.setblocking(False)
        self._link = link
        self._refused: list[int] = []
        self.asked: set[int] = set()

    @property
    def is_idle(self) -> bool:
        """Return whether nobody is to be heard of."""
        return not self.asked

    def ask(self, tid: int) -> bool:
        """Ask for a thread; False: that cannot be now."""
        if tid in self.asked or not self._say(ASK, tid):
            return False
        self.asked.add(tid)
        return True

    def wait(self, seconds: float, other: _socket.socket) -> bool:
        """Wait until a thread may have stopped, or something is said at `other`; False: neither."""
        return bool(select.select([self._link, other], (), (), seconds)[0])

    def next(self) -> Stopped | None:
        """Return a thread that has stopped, None: none has. It is to be released at once."""
        while True:
            try:
                packet = self._link.recv(MOST)
            except BlockingIOError:
                return None  # nothing more so far
            except OSError:
                packet = b""
            if len(packet) < WORDS.size:
                self.asked.clear()  # who traces has ended, and is about to end us
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
        """Return the threads, new ones, that were asked for and may not be stopped."""
        refused, self._refused = self._refused, []
        return refused

    def release(self, stopped: Stopped) -> None:
        """Let a thread go on."""
        self._say(RELEASE, stopped.tid)

    def close(self) -> None:
        """Let go of everybody: who traces does so as soon as nobody is at this end."""
        self._link.close()

    def _say(self, what: int, tid: int) -> bool:
        try:
            self._link.send(WORDS.pack(what, tid), _socket.MSG_NOSIGNAL)
        except OSError:
            return False  # who traces has ended, which lets go of everybody; or is far behind
        return True
