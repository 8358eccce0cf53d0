# SPDX-License-Identifier: Apache-2.0
"""The runs of a sweep: a process for each, with its output and its time limit."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import select
import signal
import time
from typing import Any

from soscope.control.flight import CrashSink
from soscope.control.session import Session
from soscope.control.settings import LEAST_BUFFER, Instrument, SessionSettings
from soscope.entry.ptrace import libc
from soscope.errors import LaunchError, NoSuchProcess, SoscopeError
from soscope.instruments.inject.instrument import InjectInstrument
from soscope.instruments.inject.sweep.result import Site, SitesInstrument
from soscope.model.record import Record
from soscope.proc import status
from soscope.proc.status import signal as fast_signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO, NoReturn

    from soscope.recording.sink import Sink
    from soscope.select.filter import Selection


# Adopting orphaned processes, and killing processes.

_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans(*, wanted: bool) -> None:
    """Adopt descendants whose parent ends, in place of init, or stop doing so."""
    libc.prctl(_PR_SET_CHILD_SUBREAPER, int(wanted), 0, 0, 0)


def kill(pid: int) -> None:
    """Kill a process, unless it has ended or may not be killed."""
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # the process has ended, or belongs to another user


def kill_group(group: int) -> None:
    """Kill a process group, unless it has ended or may not be killed."""
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # the group has ended, or belongs to another user


# The work of the process of one run: a session like `soscope inject`, and a report.
#
# The process is a fork of the sweep, so that modules are not imported again for each site. It leads
# a session (setsid(2)) of its own. So it has no terminal, and the processes that it leaves behind
# can be found and killed. The report is a JSON object, which goes through a pipe.

Report = dict[str, Any]

_OURS = (fast_signal.SIGINT, fast_signal.SIGTERM, fast_signal.SIGHUP, fast_signal.SIGQUIT)
_ROUNDS, _PAUSE = 1000, 0.001  # seconds in which killed processes end


class Order(Record):
    """The order for a run: execute `command`, and let `site` fail or collect call sites.

    If `site` is None, the call sites of the functions in `selection` are collected.
    """

    command: list[str]
    follow: bool
    site: Site | None = None
    selection: Selection | None = None


class _SiteInjection(InjectInstrument):
    """An injection that also records where the command dies."""

    wants_threads = True  # any thread may be the one that dies

    def __init__(self, site: Site, *, follow: bool) -> None:
        super().__init__([site.parsed()], 0, follow=follow, string_limit=0)
        self.crash = CrashSink()

    def sinks(self) -> list[Sink]:
        """Return the sink that records fatal signals."""
        return [self.crash]


def run_order(order: Order, output: int, report: int) -> NoReturn:
    """Run as the process of a run: write the report to the descriptor `report`, then exit.

    The command's standard output is `output`.
    """
    said: Report
    try:
        gc.freeze()
        _settle(output)
        said = _observe(order)
    except SoscopeError as error:
        said = {"error": error.message, "status": error.exit_status, "hint": error.hint}
        said["is_launch"] = isinstance(error, LaunchError)
    except BaseException as error:  # noqa: BLE001  nobody else hears of it
        said = {"error": f"this is a bug in soscope: {type(error).__name__}: {error}"}
    try:
        _end_rest()
        data = memoryview(json.dumps(said).encode())
        while data:
            data = data[os.write(report, data) :]
    finally:
        os._exit(0)


def _settle(output: int) -> None:
    """Start a session, redirect the standard streams, and become the parent of orphans."""
    os.setsid()
    adopt_orphans(wanted=True)
    for number in _OURS:
        if fast_signal.getsignal(number) != fast_signal.SIG_IGN:
            fast_signal.signal(number, fast_signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd, source in enumerate((nothing, output, nothing)):
        os.dup2(source, fd)
    if nothing > 2:
        os.close(nothing)


def _end_rest() -> None:
    """Kill all processes that the command has left behind, in whatever session they are."""
    for _ in range(_ROUNDS):
        rest = status.children(os.getpid())
        for pid in rest:
            kill(pid)
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                continue  # the process has been waited for already
        if not rest:
            return
        time.sleep(_PAUSE)


def _observe(order: Order) -> Report:
    settings = SessionSettings(order.command, follow=order.follow)
    said: Report = {}
    instrument: Instrument
    if order.site is not None:
        settings.buffer = LEAST_BUFFER  # enough for one call in each process
        instrument = inject = _SiteInjection(order.site, follow=order.follow)
    else:
        assert order.selection is not None
        instrument = sites = SitesInstrument(order.selection)
    outcome = Session(settings, [instrument]).run()
    said["ended"] = [outcome.status, outcome.signal]
    said["programs"] = len(outcome.programs)
    said["untraced"] = outcome.untraced
    if order.site is not None:
        said["injected"] = inject.injected[0]
        said["stack"] = inject.crash.stack(outcome.signal)
    else:
        said["sites"] = sorted(sites.sites)
        said["jumped"] = sorted(sites.jumped)
    return said


# Runs: each is a process with its output, its time limit, and the processes below it.
#
# The process of a run leads a session and adopts the orphans below it. So all processes of the run
# can be found and killed, and no others, until the process of the run has been waited for.

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
