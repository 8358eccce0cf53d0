# SPDX-License-Identifier: Apache-2.0
"""Who lets a program go that a stub has attached to, when soscope is killed.

A stub takes breakpoints of ours for those of somebody who may come back, and leaves them in
the program's memory when the connection ends. So a child of soscope has the connection as
well, and is told of each breakpoint. When soscope is gone, it takes them out and lets go.
"""

from __future__ import annotations

import os
import socket
import time
from _collections_abc import Callable
from contextlib import suppress

from soscope.control.remote.held.kept import without_ours
from soscope.entry.remote.packets import PacketStream
from soscope.errors import RemoteError
from soscope.proc.signals import signal

_STOP = 2.0  # seconds in which a program stops, if it was running
_ANSWER = 2.0
_OVER = b"."
_PIECE = 1 << 16


class Guard:
    """The child. `note` hears of each packet that sets or removes a breakpoint."""

    __slots__ = ("_child", "_pipe")

    def __init__(self, connected: Callable[[], socket.socket], pid: int, *, programs: bool) -> None:
        """Make it, with the connection that `connected` returns and the program's number.

        `programs` says that the stub can be told which signals to keep from the program.
        Raises OSError where there is no process, or no descriptor, to be had.
        """
        ours, self._pipe = os.pipe2(os.O_CLOEXEC)
        self._child = os.fork()
        if not self._child:
            try:
                os.close(self._pipe)
                _watch(ours, connected, pid, programs=programs)
            finally:
                os._exit(0)
        os.close(ours)

    def note(self, packet: bytes) -> None:
        """Tell it of a packet that is about to be sent."""
        with suppress(OSError):  # it has been killed: then there is none
            os.write(self._pipe, packet + b"\n")

    def dismiss(self) -> None:
        """Have it end: the program has been let go. May be called twice."""
        if self._pipe >= 0:
            self.note(_OVER)
            os.close(self._pipe)
            self._pipe = -1
            with suppress(ChildProcessError):  # somebody else's handler of SIGCHLD took it
                os.waitpid(self._child, 0)


def _watch(pipe: int, connected: Callable[[], socket.socket], pid: int, *, programs: bool) -> None:
    """Wait until soscope is gone; undo then what it has not undone."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    points: set[bytes] = set()
    rest = b""
    while data := os.read(pipe, _PIECE):
        *packets, rest = (rest + data).split(b"\n")
        for packet in packets:
            if packet == _OVER:
                return
            (points.add if packet[:1] == b"Z" else points.discard)(packet[1:])
    with suppress(RemoteError):  # it has ended
        stream = PacketStream(connected())
        stream.acknowledge_no_more()
        stream.interrupt()
        end = time.monotonic() + _STOP
        while (left := end - time.monotonic()) > 0:
            answer = stream.receive(left)  # or one to what soscope has asked
            if answer is None or answer[:1] in (b"T", b"S", b"W", b"X"):
                break
        orders = [b"z" + point for point in points]
        stream.leave([*orders, *without_ours(programs=programs), b"D;%x" % pid])
        while stream.receive(_ANSWER) is not None:
            pass  # it is read, or the program has not stopped yet
