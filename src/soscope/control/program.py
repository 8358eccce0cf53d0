# SPDX-License-Identifier: Apache-2.0
"""A program under observation, its threads, and the interface that receives its events."""

from __future__ import annotations

import time

from soscope.entry.agent.put_in import PutIn
from soscope.model.record import Record
from soscope.proc.status import processor_times
from soscope.wire.block import ControlBlock

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket

    from soscope.control.outcome import EngineVerdict
    from soscope.control.signals import Signals


# A program under observation: one exec, with its control block or the reason for having none.


class Program:
    """One program that a process has executed. Forked children share it.

    `index` counts from 0, and `pid` is the process that executed it. `block` is None if there is
    no agent in it. In that case `reason` tells why (see `soscope.proc.status`). `note` is a
    restriction that the user should know, or None. `marks` are pairs (step,
    time.perf_counter_ns()) of inserting the agent. `preloaded` tells why the agent was inserted
    by the loader instead, or is None if it was not. `name` is the kernel's name of the process
    when the program began, or "" if it is not known. `arch` and `engine` are as in
    `ProcessStart`.
    """

    __slots__ = (
        "arch",
        "block",
        "engine",
        "index",
        "marks",
        "name",
        "note",
        "path",
        "pid",
        "preloaded",
        "reason",
        "time_ns",
    )

    def __init__(self, index: int, pid: int, path: str, time_ns: int) -> None:
        self.index = index
        self.pid = pid
        self.path = path
        self.time_ns = time_ns
        self.block: ControlBlock | None = None
        self.reason: str | None = None
        self.note: str | None = None
        self.preloaded: str | None = None
        self.arch = self.engine = self.name = ""
        self.marks: list[tuple[str, int]] = []

    def close_block(self) -> None:
        """Close its control block, if it has one. May be called twice."""
        block, self.block = self.block, None
        if block is not None:
            block.close()


# Events of the processes under observation, and the methods that receive them.


class SessionEvents:
    """A receiver that ignores every event. Override the methods of interest.

    The methods are called from `launch` and `Target.run` while a target is stopped, so they must
    be quick. All times are CLOCK_REALTIME ns. `asker` is the socket of a soscope process that
    asks for brief stops of traced threads, or None if there is no such process (see `stops`).
    """

    asker: _socket.socket | None = None

    def on_inner_pid(self, pid: int, inner: int) -> None:
        """Note that process `pid` has the number `inner` in its own pid namespace.

        This comes before the start or fork of the process is reported.
        """

    def on_wait(self, pid: int) -> None:
        """Note that attaching to a running process takes longer than a second."""

    def on_engine(self, line: str) -> None:
        """Note which engine sees the calls, and why, if it is not the agent."""

    def on_process(
        self, event: str, pid: int, parent: int | None, program: Program, time_ns: int
    ) -> None:
        """Note an event of a process: `event` is "start", "fork" or "exec"."""

    def on_stood(self, what: str, ns: int) -> None:
        """Note that soscope stopped a thread for `ns`. The reason is a constant of `cost`."""

    def on_signal(self, pid: int, tid: int, signal: int, time_ns: int) -> None:
        """Note a signal that is about to be delivered."""

    def on_ending(self, pid: int, program: Program) -> None:
        """Note that a process is about to end: it is stopped and still has its memory."""

    def on_news(self, pid: int) -> None:
        """Note that a child is about to be reaped. Its accounting is in /proc until then."""

    def on_own_signal(self, number: int) -> bool:
        """Handle a signal to soscope that does not end it.

        Return whether to keep the signal from the target.
        """
        del number
        return False

    def on_exit(self, pid: int, status: int | None, signal: int | None, time_ns: int) -> None:
        """Note the end of a process."""


# A thread under observation.


class TaskMoment(Record):
    """The processor time of a thread until `at_ns`: how long it `ran` and was `queued`, in ns.

    It is queued while it waits for a processor. `ours` is how long soscope's own thread ran or
    was queued.
    """

    at_ns: int
    ran: int
    queued: int
    ours: int

    @classmethod
    def of(cls, tid: int) -> TaskMoment | None:
        """Return the current moment of a thread, None if it is gone or its times are not known."""
        theirs, ours = processor_times(tid), processor_times("thread-self")
        if theirs is None or ours is None:
            return None
        return cls(time.monotonic_ns(), *theirs, sum(ours))

    def stood_since(self, before: TaskMoment) -> int:
        """Return how long the thread had been stopped before soscope ran and could see it.

        Since `before` the thread ran, was queued, or stood still. The result is at most the time
        for which soscope's own thread ran or was queued. If soscope slept, the thread stood still
        for another reason, such as the disk.
        """
        still = self.at_ns - before.at_ns - (self.ran - before.ran) - (self.queued - before.queued)
        return max(min(still, self.ours - before.ours), 0)


class Task(Record):
    """One thread. The only thread of a process has `tid` == `pid`.

    `is_seized` tells whether soscope traces it. `put_in` is set while its program is loaded.
    `went_on` is when it last went on meanwhile. `stopped` is the signal of the group stop it is
    in, 0 if none. `has_executed` is false only for the process that soscope forked, until that
    process executes the command.
    """

    tid: int
    pid: int
    program: Program | None
    is_seized: bool
    put_in: PutIn | None = None
    went_on: TaskMoment | None = None
    stopped: int = 0
    has_executed: bool = False


class Observation:
    """What a session asks the processes that it observes, with the usual answers."""

    _signals: Signals

    def hear(self) -> bool:
        """Take reports of other processes. Return whether all of them have been taken."""
        return True

    def verdict(self) -> EngineVerdict | None:
        """Return the comparison of two engines, None if there is only one engine."""
        return None

    def remarks(self) -> list[str]:
        """Return further remarks on how the calls were seen."""
        return []

    def lacking(self) -> list[str]:
        """Return lines that tell what could not be observed, as a child of soscope was killed."""
        return []

    @property
    def is_interrupted(self) -> bool:
        """Whether a signal has ended the observation. Signals to a launched command do not."""
        return False

    @property
    def is_left(self) -> bool:
        """Return whether a launched target was detached, and went on unobserved, before its end."""
        return False

    def leave(self) -> None:
        """Restore soscope's own signal handling when all output is written. May be called twice.

        Signals that were sent to soscope since `close` are delivered now and have their usual
        effect.
        """
        self._signals.restore()
