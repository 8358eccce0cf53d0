# SPDX-License-Identifier: Apache-2.0
"""What happens while a program is traced: calls, signals, processes, losses.

All times are CLOCK_REALTIME nanoseconds, all durations nanoseconds.
"""

from __future__ import annotations

from soscope.model.capture import STACK_ITEM, Captured
from soscope.model.record import Record
from soscope.model.slot import TracedSlot

# How a call ended.
ENDED_RETURN = "return"
ENDED_UNWOUND = "unwound"  # left by an exception, longjmp or a switched stack
ENDED_EXIT = "exit"  # its process or thread ended
ENDED_KILLED = "killed"  # its process was killed
ENDED_LOST = "lost"  # it may have returned: events of its thread were lost


class Entry(Record):
    """A call through a slot. `depth` counts the open hooked calls of its thread from 0.

    `entry_only`: no exit will follow for this call.
    """

    __slots__ = (
        "captured",
        "depth",
        "entry_only",
        "pid",
        "return_addr",
        "slot",
        "tid",
        "time_ns",
    )

    def __init__(
        self,
        time_ns: int,
        pid: int,
        tid: int,
        slot: TracedSlot,
        depth: int,
        return_addr: int,
        captured: Captured,
        entry_only: bool,
    ) -> None:
        self.time_ns = time_ns
        self.pid = pid
        self.tid = tid
        self.slot = slot
        self.depth = depth
        self.return_addr = return_addr
        self.captured = captured
        self.entry_only = entry_only

    @property
    def stack(self) -> int:
        """The number of its stack among those of its program, 0: it has none."""
        said = self.captured.data.get(STACK_ITEM)
        return 0 if said is None else int.from_bytes(said[2], "little")


class Exit(Record):
    """The end of a call.

    `entry` is None where the entry was lost. `duration_ns`, `result` (an unsigned 64-bit
    word) and `errno` are None where they are not known; `duration_ns` leaves out the time
    the agent itself took. `ended` is one of the ENDED_ constants of this module. A coroutine
    may end on another thread than it began on: `pid` and `tid` are those of the end.

    A forked child returns from calls that its parent made (`is_inherited`): that is not the
    end of the parent's call, which has one of its own.
    """

    __slots__ = (
        "captured",
        "duration_ns",
        "ended",
        "entry",
        "errno",
        "pid",
        "result",
        "slot",
        "tid",
        "time_ns",
    )

    def __init__(
        self,
        entry: Entry | None,
        time_ns: int,
        duration_ns: int | None,
        result: int | None,
        errno: int | None,
        captured: Captured,
        ended: str,
        pid: int,
        tid: int,
        slot: TracedSlot,
    ) -> None:
        self.entry = entry
        self.time_ns = time_ns
        self.duration_ns = duration_ns
        self.result = result
        self.errno = errno
        self.captured = captured
        self.ended = ended
        self.pid = pid
        self.tid = tid
        self.slot = slot

    @property
    def is_inherited(self) -> bool:
        """Return whether another process returns here than the one that made the call."""
        return self.entry is not None and self.entry.pid != self.pid


class Signal(Record):
    """A signal that was delivered to a thread; `signal` is its number."""

    __slots__ = ("pid", "signal", "tid", "time_ns")

    def __init__(self, time_ns: int, pid: int, tid: int, signal: int) -> None:
        self.time_ns = time_ns
        self.pid = pid
        self.tid = tid
        self.signal = signal


class ProcessStart(Record):
    """A process that came to be: `event` is "start", "fork" or "exec".

    `parent` is None where it is not known or there is none that is traced; `program` is the
    path of the program it runs. `arch` and `engine` say for which machine that is, as uname(2)
    and qemu call it, and how its calls are seen, "agent" or one of `control.settings.ENGINES`;
    they are "" where they are not.
    """

    __slots__ = ("arch", "engine", "event", "parent", "pid", "program", "time_ns")

    def __init__(
        self,
        time_ns: int,
        pid: int,
        event: str,
        parent: int | None,
        program: str,
        arch: str = "",
        engine: str = "",
    ) -> None:
        self.time_ns = time_ns
        self.pid = pid
        self.event = event
        self.parent = parent
        self.program = program
        self.arch = arch
        self.engine = engine


class ProcessExit(Record):
    """The end of a process: its exit status, or the number of the signal that killed it."""

    __slots__ = ("pid", "signal", "status", "time_ns")

    def __init__(self, time_ns: int, pid: int, status: int | None, signal: int | None) -> None:
        self.time_ns = time_ns
        self.pid = pid
        self.status = status
        self.signal = signal


class Dropped(Record):
    """`count` events that are missing, and `why`, for people."""

    __slots__ = ("count", "why")

    def __init__(self, count: int, why: str) -> None:
        self.count = count
        self.why = why


# start (tsc), ticks until the exit; then what decides how the call looks: slot, first argument,
# result, DATA units of the entry, errno where the call failed and it is known, DATA units of the
# exit
WholeCall = tuple[int, int, TracedSlot, int, int, bytes, int | None, bytes]


class Stretch(Record):
    """Calls of one thread with nothing in between: each has returned before the next began.

    It comes only to those who ask for it, and stands for an Entry and an Exit of each call,
    `ENDED_RETURN`. All times lie on one `piece` of the clock: from and to (tsc), realtime there,
    realtime ns per tick, ns per tick for durations. `depth` is that of each call.
    """

    __slots__ = ("calls", "depth", "pid", "piece", "tid")

    def __init__(
        self,
        pid: int,
        tid: int,
        piece: tuple[int, int, int, float, float],
        calls: list[WholeCall],
        depth: int,
    ) -> None:
        self.pid = pid
        self.tid = tid
        self.depth = depth
        self.piece = piece
        self.calls = calls


Event = Entry | Exit | Signal | ProcessStart | ProcessExit | Dropped | Stretch


def calls_in(batch: list[Event]) -> int:
    """Return how many calls begin in some events."""
    calls = 0
    for event in batch:
        if isinstance(event, Entry):
            calls += 1
        elif isinstance(event, Stretch):
            calls += len(event.calls)
    return calls
