# SPDX-License-Identifier: Apache-2.0
"""Where drained data goes: the file, the live decoder, or both.

A sink hears of names before it sees the units that use them, and of the units of one thread
in the order in which they were written.
"""

from __future__ import annotations

from soscope.model.call import ProcessExit, ProcessStart, Signal
from soscope.model.stats import Stats

Told = Signal | ProcessStart | ProcessExit


class Stop:
    """The recording ended, and its programs went on.

    Nothing that was done behind `tsc` is recorded; 0: nothing that comes behind this. If
    `program` is a program's number, only that one's recording ended.
    """

    __slots__ = ("program", "time_ns", "tsc")

    def __init__(self, time_ns: int, tsc: int = 0, program: int | None = None) -> None:
        self.time_ns = time_ns
        self.tsc = tsc
        self.program = program


class Sink:
    """The base of sinks; every method does nothing here. None of them may raise."""

    __slots__ = ()

    def program(self, index: int, facts: dict[str, object]) -> None:
        """Take what is known of the traced program `index`; replaces what was known."""

    def table(self, kind: int, program: int, first: int, data: bytes) -> None:
        """Take records of a kind from index `first` on; of STRINGS that is an offset.

        Kinds are `format.IMAGES`, SLOTS, CALL_SITES, MOVES, STACKS and STRINGS.
        """

    def chunk(self, program: int, header: bytes, first: int, units: bytes) -> None:
        """Take units of one chunk from number `first` on; `header` is its current header."""

    def chunks(self, program: int, data: bytes | memoryview) -> None:
        """Take whole full chunks, with their headers, in the order they were handed out.

        A view is one of the ring: it must not be kept.
        """

    def event(self, event: Told) -> None:
        """Take something that the supervisor of the processes saw."""

    def thread_end(self, time_ns: int, pid: int, tid: int) -> None:
        """Hear that a thread ended; none of its units follows."""

    def stop(self, stop: Stop) -> None:
        """Hear that the recording has ended."""

    def clock(self, tsc: int, realtime: int, monotonic: int) -> None:
        """Take clocks that were read together (ns); earlier units have been handed over."""

    def tick(self, tsc: int, monotonic: int) -> None:
        """Hear that earlier units have been handed over, where no clock pair is needed."""

    def dropped(self, program: int, tsc: int, totals: tuple[int, ...]) -> None:
        """Take the losses so far: dropped[], dropped_exits, images_ and slots_dropped."""

    def spoiled(self, program: int, count: int) -> None:
        """Hear how much of a program's records and counters it has written over itself so far."""

    def lost(self, start: int, end: int, entries: int, exits: int) -> None:
        """Hear of records that a file could not take between two times (tsc)."""

    def counts(self, program: int, counts: dict[int, int]) -> None:
        """Take calls by slot index, of mode COUNT."""

    def stats(self, program: int, stats: Stats) -> None:
        """Take statistics by slot index, of mode STATS: see `ControlBlock.stats`."""

    def objects(self, program: int, said: dict[str, object]) -> None:
        """Take what is said of the objects of one process: see `format.OBJECTS`."""

    def sums(self, data: bytes) -> None:
        """Take sums that stand for all that came so far: see `format.SUMS`."""

    def reported(self, program: int, said: dict[str, object]) -> None:
        """Take calls that instrumented code has reported: see `format.REPORTED`."""

    def samples(self, said: dict[str, object]) -> None:
        """Take stacks that were seen: see `format.SAMPLES`."""

    def prototypes(self, text: str) -> None:
        """Take declarations of functions that soscope itself does not know, in C."""


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
