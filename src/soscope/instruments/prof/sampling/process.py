# SPDX-License-Identifier: Apache-2.0
"""The sampler in a process of its own, and the messages between it and soscope.

    soscope ── a process, and for how long it has run; or the end ──► sampler
    soscope ◄── what is new in its tally, as a line of JSON; why a process is not sampled ── sampler

If a process is traced for its children, its tracer stops the threads for the sampler
(`entry/stop/moments.py`).

The sampler never waits for soscope, as a stopped thread waits for the sampler. If soscope is
gone, the sampler ends, and the kernel resumes the threads that it has stopped.
"""

from __future__ import annotations

import _socket
import json
import os
import select
import time
from struct import Struct

from soscope.errors import SoscopeError
from soscope.proc.status import process_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PIECE = 1 << 16
_OFTEN = 0.25  # seconds between messages
_MOST_WAITING = 16 << 20  # bytes that soscope has not read yet, at most
_PATIENCE = 3.0  # seconds to wait for the last messages
_PAUSE = 0.01
_PRIORITY = -15
_END = 0
_WORDS = Struct("<QQ")  # a process, and how many ns it has run


class SamplerProcess:
    """A sampler that soscope has started. `pid` is its process.

    `asker` is the socket on which it asks for stops, None if it stops threads itself.
    """

    def __init__(self, hz: int, *, follows: bool = False, asks_kernel: bool = True) -> None:
        """Start the sampler. With `follows`, the processes are traced for their children.

        `asks_kernel` is the same as for `StackSampler`. Raises OSError.
        """
        self._link, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
        self.asker: _socket.socket | None = None
        asks: _socket.socket | None = None
        if follows:
            self.asker, asks = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        try:
            self.pid = os.fork()
        except OSError:
            _close(self._link, theirs, self.asker, asks)
            raise
        if not self.pid:
            _close(self._link, self.asker)
            _live(hz, theirs, asks, asks_kernel=asks_kernel)
        _close(theirs, asks)
        self._link.setblocking(False)
        self._data = b""
        self._is_open = True
        self._unread: list[dict[str, Any]] = []
        self.has_failed = False

    def add(self, pid: int) -> None:
        """Let the sampler take one more process, or a process's new program, and wait for that.

        The answer comes among all other messages: {"process": [pid, why it is not sampled, what
        is not seen of it]}, with None if there is no such reason. Other messages are samples, and
        {"stood": for how many ns threads have stood still so far}.
        """
        try:
            self._send(pid, process_ns(pid))
        except OSError:
            return  # the process or thread has ended
        end = time.monotonic() + _PATIENCE
        while self._is_open and (left := end - time.monotonic()) > 0:
            select.select([self._link], (), (), left)
            new = self._read()
            self._unread += new
            if any(said.get("process", [0])[0] == pid for said in new):
                break

    def said(self) -> list[dict[str, Any]]:
        """Return the messages since the last call."""
        unread, self._unread = self._unread, []
        return unread + self._read()

    def _read(self) -> list[dict[str, Any]]:
        while self._is_open:
            try:
                piece = self._link.recv(_PIECE)
            except BlockingIOError:
                break  # no more data so far
            except OSError:
                piece = b""
            self._is_open = bool(piece)
            self._data += piece
        lines = self._data.split(b"\n")
        self._data = lines.pop()
        return [json.loads(line) for line in lines]

    def end(self) -> list[dict[str, Any]]:
        """End the sampler and return its last messages.

        Afterwards `has_failed` tells whether it had ended before.
        """
        said = self.said()
        self.has_failed = not self._is_open
        self._send(_END, 0)
        end = time.monotonic() + _PATIENCE
        while self._is_open and time.monotonic() < end:
            said += self.said()
            time.sleep(_PAUSE / 10)
        _close(self._link, self.asker)
        try:
            while not os.waitpid(self.pid, os.WNOHANG)[0] and time.monotonic() < end:
                time.sleep(_PAUSE / 10)  # a thread may first have to finish a call
        except ChildProcessError:
            pass  # another handler of SIGCHLD has waited for it
        return said

    def _send(self, pid: int, begun: int) -> None:
        try:
            self._link.send(_WORDS.pack(pid, begun))
        except OSError:
            self._is_open = False  # it was killed


def _close(*links: _socket.socket | None) -> None:
    for link in links:
        if link is not None:
            link.close()


def _live(hz: int, link: _socket.socket, asks: _socket.socket | None, *, asks_kernel: bool) -> None:
    """Run as the sampler, until this process ends."""
    try:
        try:
            # A sampler that waits for a processor gets one when the target gives it up, which is
            # not at random places.
            os.setpriority(os.PRIO_PROCESS, 0, _PRIORITY)
        except OSError:
            pass  # only root may raise its priority
        from soscope.entry.stop.moments import rings
        from soscope.instruments.prof.sampling.sampler import StackSampler
        from soscope.proc.status import signal

        os.setpgid(0, 0)  # signals of a terminal are for soscope
        null = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(null, number)  # readers of soscope's output must not wait for this process
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        rings(link)
        sampler = StackSampler(hz, asks, asks_kernel=asks_kernel)
        _Life(sampler, link).run()
    finally:
        os._exit(0)


class _Life:
    def __init__(self, sampler: Any, link: _socket.socket) -> None:
        self._sampler = sampler
        self._link = link
        self._waiting = b""
        self._told_ns = 0  # ns for which threads have stood still

    def run(self) -> None:
        due = 0.0
        while self._hear():
            if self._sampler.is_idle:
                select.select([self._link], (), (), _OFTEN)
                continue
            self._sampler.turn(self._link)
            if time.monotonic() >= due:
                due = time.monotonic() + _OFTEN
                self._tell()
        self._sampler.close()
        self._tell()
        self._link.setblocking(True)
        self._link.settimeout(_PATIENCE)
        self._link.sendall(self._waiting)

    def _hear(self) -> bool:
        """Process soscope's messages. Return False at the end."""
        while True:
            try:
                data = self._link.recv(_WORDS.size, _socket.MSG_DONTWAIT)
            except BlockingIOError:
                return True  # no more data so far
            pid, begun = _WORDS.unpack(data or bytes(_WORDS.size))
            if pid == _END:
                return False
            why = unseen = None
            try:
                unseen = self._sampler.add(pid, begun)
            except (SoscopeError, OSError) as error:
                why = str(error)
            self._say({"process": [pid, why, unseen]})
            self._flush()

    def _tell(self) -> None:
        said = self._sampler.tally.take()
        if said is not None:
            self._say(said)
        if (stood := self._sampler.stood_ns) != self._told_ns:
            self._told_ns = stood
            self._say({"stood": stood})
        self._flush()

    def _flush(self) -> None:
        try:
            while self._waiting:
                sent = self._link.send(self._waiting, _socket.MSG_DONTWAIT | _socket.MSG_NOSIGNAL)
                self._waiting = self._waiting[sent:]
        except BlockingIOError:
            if len(self._waiting) > _MOST_WAITING:
                raise  # soscope will read nothing any more

    def _say(self, said: dict[str, Any]) -> None:
        self._waiting += json.dumps(said, separators=(",", ":")).encode() + b"\n"
