# SPDX-License-Identifier: Apache-2.0
"""Runs: each is a process with its output, its time limit, and the processes below it.

The process of a run leads a session and adopts the orphans below it. So all processes of the run
can be found and killed, and no others, until the process of the run has been waited for.
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
_REST = 64  # pieces that a pipe may still hold when all its writers have ended
_GRACE = 3.0  # seconds for the run's process to report how its killed command ended
_OUTPUT_MOST = 1 << 30  # bytes of output that are kept for a test
_DEEPEST = 100  # generations of orphans


class SweepRun:
    """One run that has begun.

    `report` is the report of its process, None if there is none. `seconds` is the time that the
    run took. `is_late` means that it took longer than its limit. `digest` is a hash of the
    command's output. `kept` is a file with the output, None if the output is not kept.
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
        """Fork. The child calls `start` with the descriptors for its output and its report."""
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
        """Return the time of the next deadline, by time.monotonic()."""
        return self._due

    def read(self, fd: int) -> bool:
        """Read what the pipe holds. Return False if nothing more will come."""
        try:
            data = os.read(fd, _PIECE)
        except BlockingIOError:
            return True  # another reader has taken the data that poll has announced
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
        """Kill the command if its time is over, and later the run's own process, too."""
        if now < self._due:
            return
        if self._is_ending:
            self._due = float("inf")
            kill_group(self.pid)
            return
        self._is_ending = self.is_late = True
        self._due = now + _GRACE
        for pid in status.descendants(self.pid):  # the run's process reports their end
            kill(pid)

    def kill(self) -> None:
        """Kill the process of the run and all processes below it."""
        below = list(status.descendants(self.pid))
        for pid in (self.pid, *below):
            kill(pid)

    def finish(self) -> None:
        """Read the remaining output and the report, kill what is left, and wait for the process."""
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
            said = None  # the process was killed
        self.report = said if isinstance(said, dict) else None


class Runs:
    """Several runs at a time. soscope adopts the orphans of its children, in place of init."""

    __slots__ = ("_before", "_running")

    def __init__(self) -> None:
        self._running: list[SweepRun] = []
        self._before = set(status.children(os.getpid()))
        adopt_orphans(wanted=True)

    def __len__(self) -> int:
        return len(self._running)

    def begin(self, order: Order, limit: float, kept: IO[bytes] | None = None) -> SweepRun:
        """Begin a run, which may take `limit` seconds (0: any time). `kept` receives its output.

        Raises SoscopeError if no more processes can be made.
        """
        return self._begin(lambda output, report: run_order(order, output, report), limit, kept)

    def begin_test(self, words: str, given: IO[bytes], limit: float) -> SweepRun:
        """Begin a shell that runs `words` and reads `given`. It reports whether it succeeded."""
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
        """Attend to all runs until one of them has ended, and return that run."""
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
        """Kill all runs, and the processes that they have left behind."""
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
        """Kill the orphans of a killed run and wait for them. Return whether there were any.

        The orphans are children of this process by now. An orphan of another session than
        `session` may belong to a run that goes on, so it is only killed when no run is left.
        """
        ours = {run.pid for run in self._running}
        orphans = [pid for pid in status.children(os.getpid()) if pid not in ours | self._before]
        for pid in orphans:
            try:
                if not self._running or status.read_stat(pid).session == session:
                    kill(pid)
                os.waitpid(pid, 0 if not self._running else os.WNOHANG)
            except (NoSuchProcess, ChildProcessError):
                continue  # the process or thread has ended
        return bool(orphans)


def _is_ready(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))


def _run_shell(words: str, given: IO[bytes], report: int) -> None:
    """Run `words` by a shell in a session of its own, and report whether it succeeded."""
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
