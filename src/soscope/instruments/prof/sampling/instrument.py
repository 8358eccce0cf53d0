# SPDX-License-Identifier: Apache-2.0
"""The sampler in a process of its own, and the messages between it and soscope.

    soscope ── a process, and for how long it has run; or the end ──► sampler
    soscope ◄── what is new in its tally, as a line of JSON; why a process is not sampled ── sampler

If a process is traced for its children, its tracer stops the threads for the sampler
(`entry/tracee.py`).

The sampler never waits for soscope, as a stopped thread waits for the sampler. If soscope is
gone, the sampler ends, and the kernel resumes the threads that it has stopped.
"""

from __future__ import annotations

import _socket  # 0.2 ms; socket takes 7
import json
import os
import select
import time
from struct import Struct

from soscope.control.outcome import STOPS
from soscope.control.settings import Hooks, Instrument
from soscope.errors import SoscopeError
from soscope.proc import status
from soscope.proc.status import process_ns
from soscope.recording.sink import Sink
from soscope.wire import layout
from soscope.wire.block import ControlBlock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from soscope.control.outcome import Price


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
        from soscope.entry.tracee import rings
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


# The sampling instrument (`--sample`), beside whatever else a session records.

_PAUSE_INSTRUMENT = 0.2  # seconds between reads of the sampler's output
_LEFT = (  # Programs that may not be read, or not be understood.
    status.ENDED,
    status.FOREIGN,
    status.LET_GO,
    status.NOT_FOLLOWED,
    status.SETUID,
    status.SETUID_LOST,
    status.VALGRIND,
)
_FAILED = "samples were not taken to the end: the process that took them was killed"


class SamplingInstrument(Instrument):
    """Lets a sampler take `hz` samples in each second of the threads' processor time."""

    name = "sample"
    needs_no_agent = True

    def __init__(self, hz: int, *, is_alone: bool, follows: bool) -> None:
        """Prepare the instrument.

        `is_alone` means that no other instrument hooks, and `follows` that children are followed.
        """
        if is_alone:
            self.pause = _PAUSE_INSTRUMENT
            from soscope.prototypes import load
            from soscope.select.filter import compile_selection

            self.hooks = Hooks(layout.INSTRUMENT_COUNT, compile_selection(["-*"]), load())
        self._hz = hz
        self._follows = follows
        self._sampler: SamplerProcess | None = None
        self._recording: Sink = Sink()
        self._last: list[dict[str, Any]] = []
        self._remarks: dict[str, None] = {}
        self._not_sampled: dict[str, None] = {}
        self._stood_ns = 0

    def options(self) -> dict[str, object]:
        """Return the frequency, for a recording."""
        return {"sample": self._hz}

    def recorder(self, recording: Sink, beat: Callable[[], object]) -> Sink:
        """Keep the recording, to which samples are written, and start the sampler."""
        del beat
        self._recording = recording
        self._sampler = SamplerProcess(
            self._hz, follows=self._follows
        )  # so that it is ready when the command is
        self.asker = self._sampler.asker
        return recording

    def process(self, pid: int, block: ControlBlock) -> None:
        """Sample a process, from the first instruction of its program on."""
        del block
        if self._sampler is not None:
            self._sampler.add(pid)  # a new process stands still until then

    def without_agent(self, pid: int, reason: str) -> None:
        """Sample a process without agent, too, as samples do not need one."""
        if reason not in _LEFT and self._sampler is not None:
            self._sampler.add(pid)

    def move(self) -> bool:
        """Record the new samples."""
        if self._sampler is not None:
            for said in self._sampler.said():
                self._take(said)
        return False

    def stopping(self, block: ControlBlock) -> None:
        """End the sampling, as threads are about to be stopped for another reason."""
        del block
        self._end()

    def finish(self) -> list[str]:
        """End the sampling, and record the last samples."""
        self._end()
        for said in self._last:
            self._take(said)
        return list(self._remarks)

    def totals(self) -> dict[str, object]:
        """Return why processes were not sampled."""
        return {"not_sampled": list(self._not_sampled)} if self._not_sampled else {}

    def price(self, cost: Price, ns_per_tick: float, units: int) -> None:
        """Add how long threads stood still for samples."""
        del ns_per_tick, units
        if self._stood_ns:
            cost.parts[STOPS] = cost.parts.get(STOPS, 0) + self._stood_ns

    def _end(self) -> None:
        sampler, self._sampler = self._sampler, None
        if sampler is not None:
            self._last += sampler.end()
            if sampler.has_failed:
                self._remarks[_FAILED] = None

    def _take(self, said: dict[str, Any]) -> None:
        if "process" in said:
            pid, why, unseen = said["process"]
            if why is not None:
                self._remarks[f"process {pid} was not sampled: {why}"] = None
                self._not_sampled[why] = None
            if unseen is not None:
                self._remarks[unseen] = None
        elif "stood" in said:
            self._stood_ns = said["stood"]
        else:
            self._recording.samples(said)
