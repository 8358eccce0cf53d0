# SPDX-License-Identifier: Apache-2.0
"""Who lets a program go that a stub holds, when soscope is killed.

A stub takes breakpoints of ours for those of somebody who may come back, and leaves them in
the program's memory when the connection ends. So a child of soscope has the connection as
well, and is told of each breakpoint. When soscope is gone, it takes them out and lets go.

A stub that hears us while its program stands still, and at no other time, tells of the next stop
whoever is there: its program ends by SIGPIPE where nobody is. So the child stays until then.
"""

from __future__ import annotations

import os
import select
import socket
import time
from contextlib import suppress

from soscope.control.remote.held.kept import SIGTRAP, is_interrupted, without_ours
from soscope.entry.remote import stops
from soscope.entry.remote.files import RemoteFiles
from soscope.entry.remote.packets import PacketStream
from soscope.entry.remote.stub import RemoteStub
from soscope.errors import RemoteError
from soscope.proc.signals import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_STOP = 2.0  # seconds in which a program stops, if it was running
_OVER = b"."
_PointsOf = dict[int, set[bytes]]  # by process
_PIECE = 1 << 16
_MARK, _MARKED = b"qC", b"QC"  # a question whose answer is like no other one


class Guard:
    """The child. `note` hears of each packet that sets or removes a breakpoint.

    `forked` and `gone` hear of processes that come and go. Of the first one it knows.
    """

    __slots__ = ("_child", "_pipe")

    def __init__(
        self,
        connected: Callable[[], socket.socket],
        pid: int,
        *,
        programs: bool,
        at_stops: bool,
    ) -> None:
        """Make it, with the connection that `connected` returns and the stub's number for it.

        That is 0 where the stub has none. `programs` says that the stub can be told which signals
        to keep from the program, `at_stops` that it hears us while that stands still alone.
        Raises OSError where there is no process, or no descriptor, to be had.
        """
        ours, self._pipe = os.pipe2(os.O_CLOEXEC)
        self._child = os.fork()
        if not self._child:
            try:
                os.close(self._pipe)
                _watch(ours, connected, pid, programs=programs, at_stops=at_stops)
            finally:
                os._exit(0)
        os.close(ours)

    def note(self, pid: int, packet: bytes) -> None:
        """Tell it of a packet of process `pid`: it may be told of a breakpoint that is none."""
        self._tell(b"%x %s" % (pid, packet))

    def forked(self, parent: int, child: int) -> None:
        """Tell it of a child that has what its parent has."""
        self._tell(b"%x =%x" % (parent, child))

    def gone(self, pid: int) -> None:
        """Tell it of a process that has ended, or has other memory by now."""
        self._tell(b"%x -" % pid)

    def _tell(self, line: bytes) -> None:
        with suppress(OSError):  # it has been killed: then there is none
            os.write(self._pipe, line + b"\n")

    def dismiss(self) -> None:
        """Have it end: the program has been let go. May be called twice."""
        if self._pipe >= 0:
            self._tell(_OVER)
            os.close(self._pipe)
            self._pipe = -1
            with suppress(ChildProcessError):  # somebody else's handler of SIGCHLD took it
                os.waitpid(self._child, 0)

    def stay(self) -> None:
        """Have it let the program go, and wait no longer. May be called twice."""
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1


