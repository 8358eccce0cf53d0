# SPDX-License-Identifier: Apache-2.0
"""What a test leaves behind: it is blamed for that, and what it left is ended or put back.

A process is of this worker's tests if it is the worker's child, or has the worker's mark in its
environment. What was there when the test began is not its own: fixtures of modules are made
before those of tests. What these leave is told at the end of the run. A test that has failed is
blamed enough, and its traceback may keep files open: only what runs is ended.

Each worker has a folder of its own for temporary files: nothing in there is another worker's, or
that of a run beside this one.
"""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time

# signal.getsignal makes an enumeration's member of each answer, which takes long.
from _signal import getsignal  # type: ignore[import-not-found]
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest

from tests.support.processes import forked
from tests.support.time import quiet
from tests.support.time.patience import limit


class _HasClose(Protocol):
    def close(self) -> object: ...


Closed = TypeVar("Closed", bound=_HasClose)
_MARK = "SOSCOPE_TEST_RUN"
_FAILED = pytest.StashKey[bool]()
_LEFT = pytest.StashKey[list[str]]()
_BEFORE = pytest.StashKey[set[str]]()
_FOLDERS = pytest.StashKey[tuple[str, ...]]()
_OUTPUT = "soscope_left"  # of what xdist's workers tell
_CHECKOUT = Path(__file__).parents[3]
# What a run may make there.
_MADE = {"build", ".pytest_cache", ".ruff_cache", ".hypothesis"}
_MADE |= {".grimp_cache", ".import_linter_cache"}
_GRACE = 10.0  # seconds that processes have to end by themselves
_CURRENT = "PYTEST_CURRENT_TEST"  # pytest's own: it changes with each step of a test
# They may change: that one, and what a run remembers.
_VARIES = (_CURRENT.encode(), b"SOSCOPE_TEST_")
_LIMITS = sorted({getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")})


def pytest_sessionstart(session: pytest.Session) -> None:
    """Mark the processes that tests start, and have them use a folder of their own."""
    config = session.config
    config.stash[_LEFT] = []
    config.stash[_BEFORE] = _in_checkout()
    if getattr(config.option, "numprocesses", None) or config.option.collectonly:
        return  # its workers run the tests
    # pytest's own folder, which stays for a while, does not lie in that one
    base: Path = config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    begun = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    os.environ[_MARK] = f"{os.getpid()}-{begun}"
    folder = tempfile.mkdtemp(prefix="soscope-run-")
    os.chmod(folder, 0o1777)  # as /tmp: programs of some tests are another user's
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    config.stash[_FOLDERS] = (f"{base}/", f"{folder}/")
    forked.begin()  # what serves all tests is left by none


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """See what fixtures of modules have left, and any test in the checkout."""
    config = session.config
    left = config.stash[_LEFT]
    if _MARK in os.environ:
        left += _end()
    if hasattr(config, "workerinput"):
        config.workeroutput[_OUTPUT] = left  # type: ignore[attr-defined]
        return
    before = config.stash[_BEFORE]
    left += [f"the file {_CHECKOUT / name}" for name in _in_checkout() - before]
    if left and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Hear what a worker of xdist has seen at its end; one that was killed tells nothing."""
    node.config.stash[_LEFT] += getattr(node, "workeroutput", {}).get(_OUTPUT, [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what is left."""
    if left := terminalreporter.config.stash[_LEFT]:
        terminalreporter.section("left at the end", red=True)
        for line in left:
            terminalreporter.write_line(line)


def _end() -> list[str]:
    forked.end()
    gc.collect()
    left = _end_all(set())
    folder = os.environ.pop("TMPDIR")
    left += [f"the file {folder}/{name}" for name in sorted(os.listdir(folder))]
    shutil.rmtree(folder, ignore_errors=True)
    del os.environ[_MARK]
    tempfile.tempdir = None
    return left


def note(item: pytest.Item, report: pytest.TestReport) -> None:
    """Remember that a test has failed, or was skipped in the middle."""
    if not report.passed:
        item.stash[_FAILED] = True


def at_end(close: Callable[[], object]) -> None:
    """Have something closed when the test that runs has ended."""
    _closers.append(close)


def closing(thing: Closed) -> Closed:
    """Return something that is closed when the test that runs has ended."""
    at_end(thing.close)
    return thing


_closers: list[Callable[[], object]] = []


@pytest.fixture(autouse=True)
def nothing_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Blame the test that leaves something behind, not those that follow in the same worker."""
    before = _State(request)
    yield
    while _closers:
        _closers.pop()()
    left = before.left()
    if left and not request.node.stash.get(_FAILED, False):
        pytest.fail("the test has left\n  " + "\n  ".join(left), pytrace=False)


class _State:
    """What there is when a test begins."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self.node: pytest.Function = request.node
        self.folders = request.config.stash[_FOLDERS]  # nobody else mounts anything there
        self.own = [(part, part.read()) for part in _PARTS]
        self.standard = [_identity(number) for number in range(3)]
        self.descriptors = descriptors()
        self.mounts = _mounts()
        self.files = set(os.listdir(tempfile.gettempdir()))
        self.checkout = _in_checkout() if _is_alone() else set()
        self.newest = _newest()
        self.processes = _listed(self.newest)
        self.children = _children()

    def left(self) -> list[str]:
        """Return what is another one now, a line each, and put it back."""
        left = [*self._processes(), *self._own(), *self._descriptors(), *self._mounts()]
        return [*left, *self._files()]

    def _processes(self) -> list[str]:
        if _newest() == self.newest and _children() == self.children:
            return []
        return _end_all(self.processes)

    def _own(self) -> Iterator[str]:
        for part, before in self.own:
            if (now := part.read()) != before:
                part.write(before)
                yield f"another {part.name}: {_difference(before, now)}"

    def _descriptors(self) -> Iterator[str]:
        if descriptors().keys() != self.descriptors.keys():
            self.node.funcargs.clear()  # fixtures have ended, and pytest holds what they gave
            gc.collect()
        now = descriptors()
        for number in sorted(now.keys() - self.descriptors.keys()):
            yield f"descriptor {number} open: {now[number]}"
        for number in sorted(self.descriptors.keys() - now.keys()):
            yield f"descriptor {number} closed: {self.descriptors[number]}"
        if self.standard != [_identity(number) for number in range(3)]:
            yield "another file as standard input, output or error"

    def _mounts(self) -> Iterator[str]:
        if (now := _mounts()) == self.mounts:
            return
        before = set(self.mounts.splitlines())
        for line in reversed(now.splitlines()):
            place = line.split()[4].decode("unicode_escape")
            if line not in before and place.startswith(self.folders):
                subprocess.run(["umount", "--lazy", place], check=False)
                yield f"a mount on {place}"

    def _files(self) -> Iterator[str]:
        folder = tempfile.gettempdir()
        for name in sorted(set(os.listdir(folder)) - self.files):
            path = os.path.join(folder, name)
            yield f"the file {path}"
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path, ignore_errors=True)
            else:
                os.unlink(path)
        if _is_alone():
            for name in sorted(_in_checkout() - self.checkout):
                yield f"the file {_CHECKOUT / name}"


def _in_checkout() -> set[str]:
    """Return the names in the checkout, without those that a run may make."""
    return set(os.listdir(_CHECKOUT)) - _MADE


def _is_alone() -> bool:
    """Return whether no other worker's test runs at the same time."""
    return os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1") == "1"


# ---- what a process has itself ----------------------------------------------


class _Part:
    """A property of this process that a test may change, and must put back."""

    def __init__(self, name: str, read: Callable[[], object], write: Callable[..., object]) -> None:
        self.name = name
        self.read = read
        self.write = write


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _environment() -> dict[bytes, bytes]:
    return {name: value for name, value in os.environb.items() if not name.startswith(_VARIES)}


def _put_back_environment(before: dict[bytes, bytes]) -> None:
    for name in _environment().keys() - before.keys():
        del os.environb[name]
    os.environb.update(before)


_SIGNALS = [int(number) for number in signal.valid_signals()]


def _actions() -> dict[int, Any]:
    return {number: getsignal(number) for number in _SIGNALS}


def _put_back_actions(before: dict[int, Any]) -> None:
    for number, action in before.items():
        if action is not None and getsignal(number) != action:
            signal.signal(number, action)


def _put_back_limits(before: dict[int, tuple[int, int]]) -> None:
    for which, values in before.items():
        with contextlib.suppress(ValueError, PermissionError):  # the hard one may be lower now
            resource.setrlimit(which, values)


_PARTS = (
    _Part(
        "signal mask",
        lambda: signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        lambda mask: signal.pthread_sigmask(signal.SIG_SETMASK, mask),
    ),
    _Part("action of a signal", _actions, _put_back_actions),
    _Part(
        "limit",
        lambda: {which: resource.getrlimit(which) for which in _LIMITS},
        _put_back_limits,
    ),
    _Part("umask", _umask, os.umask),
    _Part("working directory", os.getcwd, os.chdir),
    _Part("environment", _environment, _put_back_environment),
)


def _difference(before: object, now: object) -> str:
    if isinstance(before, dict) and isinstance(now, dict):
        names = [name for name in before | now if before.get(name) != now.get(name)]
        return ", ".join(f"{name} {before.get(name)} → {now.get(name)}" for name in names)
    return f"{before} → {now}"


def _identity(number: int) -> tuple[int, int] | None:
    try:
        status = os.fstat(number)
    except OSError:
        return None  # it is closed: who compares sees that
    return status.st_dev, status.st_ino


def descriptors() -> dict[int, str]:
    """Return what is open; the descriptor that lists them is closed by the time it is named.

    The files that a thread of quiet.py opens for a moment are none of the tests'.
    """
    found = {}
    with quiet.reading:
        for name in os.listdir("/proc/self/fd"):
            with contextlib.suppress(FileNotFoundError):  # it was closed meanwhile
                found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
    return found


def _mounts() -> bytes:
    with open("/proc/self/mountinfo", "rb") as file:
        return file.read()


# ---- processes --------------------------------------------------------------

_last: tuple[str, set[int]] = "", set()  # the newest process, and all that there were


def _newest() -> str:
    """Return the number of the newest process or thread: while it stays, there is none."""
    with open("/proc/loadavg", "rb") as file:
        return file.read().split()[-1].decode()


def _listed(newest: str) -> set[int]:
    """Return all processes of the machine: those there were when `newest` was the newest."""
    global _last  # noqa: PLW0603  a listing is good until there is another process
    if _last[0] != newest:
        _last = newest, {int(name) for name in os.listdir("/proc") if name.isdigit()}
    return _last[1]


def _children() -> set[int]:
    """Return this process's children, also those that have ended and that nobody waited for."""
    found: set[int] = set()
    for task in os.listdir("/proc/self/task"):
        # a thread may have ended; some kernels do not tell
        with (
            contextlib.suppress(FileNotFoundError, ProcessLookupError),
            open(f"/proc/self/task/{task}/children", "rb") as file,
        ):
            found.update(map(int, file.read().split()))
    return found


def _ours(before: set[int]) -> dict[int, str]:
    """Return what the processes are that tests have started and that are not in `before`."""
    mark = f"{_MARK}={os.environ[_MARK]}".encode()
    children = _children()
    found = {}
    for pid in (_listed(_newest()) | children) - before - {os.getpid()}:
        with contextlib.suppress(OSError):  # it has ended, or is none of this user's
            if pid in children or mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                found[pid] = _description(pid)
    return found


def _description(pid: int) -> str:
    status = Path(f"/proc/{pid}/stat").read_text()
    name, state = status[status.index("(") :].rpartition(")")[::2]
    words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    if state.split()[0] in {"Z", "X"}:
        return f"process {pid} {name}), which has ended and was not waited for"
    begun = f"{_CURRENT}=".encode()
    with contextlib.suppress(OSError):  # it is another user's: who began it stays unknown
        for entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            if entry.startswith(begun):
                words += f" (begun by {entry[len(begun) :].decode(errors='replace')})"
    return f"process {pid} in state {state.split()[0]}: {words}"


def _end_all(before: set[int]) -> list[str]:
    """End the processes that are left and not in `before`; return what they were.

    Some end by themselves, as one whose program has just ended.
    """
    end = time.monotonic() + limit(_GRACE)
    while found := _ours(before):
        if time.monotonic() > end or any("not waited for" in text for text in found.values()):
            break
        time.sleep(0.01)
    told = list(found.values())
    end = time.monotonic() + limit(10)
    while found and time.monotonic() < end:
        for pid in found:
            # it has ended, or is another user's: what stays is told in any case
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):  # it is no child of this process
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.01)
        found = _ours(before)
    return told
