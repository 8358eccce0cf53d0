# SPDX-License-Identifier: Apache-2.0
"""A thread under observation."""

from __future__ import annotations

import time

from soscope.control.program import Program
from soscope.entry.agent.put_in import PutIn
from soscope.proc.status import processor_times


class TaskMoment:
    """What a thread has had until `at_ns`, in ns: how long it `ran`, how long it was `queued`.

    It is queued while it waits for a processor. `ours` is for how long our own thread ran or was
    queued.
    """

    __slots__ = ("at_ns", "ours", "queued", "ran")

    def __init__(self, at_ns: int, ran: int, queued: int, ours: int) -> None:
        self.at_ns = at_ns
        self.ran = ran
        self.queued = queued
        self.ours = ours

    @classmethod
    def of(cls, tid: int) -> TaskMoment | None:
        """Return the moment that is now; None: the thread is gone, or nobody keeps accounts."""
        theirs, ours = processor_times(tid), processor_times("thread-self")
        if theirs is None or ours is None:
            return None
        return cls(time.monotonic_ns(), *theirs, sum(ours))

    def stood_since(self, before: TaskMoment) -> int:
        """Return how long the thread had stopped before we were there to see it.

        It ran, it was queued, and it stood still since `before`. If we slept meanwhile, it stood
        still for a reason of its own, such as the disk.
        """
        still = self.at_ns - before.at_ns - (self.ran - before.ran) - (self.queued - before.queued)
        return max(min(still, self.ours - before.ours), 0)


class Task:
    """One thread; that of a process without further threads has `tid` == `pid`.

    `is_seized` says whether we trace it, `put_in` is there while its program is loaded,
    and `went_on` is when it last went on meanwhile. `stopped` is the signal of the group stop it is
    in, 0 if none. `has_executed` is false only
    for the process that soscope forked, until that executes the command.
    """

    __slots__ = (
        "has_executed",
        "is_seized",
        "pid",
        "program",
        "put_in",
        "stopped",
        "tid",
        "went_on",
    )

    def __init__(self, tid: int, pid: int, program: Program | None, *, is_seized: bool) -> None:
        self.tid = tid
        self.pid = pid
        self.program = program
        self.is_seized = is_seized
        self.put_in: PutIn | None = None
        self.went_on: TaskMoment | None = None
        self.stopped = 0
        self.has_executed = False