def _watch(
    pipe: int,
    connected: Callable[[], socket.socket],
    pid: int,
    *,
    programs: bool,
    at_stops: bool,
) -> None:
    """Wait until soscope is gone; undo then what it has not undone."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    points: _PointsOf = {pid: set()}
    rest = b""
    while data := os.read(pipe, _PIECE):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            if line == _OVER:
                return
            _hear(points, line)
    with suppress(RemoteError):  # it has ended
        if at_stops:
            _let_go_at_stop(connected(), _detached(pid))
        else:
            _let_go(connected(), points, pid, programs=programs)


def _hear(points: _PointsOf, line: bytes) -> None:
    number, what = line.split(b" ", 1)
    pid = int(number, 16)
    if what == b"-":
        points.pop(pid, None)
    elif what[:1] == b"=":
        points[int(what[1:], 16)] = set(points.get(pid, ()))
    else:
        own = points.setdefault(pid, set())
        (own.add if what[:1] == b"Z" else own.discard)(what[1:])


def _detached(pid: int) -> bytes:
    return b"D;%x" % pid if pid else b"D"


def _let_go(connected: socket.socket, points: _PointsOf, first: int, *, programs: bool) -> None:
    stream = PacketStream(connected)
    stream.acknowledge_no_more()
    stream.interrupt()
    end = time.monotonic() + _STOP
    while (left := end - time.monotonic()) > 0:
        answer = stream.receive(left)  # or one to what soscope has asked
        if answer is None or answer[:1] in (b"T", b"S", b"W", b"X"):
            break
    _let_all_go(RemoteStub(connected, "<", events=True), points, first, programs=programs)


def _let_all_go(stub: RemoteStub, points: _PointsOf, first: int, *, programs: bool) -> None:
    """Let processes go that stand still: children before their parents, who may wait for them."""
    for packet in without_ours(programs=programs):
        stub.ask(packet)
    every = set().union(*points.values())
    for name in stub.threads():  # a child that was not told of yet has what its parent has
        points.setdefault(stops.process_of(name), every)
    for pid, own in points.items():
        if pid:
            stub.ask(b"Hgp%x.%x" % (pid, pid))
        for point in own:
            stub.ask(b"z" + point)
    files = RemoteFiles(stub, 0)
    end = time.monotonic() + _STOP
    for pid in [*(pid for pid in reversed(points) if pid != first), first]:
        while pid and is_interrupted(files, pid) and time.monotonic() < end:
            stub.only = pid
            stub.resume()
            stop = stub.wait(_STOP)
            if stop is None:
                return  # it has not stopped, and the stub hears nobody
            child = stop.facts.get("fork") or stop.facts.get("vfork")
            if child is not None:
                stub.ask(_detached(stops.process_of(child)))
        stub.ask(_detached(pid))


def _let_go_at_stop(connected: socket.socket, detach: bytes) -> None:
    """Let the program go when it stops next, or now; its breakpoints go with that.

    soscope may not have acknowledged the last answer: acknowledgements are sent ahead. A stub may
    read these together with a question of soscope's that it has not answered yet, and look for the
    acknowledgement of its answer behind them. So each answer is acknowledged again when it comes.
    The answer to the last word is not: a stub that waits for its acknowledgement finds the
    connection closed, and is done with it. A signal that the program has stopped for is sent on in
    the same piece, as a stub that has let go has nothing more to say to it.
    """
    _leave_files(connected.fileno())
    stream = PacketStream(connected)
    stream.leave([_MARK])
    orders = [detach]
    for packet in _packets(stream):
        if packet.startswith(_MARKED):
            break
        stream.acknowledge()
        if packet[:1] in (b"T", b"S"):
            stop = stops.parse(packet)
            go = b"vCont;C%02x:%s;c" % (stop.number, stop.thread.encode())
            orders = [detach] if stop.number in (0, SIGTRAP) else [go, detach]
    stream.leave(orders)
    next(_packets(stream), None)


def _packets(stream: PacketStream) -> Iterator[bytes]:
    """Give packets as they come, until the other side has gone."""
    while not stream.is_over:
        packet = stream.receive(0)
        if packet is not None:
            yield packet
        elif not stream.is_over:
            select.select([stream], [], [])


def _leave_files(kept: int) -> None:
    """Close what somebody may wait for the end of: this process may be here for long."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        if descriptor != kept:
            os.dup2(null, descriptor)
    os.closerange(3, kept)
    os.closerange(max(kept + 1, 3), os.sysconf("SC_OPEN_MAX"))
