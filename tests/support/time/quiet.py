# SPDX-License-Identifier: Apache-2.0
"""Whether all that a test has started sleeps, since when, and where: how a hang is told.

A wait that runs out on a busy machine leaves processes that would go on if they could. In a
hang they all sleep. A thread beside the test reads the processor time of all processes below
this one; it begins when a test has taken `_BEGIN` seconds, so most tests never meet it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path
from typing import NamedTuple

_BEGIN = 3.0  # seconds of a test before it is looked at
_PERIOD = 0.5  # seconds between two looks
_BUSY = 0.01  # share of a processor that somebody has who does not sleep
_GDB = 20.0  # seconds for the stacks of one process

# Held while a watch has files open: who lists the files of this process takes it.
reading = threading.Lock()


class _Used(NamedTuple):
    """What a process has done: its start tells it from a later one of the same number."""

    start: int
    seconds: float  # on a processor
    wants: bool  # runs, or would


class Watch:
    """Looks at everything below this process while a test runs long."""

    def __init__(self, begin: float = _BEGIN, period: float = _PERIOD) -> None:
        self._early = begin
        self._period = period
        self._changed = threading.Condition()
        self._begun: float | None = None  # of the test
        self._known: dict[int, _Used] = {}
        self._quiet_since: float | None = None
        self._seen = 0.0
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Note that a test begins."""
        with self._changed:
            self._begun = time.monotonic()
            self._known = {}
            self._quiet_since = None
            if self._thread is None:
                self._thread = threading.Thread(target=self._look, name="watch", daemon=True)
                self._thread.start()
            self._changed.notify()

    def end(self) -> None:
        """Note that the test has ended."""
        with self._changed:
            self._begun = None

    def quiet(self) -> float:
        """Return for how many seconds nothing below this process has run, 0.0 if it does."""
        with self._changed:
            return 0.0 if self._quiet_since is None else time.monotonic() - self._quiet_since

    def members(self) -> list[int]:
        """Return the processes that were looked at last."""
        with self._changed:
            return list(self._known)

    def _look(self) -> None:
        while True:
            with self._changed:
                while self._begun is None:
                    self._changed.wait()
                early = self._begun + self._early - time.monotonic()
                if early <= 0:
                    with reading:
                        self._take()
            time.sleep(max(early, self._period))

    def _take(self) -> None:
        now = time.monotonic()
        found = {pid: used for pid in _below(os.getpid(), self._known) if (used := _used(pid))}
        ran = sum(
            used.seconds - self._known[pid].seconds
            if pid in self._known and self._known[pid].start == used.start
            else 1.0  # it is new, so somebody has run
            for pid, used in found.items()
        )
        is_busy = any(used.wants for used in found.values()) or found.keys() != self._known.keys()
        if is_busy or ran > _BUSY * (now - self._seen):
            self._quiet_since = None
        elif self._quiet_since is None:
            self._quiet_since = now
        self._known = found
        self._seen = now


def _below(pid: int, known: dict[int, _Used]) -> list[int]:
    """Return all processes below one, and those that were there before and lost their parent."""
    found = []
    waiting = [pid]
    while waiting:
        above = waiting.pop()
        with contextlib.suppress(OSError):  # it has ended
            for task in os.listdir(f"/proc/{above}/task"):
                with open(f"/proc/{above}/task/{task}/children") as file:
                    waiting += map(int, file.read().split())
        if above != pid:
            found.append(above)
    return found + [other for other in known if other not in found]


def _used(pid: int) -> _Used | None:
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        run = sum(
            int((task / "schedstat").read_text().split()[0])
            for task in Path(f"/proc/{pid}/task").iterdir()
        )
    except OSError:
        return None  # it has ended
    if words[0] == "Z":
        return None
    return _Used(int(words[19]), run / 1e9, words[0] in "RD")


def stacks(pids: list[int]) -> str:
    """Return where the threads of processes are, for whoever reads a report of a hang.

    gdb tells of the program, /proc of the kernel; a process that is traced has the latter alone.
    """
    texts = []
    for pid in pids:
        with contextlib.suppress(OSError):  # it has ended
            texts.append(_stacks(pid))
    return "\n".join(texts)


def _stacks(pid: int) -> str:
    folder = Path(f"/proc/{pid}")
    command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    lines = [f"== {pid}: {command}"]
    for task in (folder / "task").iterdir():
        with contextlib.suppress(OSError):  # the thread has ended, or only root may see its stack
            state = (task / "stat").read_text().rpartition(")")[2].split()[0]
            lines.append(f"{task.name} {state} {(task / 'syscall').read_text().strip()}")
            lines.append((task / "stack").read_text())
    traced = "TracerPid:\t0\n" not in (folder / "status").read_text()
    if not traced and (gdb := shutil.which("gdb")) is not None:
        words = [gdb, "-nx", "-batch", "-p", str(pid), "-ex", "thread apply all bt 30"]
        with contextlib.suppress(subprocess.SubprocessError):  # /proc has told already
            done = subprocess.run(
                words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_GDB, check=False
            )
            lines.append(done.stdout.decode(errors="replace"))
    return "\n".join(lines)
