# SPDX-License-Identifier: Apache-2.0
"""Receivers of drained data (the file, the live decoder), and counts of lost data."""

from __future__ import annotations

from bisect import bisect_left

from soscope.model.call import ProcessExit, ProcessStart, Signal, Stats
from soscope.wire import layout

# Counters of DROPPED after dropped[]: see `format`.
EXITS = layout.DROP_KINDS
IMAGES = layout.DROP_KINDS + 1
SLOTS = layout.DROP_KINDS + 2
COUNTERS = layout.DROP_KINDS + 3

# Losses after which a thread's stream continues, with a hole in it.
_HOLES = (layout.DROP_FULL, layout.DROP_READER_GONE, EXITS)

WHY = {
    layout.DROP_FULL: "the ring was full",
    layout.DROP_OVERWRITTEN: "overwritten by newer calls",
    layout.DROP_THREADS: "too many threads",
    layout.DROP_READER_GONE: "the ring was full and soscope did not answer",
    layout.DROP_EXIT_UNPAIRED: "returns whose entry was not kept: those calls have no time",
    layout.DROP_SITES: "returns that are not seen: there are too many places that call",
    layout.DROP_WORDS: "arguments that a call filled in: where they are was not kept",
    layout.DROP_RIGHTS: "a process changed its rights: its calls are not seen from there on",
    EXITS: "exits whose entry was kept",
    IMAGES: "images that found no room in the tables",
    SLOTS: "slots that found no room in the tables",
}
WHY_FILE_ENTRIES = "the recording could not be written"
WHY_SPOILED = "records and counters that no agent writes: the program has written over them"
WHY_FILE_EXITS = "exits that could not be written to the recording"


class Losses:
    """Counts losses, and remembers the spans of the tsc in which they happened.

    `strange` is the number of invalid records, as found by the reader.
    """

    __slots__ = (
        "_ends",
        "_spoiled",
        "_starts",
        "_tick",
        "_totals",
        "file_entries",
        "file_exits",
        "strange",
    )

    def __init__(self) -> None:
        self._totals: dict[int, tuple[int, ...]] = {}
        self._tick = 0
        self._starts: list[int] = []  # disjoint spans, in order
        self._ends: list[int] = []
        self.file_entries = 0
        self.file_exits = 0
        self.strange = 0
        self._spoiled: dict[int, int] = {}

    def tick(self, tsc: int) -> None:
        """Record that all counters have been read."""
        self._tick = max(self._tick, tsc)

    def dropped(self, program: int, tsc: int, totals: tuple[int, ...]) -> None:
        """Take a program's counters as they were at `tsc`."""
        before = self._totals.get(program, (0,) * COUNTERS)
        if any(totals[kind] > before[kind] for kind in _HOLES):
            self._span(self._tick, max(tsc, self._tick))
        self._totals[program] = totals

    def spoil(self, program: int, count: int) -> None:
        """Take the number of records and counters that a program has overwritten so far."""
        self._spoiled[program] = count

    @property
    def spoiled(self) -> int:
        """Return how many records and counters the programs have overwritten."""
        return sum(self._spoiled.values()) + self.strange

    def lost(self, start: int, end: int, entries: int, exits: int) -> None:
        """Take records that could not be written to a file in [start, end]."""
        self.file_entries += entries
        self.file_exits += exits
        self._span(start, end)

    def _span(self, start: int, end: int) -> None:
        at = bisect_left(self._ends, start)
        until = at
        while until < len(self._starts) and self._starts[until] <= end:
            start = min(start, self._starts[until])
            end = max(end, self._ends[until])
            until += 1
        self._starts[at:until] = [start]
        self._ends[at:until] = [end]

    def within(self, start: int, end: int) -> bool:
        """Return whether anything may have been lost between two times (tsc)."""
        at = bisect_left(self._ends, start)
        # A span begins at a tick, after everything that had happened by then.
        return at < len(self._starts) and self._starts[at] < end

    def __bool__(self) -> bool:
        """Return whether anything was lost that left a hole."""
        return bool(self._starts)

    def total(self, kind: int) -> int:
        """Return the sum of a counter over all programs."""
        return sum(totals[kind] for totals in self._totals.values())

    def messages(self) -> list[tuple[int, str]]:
        """Return (count, reason) for all losses."""
        counts = [(self.total(kind), why) for kind, why in WHY.items()]
        counts.append((self.spoiled, WHY_SPOILED))
        counts += [(self.file_entries, WHY_FILE_ENTRIES), (self.file_exits, WHY_FILE_EXITS)]
        return [(count, why) for count, why in counts if count]


Told = Signal | ProcessStart | ProcessExit


class Stop:
    """The end of a recording whose programs go on.

    Nothing that happened after `tsc` is recorded (0: nothing that comes after this). If `program`
    is a program's number, only that program's recording has ended.
    """

    __slots__ = ("program", "time_ns", "tsc")

    def __init__(self, time_ns: int, tsc: int = 0, program: int | None = None) -> None:
        self.time_ns = time_ns
        self.tsc = tsc
        self.program = program


