# SPDX-License-Identifier: Apache-2.0
"""How long threads of a process have run, for many looks a second."""

from __future__ import annotations

import os
import time

_PIECE = 64  # bytes
_MOST_KEPT = 400  # threads whose files stay open: there are a thousand descriptors, mostly
_CLOCK = 2  # CPUCLOCK_SCHED of linux/posix-timers_types.h


def process_ns(pid: int) -> int:
    """Return how many ns all threads of a process have run; those that have ended are included.

    Raises OSError where it is gone.
    """
    return time.clock_gettime_ns(~pid << 3 | _CLOCK)


class ThreadAccount:
    """The account of one thread. Raises OSError where it is gone, or nobody keeps accounts."""

    __slots__ = ("_descriptor", "_path", "born")

    kept = 0  # accounts whose files are open

    def __init__(self, pid: int, tid: int) -> None:
        self.born = time.monotonic_ns()  # the id may be another thread's later
        self._path = f"/proc/{pid}/task/{tid}/schedstat"
        self._descriptor = -1
        if ThreadAccount.kept < _MOST_KEPT:
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            ThreadAccount.kept += 1

    def close(self) -> None:
        """Close its file; may be called twice."""
        if self._descriptor >= 0:
            ThreadAccount.kept -= 1
            os.close(self._descriptor)
            self._descriptor = -1

    def look(self) -> tuple[int, int]:
        """Return how many ns it has run, and how often it has been given a processor.

        The time of one that has a processor is that of the last tick.
        """
        if self._descriptor >= 0:
            data = os.pread(self._descriptor, _PIECE, 0)
        else:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                data = os.read(descriptor, _PIECE)
            finally:
                os.close(descriptor)
        ran, _, times = data.split(b" ")
        return int(ran), int(times)
