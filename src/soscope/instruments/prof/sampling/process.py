# SPDX-License-Identifier: Apache-2.0
"""The sampler in a process of its own, and what soscope and it say to each other.

    soscope ── a process, and for how long it has run; or the end ──► sampler
    soscope ◄── what is new in its tally, as a line of JSON; why a process is not sampled ── sampler

Who traces a process for its children stops its threads for the sampler (`entry/stop/served.py`).

The sampler never waits for soscope: a thread that stands still waits for it. When soscope has
gone it ends, and the kernel lets go of whoever it has asked to stop.
"""

from __future__ import annotations

import _socket
import json
import os
import select
import time
from struct import Struct

from soscope.errors import SoscopeError
from soscope.proc.cputime import process_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PIECE = 1 << 16
_OFTEN = 0.25  # seconds between what is said
_MOST_WAITING = 16 << 20  # bytes that soscope has not read
_PATIENCE = 3.0  # seconds for the last words
_PAUSE = 0.01
_PRIORITY = -15
_END = 0
_WORDS = Struct("<QQ")  # a process, and how many ns it has run


class SamplerProcess:
    """A sampler that soscope has started; `pid` is its process.

    `asker` is where it asks for stops, None: it stops threads itself.
    """

    def __init__(self, hz: int, *, follows: bool = False, asks_kernel: bool = True) -> None:
        """Start it; `follows`: somebody traces the processes for their children.

        `asks_kernel` as of `StackSampler`. Raises OSError.
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
        """Have one more process sampled, or another program of the same one; wait for that.

        What is said of it, {"process": [pid, why it is not sampled, what is not seen of it]} with
        None where that is nothing, comes with all else that is said: samples, and {"stood": for how
        many ns threads have stood still for them so far}.
        """
        try:
            self._send(pid, process_ns(pid))
        except OSError:
            return  # it has ended
        end = time.monotonic() + _PATIENCE
        while self._is_open and (left := end - time.monotonic()) > 0:
            select.select([self._link], (), (), left)
            new = self._read()
            self._unread += new
            if any(said.get("process", [0])[0] == pid for said in new):
                break

    def said(self) -> list[dict[str, Any]]:
        """Return what it has said since the last time."""
        unread, self._unread = self._unread, []
        return unread + self._read()

    def _read(self) -> list[dict[str, Any]]:
        while self._is_open:
            try:
                piece = self._link.recv(_PIECE)
            except BlockingIOError:
                break  # nothing more so far
            except OSError:
                piece = b""
            self._is_open = bool(piece)
            self._data += piece
        lines = self._data.split(b"\n")
        self._data = lines.pop()
        return [json.loads(line) for line in lines]

    def end(self) -> list[dict[str, Any]]:
        """Have it end, and return its last words. Nothing follows.

        `has_failed` says afterwards that it had ended before.
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
                time.sleep(_PAUSE / 10)  # a thread may have a call to end first
        except ChildProcessError:
            pass  # somebody else's handler of SIGCHLD has waited for it
        return said

    def _send(self, pid: int, begun: int) -> None:
        try:
            self._link.send(_WORDS.pack(pid, begun))
        except OSError:
            self._is_open = False  # it has been killed


def _close(*links: _socket.socket | None) -> None:
    for link in links:
        if link is not None:
            link.close()


def _live(hz: int, link: _socket.socket, asks: _socket.socket | None, *, asks_kernel: bool) -> None:
    """Be the sampler, to the end of this process."""
    try:
        try:
            # who has to wait for a processor gets it where the target gives it away: not anywhere
            os.setpriority(os.PRIO_PROCESS, 0, _PRIORITY)
        except OSError:
            pass  # only root may
        from soscope.entry.stop.served import rings
        from soscope.instruments.prof.sampling.sampler import StackSampler
        from soscope.proc.signals import signal

        os.setpgid(0, 0)  # what a terminal sends is for soscope
        null = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(null, number)  # who reads soscope's output waits for its end, not for ours
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
        self._told_ns = 0  # for how long threads have stood still

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
        """Take what soscope says; False: it is over."""
        while True:
            try:
                data = self._link.recv(_WORDS.size, _socket.MSG_DONTWAIT)
            except BlockingIOError:
                return True  # nothing more so far
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
                raise  # nobody will read it any more

    def _say(self, said: dict[str, Any]) -> None:
        self._waiting += json.dumps(said, separators=(",", ":")).encode() + b"\n"
