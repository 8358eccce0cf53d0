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
ENDED_EXIT = "exit"  # its process or thread ended before it returned
ENDED_KILLED = "killed"  # its process was killed
ENDED_LOST = "lost"  # it may have returned: events of its thread were lost


class Entry(Record):
    """A call through a slot; `depth` is the number of open hooked calls of its thread before it.

    If `entry_only` is true, no exit will follow for this call.
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
        """The number of the call's stack in its program's table of stacks, 0 if it has no stack."""
        said = self.captured.data.get(STACK_ITEM)
        return 0 if said is None else int.from_bytes(said[2], "little")


class Exit(Record):
    """The end of a call.

    `entry` is None if the entry was lost. `duration_ns`, `result` (an unsigned 64-bit word) and
    `errno` are None if they are not known. `duration_ns` does not include the time that the agent
    itself took. `ended` is one of the ENDED_ constants of this module. A coroutine may end on
    another thread than it began on: `pid` and `tid` are the process and the thread in which it
    ended.

    A forked child returns from calls that its parent made (`is_inherited`). Such an exit does not
    end the parent's call: the parent has an exit of its own for it.
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
        """Return whether the process that returns here is not the process that made the call."""
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
    """A new process or program: `event` is "start", "fork" or "exec".

    `parent` is None if the parent is not known or is not traced. `program` is the path of the
    program that the process runs. `arch` is its machine, by the name of uname(2) and qemu.
    `engine` is how soscope sees its calls: "agent" or one of `control.settings.ENGINES`. Both are
    "" if soscope does not see its calls.
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
    """A note that `count` events are missing; `why` is the reason, as a text for users."""

    __slots__ = ("count", "why")

    def __init__(self, count: int, why: str) -> None:
        self.count = count
        self.why = why


# (start in tsc ticks, ticks until the exit, then what decides how the call is printed: slot, first
# argument, result, DATA units of the entry, errno if the call failed and its errno is known, DATA
# units of the exit)
WholeCall = tuple[int, int, TracedSlot, int, int, bytes, int | None, bytes]


class Stretch(Record):
    """Calls of one thread in a row: each call has returned before the next one began.

    Only listeners that ask for stretches get them. A stretch stands for an Entry and an Exit
    (`ENDED_RETURN`) of each of its calls. All its times lie in one `piece` of the clock: (from,
    to in tsc ticks, realtime at its start, realtime ns per tick, ns per tick for durations).
    `depth` is the same for all its calls.
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
    """Return the number of calls that begin in a batch of events."""
    calls = 0
    for event in batch:
        if isinstance(event, Entry):
            calls += 1
        elif isinstance(event, Stretch):
            calls += len(event.calls)
    return calls
