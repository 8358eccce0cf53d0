# SPDX-License-Identifier: Apache-2.0
"""Sinks, which get drained data: the file, the live decoder, or both.

A sink gets names before the units that use them, and the units of one thread in the order in
which they were written.
"""

from __future__ import annotations

from soscope.model.call import ProcessExit, ProcessStart, Signal, Stats

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
        """Take the end of a thread, of which no more units follow."""

    def stop(self, stop: Stop) -> None:
        """Take the end of the recording."""

    def clock(self, tsc: int, realtime: int, monotonic: int) -> None:
        """Take clocks that were read together (ns). Earlier units have been handed over."""

    def tick(self, tsc: int, monotonic: int) -> None:
        """Take note that earlier units have been handed over, if no clock pair is needed."""

    def dropped(self, program: int, tsc: int, totals: tuple[int, ...]) -> None:
        """Take the losses so far: dropped[], dropped_exits, images_ and slots_dropped."""

    def spoiled(self, program: int, count: int) -> None:
        """Take how many of its own records and counters a program has overwritten so far."""

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
