# SPDX-License-Identifier: Apache-2.0
"""Runs: a process each, with its output, its time and all that it leaves behind.

A run's process leads a session and adopts the orphans below it: whatever of it is still there can
be ended until that process has been waited for, and nobody else is.
"""

from __future__ import annotations

import hashlib
import json
import os
import select
import signal
import time

from soscope.errors import NoSuchProcess, SoscopeError
from soscope.instruments.inject.sweep.inside import Order, Report, run_order
from soscope.instruments.inject.sweep.processes import adopt_orphans, kill, kill_group
from soscope.proc import status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO

_PIECE = 1 << 16  # bytes
_REST = 64  # pieces that may wait in a pipe when everybody who wrote them has ended
_GRACE = 3.0  # seconds for soscope to say how a command ended that was killed
_OUTPUT_MOST = 1 << 30  # bytes of output that are kept for a test
_DEEPEST = 100  # generations of orphans


class SweepRun:
    """One run that has begun.

    `report` is what its process said, None where it said nothing. `seconds` is how long it took,
    `is_late` that this was too long. `digest` stands for what the command wrote; `kept` holds
    it, where that was wanted.
    """

    __slots__ = (
        "_due",
        "_hash",
        "_is_ending",
        "_said",
        "_started",
        "digest",
        "is_late",
        "kept",
        "output",
        "pid",
        "pidfd",
        "report",
        "reports",
        "seconds",
        "size",
    )

    def __init__(
        self, start: Callable[[int, int], object], limit: float, kept: IO[bytes] | None
    ) -> None:
        """Fork; `start` is called in the child with its output and where its report goes to."""
        self.output, output = os.pipe()
        self.reports, report = os.pipe()
        self._started = time.monotonic()
        self.pid = os.fork()
        if not self.pid:
            try:
                start(output, report)
            finally:
                os._exit(125)
        os.close(output)
        os.close(report)
        self.pidfd = os.pidfd_open(self.pid)
        os.set_blocking(self.output, False)
        os.set_blocking(self.reports, False)
        self._due = self._started + limit if limit else float("inf")
        self._hash = hashlib.blake2b(digest_size=16)
        self._said = b""
        self._is_ending = False
        self.kept = kept
        self.size = 0
        self.seconds = 0.0
        self.is_late = False
        self.digest = b""
        self.report: Report | None = None

    @property
    def due(self) -> float:
        """When it has to be looked after, by time.monotonic()."""
        return self._due

    def read(self, fd: int) -> bool:
        """Take what is there; False: nothing more comes."""
        try:
            data = os.read(fd, _PIECE)
        except BlockingIOError:
            return True  # somebody else has taken what poll has seen
        if fd == self.reports:
            self._said += data
        elif data:
            self._hash.update(data)
            self.size += len(data)
            if self.kept is not None and self.size <= _OUTPUT_MOST:
                self._keep(self.kept, data)
        return bool(data)

    @staticmethod
    def _keep(kept: IO[bytes], data: bytes) -> None:
        try:
            kept.write(data)
        except OSError as error:
            raise SoscopeError(
                f"cannot keep what a run writes: {(error.strerror or '').lower()}",
                errno=error.errno,
            ) from error

    def hurry(self, now: float) -> None:
        """End the command, if it is time; at last its soscope, too."""
        if now < self._due:
            return
        if self._is_ending:
            self._due = float("inf")
            kill_group(self.pid)
            return
        self._is_ending = self.is_late = True
        self._due = now + _GRACE
        for pid in status.descendants(self.pid):  # soscope says how that ended it
            kill(pid)

    def kill(self) -> None:
        """End all of it."""
        below = list(status.descendants(self.pid))
        for pid in (self.pid, *below):
            kill(pid)

    def finish(self) -> None:
        """Take its end: what is left of it is ended, and its process waited for."""
        self.seconds = time.monotonic() - self._started
        kill_group(self.pid)
        for fd in (self.reports, self.output):
            for _ in range(_REST):
                if not _is_ready(fd) or not self.read(fd):
                    break
            os.close(fd)
        os.waitpid(self.pid, 0)
        os.close(self.pidfd)
        self.digest = self._hash.digest()
        try:
            said = json.loads(self._said)
        except ValueError:
            said = None  # it was killed
        self.report = said if isinstance(said, dict) else None


