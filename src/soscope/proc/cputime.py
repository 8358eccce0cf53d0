# SPDX-License-Identifier: Apache-2.0
"""How long threads of a process have run, and whether they run now, for many looks a second."""

from __future__ import annotations

import os
import time

_PIECE = 64  # bytes
_MOST_KEPT = 400  # threads whose files stay open: there are a thousand descriptors, mostly
_CLOCK = 2  # CPUCLOCK_SCHED of linux/posix-timers_types.h
_RUNS = b"r"  # "running": it is in no system call in which it waits


def process_ns(pid: int) -> int:
    """Return how many ns all threads of a process have run; those that have ended are included.

    Raises OSError where it is gone.
    """
    return time.clock_gettime_ns(~pid << 3 | _CLOCK)


class ThreadAccount:
    """The account of one thread. Raises OSError where it is gone, or nobody keeps accounts."""

    __slots__ = ("_calls", "_folder", "_is_kept", "_times", "born")

    kept = 0  # accounts whose files are open

    def __init__(self, pid: int, tid: int) -> None:
        self.born = time.monotonic_ns()  # the id may be another thread's later
        self._folder = f"/proc/{pid}/task/{tid}"
        self._is_kept = ThreadAccount.kept < _MOST_KEPT
        self._times = self._calls = -1
        if self._is_kept:
            self._times = os.open(f"{self._folder}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
            ThreadAccount.kept += 1

    def close(self) -> None:
        """Close its files; may be called twice."""
        ThreadAccount.kept -= self._times >= 0
        for descriptor in (self._times, self._calls):
            if descriptor >= 0:
                os.close(descriptor)
        self._times = self._calls = -1

    def ran_ns(self) -> int:
        """Return how many ns it has run."""
        return int(self._read("schedstat", self._times).split(b" ", 1)[0])

    def runs(self) -> bool:
        """Say whether it runs, or would if it had a processor."""
        if self._is_kept and self._calls < 0 <= self._times:
            self._calls = os.open(f"{self._folder}/syscall", os.O_RDONLY | os.O_CLOEXEC)
        return self._read("syscall", self._calls)[:1] == _RUNS

    def _read(self, name: str, descriptor: int) -> bytes:
        if descriptor >= 0:
            return os.pread(descriptor, _PIECE, 0)
        descriptor = os.open(f"{self._folder}/{name}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(descriptor, _PIECE)
        finally:
            os.close(descriptor)
