# SPDX-License-Identifier: Apache-2.0
"""How long threads of a process have run, read cheaply enough for many reads a second."""

from __future__ import annotations

import os
import time

_PIECE = 64  # bytes
_MOST_KEPT = 400  # threads whose files stay open; the usual limit is 1024 descriptors
_RUNNING = b"running"  # start of the file `syscall` of a thread that is not blocked
_CLOCK = 2  # CPUCLOCK_SCHED of linux/posix-timers_types.h


def process_ns(pid: int) -> int:
    """Return how many ns all threads of a process have run; those that have ended are included.

    The time of a thread that has a processor is as of the last tick, or of the last time that the
    process asked for its own time (kernel/sched/cputime.c: thread_group_cputime). Raises OSError
    where it is gone.
    """
    return time.clock_gettime_ns(~pid << 3 | _CLOCK)


def machine_ns() -> tuple[int, int]:
    """Return for how many ns this machine's host has used its processors, and the time of them all.

    The first is 0 where there is no host, or where the host does not tell: see `steal` in proc(5).
    Both are 0 where there is no /proc.
    """
    try:
        with open("/proc/stat", "rb") as file:
            ticks = list(map(int, file.readline().split()[1:9]))
    except (OSError, ValueError):
        return 0, 0
    rate = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    return (ticks[7] * rate if len(ticks) == 8 else 0), sum(ticks) * rate


class ThreadAccount:
    """The CPU time of one thread; raises OSError if it is gone or the kernel keeps no account."""

    __slots__ = ("_call", "_descriptor", "_folder", "born")

    kept = 0  # accounts whose files are open

    def __init__(self, pid: int, tid: int) -> None:
        self.born = time.monotonic_ns()  # another thread may get the id later
        self._folder = f"/proc/{pid}/task/{tid}"
        self._descriptor = self._call = -1
        if ThreadAccount.kept < _MOST_KEPT:
            self._descriptor = os.open(f"{self._folder}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
            ThreadAccount.kept += 1

    def close(self) -> None:
        """Close the account's files; may be called twice."""
        ThreadAccount.kept -= self._descriptor >= 0
        for descriptor in (self._descriptor, self._call):
            if descriptor >= 0:
                os.close(descriptor)
        self._descriptor = self._call = -1

    def look(self) -> tuple[int, int, int]:
        """Return how many ns it has run and waited to run, and how often it got a processor.

        The first is as of the last tick, or the last time that the thread asked for its own time,
        while it has a processor; the second as of when it got one last.
        """
        ran, waited, times = self._read("schedstat", self._descriptor).split(b" ")
        return int(ran), int(waited), int(times)

    def waits(self) -> bool:
        """Return whether the thread waits in a system call, or does not run for other reasons."""
        if self._descriptor >= 0 > self._call:
            self._call = os.open(f"{self._folder}/syscall", os.O_RDONLY | os.O_CLOEXEC)
        return self._read("syscall", self._call)[:1] != _RUNNING[:1]

    def _read(self, name: str, descriptor: int) -> bytes:
        if descriptor >= 0:
            return os.pread(descriptor, _PIECE, 0)
        descriptor = os.open(f"{self._folder}/{name}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(descriptor, _PIECE)
        finally:
            os.close(descriptor)