class Runs:
    """Runs at a time; children whose parents have ended become ours meanwhile, not init's."""

    __slots__ = ("_before", "_running")

    def __init__(self) -> None:
        self._running: list[SweepRun] = []
        self._before = set(status.children(os.getpid()))
        adopt_orphans(wanted=True)

    def __len__(self) -> int:
        return len(self._running)

    def begin(self, order: Order, limit: float, kept: IO[bytes] | None = None) -> SweepRun:
        """Begin a run, which may take `limit` seconds (0: any time); `kept` takes its output.

        Raises SoscopeError where there can be no more processes.
        """
        return self._begin(lambda output, report: run_order(order, output, report), limit, kept)

    def begin_test(self, words: str, given: IO[bytes], limit: float) -> SweepRun:
        """Begin a shell that reads `given`; its report is nothing, its end `SweepRun.report`'s."""
        return self._begin(lambda _, report: _run_shell(words, given, report), limit, None)

    def _begin(
        self, start: Callable[[int, int], object], limit: float, kept: IO[bytes] | None
    ) -> SweepRun:
        try:
            run = SweepRun(start, limit, kept)
        except OSError as error:
            raise SoscopeError(
                f"cannot start a run: {(error.strerror or '').lower()}", errno=error.errno
            ) from error
        self._running.append(run)
        return run

    def wait(self) -> SweepRun:
        """Look after all of them until one has ended; return that."""
        silent: set[int] = set()
        while True:
            poll = select.poll()
            fds: dict[int, SweepRun] = {}
            due = min(run.due for run in self._running)
            for run in self._running:
                for fd in (run.pidfd, run.output, run.reports):
                    if fd not in silent:
                        fds[fd] = run
                        poll.register(fd, select.POLLIN)
            now = time.monotonic()
            pause = None if due == float("inf") else max(0.0, due - now) * 1000 + 1
            for fd, _ in poll.poll(pause):
                run = fds[fd]
                if fd == run.pidfd:
                    continue
                if not run.read(fd):
                    silent.add(fd)
            for run in self._running:
                run.hurry(time.monotonic())
                if _is_ready(run.pidfd):
                    self._running.remove(run)
                    run.finish()
                    self._end_orphans(run.pid)
                    return run

    def close(self) -> None:
        """End all of them, and what they have left behind."""
        for run in self._running:
            run.kill()
        for run in self._running:
            run.finish()
        self._running.clear()
        for _ in range(_DEEPEST):
            if not self._end_orphans(0):
                break
        adopt_orphans(wanted=False)

    def _end_orphans(self, session: int) -> bool:
        """End and wait for what a run has left behind that was killed: it is our child by now.

        What is not of its session may be of a run that goes on: it has to wait until there is
        none. Return whether there was any.
        """
        ours = {run.pid for run in self._running}
        orphans = [pid for pid in status.children(os.getpid()) if pid not in ours | self._before]
        for pid in orphans:
            try:
                if not self._running or status.read_stat(pid).session == session:
                    kill(pid)
                os.waitpid(pid, 0 if not self._running else os.WNOHANG)
            except (NoSuchProcess, ChildProcessError):
                continue  # it has ended
        return bool(orphans)


def _is_ready(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))


def _run_shell(words: str, given: IO[bytes], report: int) -> None:
    """Be a shell, and say how it ended."""
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    fd = os.open(f"/proc/self/fd/{given.fileno()}", os.O_RDONLY)
    nothing = os.open(os.devnull, os.O_RDWR)
    for to, source in enumerate((fd, nothing, nothing)):
        os.dup2(source, to)
    pid = os.fork()
    if not pid:
        os.execv("/bin/sh", ["sh", "-c", words])
    _, how = os.waitpid(pid, 0)
    os.write(report, json.dumps({"is_fine": how == 0}).encode())
    os._exit(0)
