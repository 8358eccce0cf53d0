# SPDX-License-Identifier: Apache-2.0
"""A child process that detaches from a stub's program if soscope is killed.

A stub expects that a debugger may come back, and so it leaves breakpoints in the program's memory
when the connection ends. So a child of soscope also has the connection, and is told of each
breakpoint. When soscope has ended, the child removes the breakpoints and detaches.

A stub that reads packets only while its program is stopped reports the next stop to whichever
process has the connection. If there is none, its program is killed by SIGPIPE. So the child stays
until that stop.
"""

from __future__ import annotations

import os
import select
import socket
import time
from contextlib import suppress

from soscope.entry.remote import packets
from soscope.entry.remote.packets import PacketStream
from soscope.entry.remote.stub import RemoteFiles, RemoteStub
from soscope.errors import RemoteError
from soscope.proc import status
from soscope.proc.status import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


# Keep signals that soscope has caused from the program when it is detached.

SIGINT, SIGTRAP, SIGSEGV = 2, 5, 11  # numbers of the protocol
_SIGNALS = 151


def without_ours(*, programs: bool) -> list[bytes]:
    """Return the packets that keep soscope's signals from the program.

    There are none if the stub does not accept them (`programs`). A fault of the program's own
    comes again, because the program goes on at the same instruction.
    """
    if not programs:
        return []
    passed = sorted(set(range(1, _SIGNALS)) - {SIGINT, SIGTRAP, SIGSEGV})
    return [b"QProgramSignals:" + ";".join(f"{number:x}" for number in passed).encode()]


def is_interrupted(files: RemoteFiles, pid: int) -> bool:
    """Return whether a SIGINT is pending for a process and not blocked, if its /proc tells that.

    A process that blocks the signal has a use for it, or takes it when it unblocks it. That is
    left to the process.
    """
    text = files.read(f"/proc/{pid}/status")
    fields = status.fields_of((text or b"").decode("utf-8", "replace"))
    pending = int(fields.get("ShdPnd", "0"), 16) & ~int(fields.get("SigBlk", "0"), 16)
    return bool(pending >> SIGINT - 1 & 1)


_STOP = 2.0  # seconds in which a running program must stop
_OVER = b"."
_PointsOf = dict[int, set[bytes]]  # by pid
_PIECE = 1 << 16
_MARK, _MARKED = b"qC", b"QC"  # a question whose answer cannot be mistaken


class Guard:
    """The child process. `note` gets each packet that sets or removes a breakpoint.

    `forked` and `gone` get processes that come and go. It knows the first process from the start.
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
        """Fork it, with the connection that `connected` returns and the stub's process number.

        The number is 0 if the stub has none. `programs` tells that the stub accepts
        QProgramSignals, by which signals are kept from the program. `at_stops` tells that it
        reads packets only while the program is stopped. Raises OSError if no process or
        descriptor can be made.
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
        """Report a packet of process `pid`, which may set or remove a breakpoint."""
        self._tell(b"%x %s" % (pid, packet))

    def forked(self, parent: int, child: int) -> None:
        """Report a child that has all breakpoints of its parent."""
        self._tell(b"%x =%x" % (parent, child))

    def gone(self, pid: int) -> None:
        """Report a process that has ended or has another memory by now."""
        self._tell(b"%x -" % pid)

    def _tell(self, line: bytes) -> None:
        with suppress(OSError):  # killed: there is no guard then
            os.write(self._pipe, line + b"\n")

    def dismiss(self) -> None:
        """End the child, because the program was detached. May be called twice."""
        if self._pipe >= 0:
            self._tell(_OVER)
            os.close(self._pipe)
            self._pipe = -1
            with suppress(ChildProcessError):  # another handler of SIGCHLD reaped it
                os.waitpid(self._child, 0)

    def stay(self) -> None:
        """Leave the detaching to the child, and do not wait for it. May be called twice."""
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
    """Wait until soscope has ended, then undo what it has not undone."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    points: _PointsOf = {pid: set()}
    rest = b""
    while data := os.read(pipe, _PIECE):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            if line == _OVER:
                return
            _hear(points, line)
    with suppress(RemoteError):  # the process or thread has ended
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
        answer = stream.receive(left)  # or an answer to an earlier question of soscope
        if answer is None or answer[:1] in (b"T", b"S", b"W", b"X"):
            break
    _let_all_go(RemoteStub(connected, "<", events=True), points, first, programs=programs)


def _let_all_go(stub: RemoteStub, points: _PointsOf, first: int, *, programs: bool) -> None:
    """Detach from stopped processes, children before their parents, who may wait for them."""
    for packet in without_ours(programs=programs):
        stub.ask(packet)
    every = set().union(*points.values())
    for name in stub.threads():  # an unreported child has its parent's breakpoints
        points.setdefault(packets.process_of(name), every)
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
                return  # the program has not stopped, so the stub reads nothing
            child = stop.facts.get("fork") or stop.facts.get("vfork")
            if child is not None:
                stub.ask(_detached(packets.process_of(child)))
        stub.ask(_detached(pid))


def _let_go_at_stop(connected: socket.socket, detach: bytes) -> None:
    """Detach from the program at its next stop, or now. Its breakpoints go with that.

    soscope may not have acknowledged the last answer, because acknowledgements are sent ahead. A
    stub may read these together with a question of soscope's that it has not answered yet, and
    look behind them for the acknowledgement of its answer. So each answer is acknowledged again
    when it comes. The answer to the last packet is not acknowledged: a stub that waits for the
    acknowledgement finds the connection closed. A signal that the program has stopped for is sent
    in the same piece as the detach, because a stub that has detached sends nothing more.
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
            stop = packets.parse(packet)
            go = b"vCont;C%02x:%s;c" % (stop.number, stop.thread.encode())
            orders = [detach] if stop.number in (0, SIGTRAP) else [go, detach]
    stream.leave(orders)
    next(_packets(stream), None)


def _packets(stream: PacketStream) -> Iterator[bytes]:
    """Yield packets as they come, until the other side has closed the connection."""
    while not stream.is_over:
        packet = stream.receive(0)
        if packet is not None:
            yield packet
        elif not stream.is_over:
            select.select([stream], [], [])


def _leave_files(kept: int) -> None:
    """Close all other files, as this process may live long and others may wait for their end."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        if descriptor != kept:
            os.dup2(null, descriptor)
    os.closerange(3, kept)
    os.closerange(max(kept + 1, 3), os.sysconf("SC_OPEN_MAX"))