class Sink:
    """The base of sinks. Its methods do nothing. No method of a sink may raise."""

    __slots__ = ()

    def program(self, index: int, facts: dict[str, object]) -> None:
        """Take the facts about the traced program `index`, which replace earlier ones."""

    def table(self, kind: int, program: int, first: int, data: bytes) -> None:
        """Take records of a kind from index `first` on, which is an offset for STRINGS.

        Kinds are `format.IMAGES`, SLOTS, CALL_SITES, MOVES, STACKS and STRINGS.
        """

    def chunk(self, program: int, header: bytes, first: int, units: bytes) -> None:
        """Take units of one chunk from number `first` on; `header` is its current header."""

    def chunks(self, program: int, data: bytes | memoryview) -> None:
        """Take whole full chunks, with their headers, in the order in which they were given out.

        A view is one of the ring, and must not be kept.
        """

    def event(self, event: Told) -> None:
        """Take an event of a process."""

    def thread_end(self, time_ns: int, pid: int, tid: int) -> None:
        """Take the end of a thread. No further units of the thread follow."""

    def stop(self, stop: Stop) -> None:
        """Take the end of the recording."""

    def clock(self, tsc: int, realtime: int, monotonic: int) -> None:
        """Take clocks that were read together (ns). Earlier units have been handed over."""

    def tick(self, tsc: int, monotonic: int) -> None:
        """Record that earlier units have been handed over, if no clock pair is needed."""

    def dropped(self, program: int, tsc: int, totals: tuple[int, ...]) -> None:
        """Take the losses so far: dropped[], dropped_exits, images_ and slots_dropped."""

    def spoiled(self, program: int, count: int) -> None:
        """Take the number of its own records and counters that a program has overwritten so far."""

    def lost(self, start: int, end: int, entries: int, exits: int) -> None:
        """Take a loss of records that could not be written to a file between two times (tsc)."""

    def counts(self, program: int, counts: dict[int, int]) -> None:
        """Take numbers of calls by slot index, in mode COUNT."""

    def stats(self, program: int, stats: Stats) -> None:
        """Take statistics by slot index, in mode STATS: see `ControlBlock.stats`."""

    def objects(self, program: int, said: dict[str, object]) -> None:
        """Take the objects of one process: see `format.OBJECTS`."""

    def sums(self, data: bytes) -> None:
        """Take sums of everything so far: see `format.SUMS`."""

    def reported(self, program: int, said: dict[str, object]) -> None:
        """Take calls that instrumented code has reported: see `format.REPORTED`."""

    def samples(self, said: dict[str, object]) -> None:
        """Take samples of stacks: see `format.SAMPLES`."""

    def prototypes(self, text: str) -> None:
        """Take C declarations of functions that soscope itself does not declare."""


class Tee(Sink):
    """A sink that passes everything to others."""  # described above, hence D102

    __slots__ = ("_sinks",)

    def __init__(self, *sinks: Sink) -> None:
        self._sinks = sinks

    def program(self, index: int, facts: dict[str, object]) -> None:  # noqa: D102  see Sink
        for sink in self._sinks:
            sink.program(index, facts)

    def table(self, kind: int, program: int, first: int, data: bytes) -> None:  # noqa: D102  see Sink
        for sink in self._sinks:
            sink.table(kind, program, first, data)

    def chunk(self, program: int, header: bytes, first: int, units: bytes) -> None:  # noqa: D102  see Sink
        for sink in self._sinks:
            sink.chunk(program, header, first, units)

    def chunks(self, program: int, data: bytes | memoryview) -> None:  # noqa: D102  see Sink
        for sink in self._sinks:
            sink.chunks(program, data)

    def event(self, event: Told) -> None:  # noqa: D102  see Sink
        for sink in self._sinks:
            sink.event(event)

    def thread_end(self, time_ns: int, pid: int, tid: int) -> None:  # noqa: D102  see Sink
        for sink in self._sinks:
            sink.thread_end(time_ns, pid, tid)

    def stop(self, stop: Stop) -> None:  # noqa: D102  see Sink
        for sink in self._sinks:
            sink.stop(stop)

    def clock(self, tsc: int, realtime: int, monotonic: int) -> None:  # noqa: D102  see Sink
        for sink in self._sinks:
            sink.clock(tsc, realtime, monotonic)

    def tick(self, tsc: int, monotonic: int) -> None:  # noqa: D102  see Sink
        for sink in self._sinks:
            sink.tick(tsc, monotonic)

    def dropped(self, program: int, tsc: int, totals: tuple[int, ...]) -> None:  # noqa: D102  see Sink
        for sink in self._sinks:
            sink.dropped(program, tsc, totals)

    def spoiled(self, program: int, count: int) -> None:  # noqa: D102  see Sink
        for sink in self._sinks:
            sink.spoiled(program, count)

    def lost(self, start: int, end: int, entries: int, exits: int) -> None:  # noqa: D102  see Sink
        for sink in self._sinks:
            sink.lost(start, end, entries, exits)

    def counts(self, program: int, counts: dict[int, int]) -> None:  # noqa: D102  see Sink
        for sink in self._sinks:
            sink.counts(program, counts)

    def stats(self, program: int, stats: Stats) -> None:  # noqa: D102  see Sink
        for sink in self._sinks:
            sink.stats(program, stats)

    def objects(self, program: int, said: dict[str, object]) -> None:  # noqa: D102  see Sink
        for sink in self._sinks:
            sink.objects(program, said)

    def prototypes(self, text: str) -> None:  # noqa: D102  see Sink
        for sink in self._sinks:
            sink.prototypes(text)

    def reported(self, program: int, said: dict[str, object]) -> None:  # noqa: D102  see Sink
        for sink in self._sinks:
            sink.reported(program, said)

    def samples(self, said: dict[str, object]) -> None:  # noqa: D102  see Sink
        for sink in self._sinks:
            sink.samples(said)

    def sums(self, data: bytes) -> None:  # noqa: D102  see Sink
        for sink in self._sinks:
            sink.sums(data)
