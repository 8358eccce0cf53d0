# SPDX-License-Identifier: Apache-2.0
"""Sum up allocations and frees by stack and thread while they happen."""

from __future__ import annotations

import json
import struct
import time
from typing import Any

import numpy as np
import numpy.typing as npt

from soscope.frames.names import HEAP_APIS
from soscope.instruments.mem.lifetimes import (
    EARLY,
    FOREVER,
    UNIT,
    BlockEvents,
    Booleans,
    Collector,
    CountedBlocks,
    Integers,
    MappedArea,
    Mappings,
    MatchedBlocks,
    Numbers,
    Rates,
    replaced,
)
from soscope.recording import format as form
from soscope.recording.clock import Clock
from soscope.recording.sink import Sink, Stop, Tee
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# Sums of blocks by stack and thread, which do not grow with the number of events.
#
# A recording has them as a JSON object with its length (u32) before it, then the rows: see `pack`.

LIVE, LIVE_BYTES, LIVE_VARIANCE = 0, 1, 2  # blocks that are alive
MADE, MADE_BYTES, MADE_VARIANCE = 3, 4, 5  # all blocks that were made
TEMPORARY, TEMPORARY_BYTES, TEMPORARY_VARIANCE = 6, 7, 8  # temporary blocks
PEAK, PEAK_BYTES, PEAK_VARIANCE = 9, 10, 11  # blocks that were alive at the peak of bytes
OLD, OLD_BYTES, OLD_VARIANCE = 12, 13, 14  # blocks that are alive and old enough
COLUMNS = 15


_LENGTH = struct.Struct("<I")
_KEY = np.dtype("<i8")
_VALUE = np.dtype("<f8")


class SumRows:
    """Rows of COLUMNS sums, by keys of the form thread index << 32 | stack number.

    >>> import numpy as np
    >>> from soscope.instruments.mem.aggregate import MADE, SumRows
    >>> rows = SumRows()
    >>> at = rows.places(np.array([5, 7, 5]))
    >>> rows.add(MADE, at, np.array([1.0, 1.0, 1.0]))
    >>> rows.values[:, MADE].tolist()
    [2.0, 1.0]
    """

    __slots__ = ("_at", "_room", "keys")

    def __init__(self) -> None:
        self.keys: list[int] = []
        self._at: dict[int, int] = {}
        self._room: Numbers = np.zeros((64, COLUMNS))

    @property
    def values(self) -> Numbers:
        """Return the sums, a row for each key."""
        rows: Numbers = self._room[: len(self.keys)]
        return rows

    def places(self, keys: Integers) -> Integers:
        """Return the index of the row of each key. New keys get new rows."""
        unique, inverse = np.unique(keys, return_inverse=True)
        at = np.empty(len(unique), np.int64)
        for number, key in enumerate(unique.tolist()):
            place = self._at.get(key)
            if place is None:
                place = self._at[key] = len(self.keys)
                self.keys.append(key)
            at[number] = place
        while len(self._room) < len(self.keys):
            self._room = np.concatenate((self._room, np.zeros_like(self._room)))
        places: Integers = at[inverse]
        return places

    def add(self, column: int, places: Integers, amounts: Numbers) -> None:
        """Add amounts to one column of rows. A row may occur several times in `places`."""
        count = len(self.keys)
        self._room[:count, column] += np.bincount(places, amounts, count)

    def pack(self, head: dict[str, object]) -> bytes:
        """Return all rows as bytes, with `head` in front."""
        text = json.dumps({**head, "rows": len(self.keys)}, separators=(",", ":")).encode()
        keys = np.array(self.keys, _KEY).tobytes()
        return _LENGTH.pack(len(text)) + text + keys + self.values.astype(_VALUE).tobytes()


def unpack(data: bytes) -> tuple[dict[str, Any], Integers, Numbers]:
    """Return the head, the keys and the rows that `pack` has packed. Raises ValueError."""
    if len(data) < _LENGTH.size:
        raise ValueError(f"sums of {len(data)} bytes")
    (length,) = _LENGTH.unpack_from(data)
    head = json.loads(data[_LENGTH.size : _LENGTH.size + length])
    count = head.get("rows") if isinstance(head, dict) else None
    start = _LENGTH.size + length
    if not isinstance(count, int) or len(data) != start + count * 8 * (1 + COLUMNS):
        raise ValueError(f"sums of {len(data)} bytes")
    keys = np.frombuffer(data, _KEY, count, start).astype(np.int64)
    values = np.frombuffer(data, _VALUE, count * COLUMNS, start + count * 8)
    return head, keys, values.reshape(count, COLUMNS).astype(np.float64)


# Sums of blocks, made while the blocks come and go.
#
#    chunks ─► backlog ─ all from before a moment ─► matched with what is alive ─► sums ─► recording
#
# Only the sums and the blocks that are alive are kept. Threads hand over their records one thread
# after the other. So only records that are some time older than the newest clock pair are used: by
# then the records of all threads from before that time have arrived.

_BEHIND = 50_000_000  # nanoseconds; a thread may lose its processor in the middle of a record
_HELD = 1_000_000_000  # ns for which a free waits for a record that its call has failed
_MANY = 100_000  # events that make a round of adding up worthwhile
_EVERY = 1.0  # seconds between two writings of the sums,
_SHARE = 20  # or this many times the duration of one writing


class Aggregate(Tee):
    """Stands before a recording, which then gets names, processes and sums, but no units.

    `sample_bytes` is the same as for `MatchedBlocks`. If `older_ns` is not 0, blocks that are
    older at the end are also added up separately. `counted` are the blocks that the agent has
    counted; if they are given, the units are about mappings only. `beat` tells the agents that
    soscope is alive.
    """

    def __init__(
        self,
        recording: Sink,
        sample_bytes: int | None = None,
        *,
        older_ns: int = 0,
        counted: CountedBlocks | None = None,
        beat: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(recording)
        self._recording = recording
        self._sample_bytes = sample_bytes
        self._older_ns = older_ns
        self._counted = counted
        self._beat = beat
        self._collector = Collector()
        self._clock = Clock()
        self._is_clock_told = False
        self._newest = self._before = (0, 0)  # (tsc, monotonic ns) of two ticks
        self._end = 0  # tsc of the end of the recording, 0 before the end
        self._begun: int | None = None  # CLOCK_REALTIME ns from which on blocks are recorded
        self._is_over = False
        self._apis: dict[int, bytearray] = {}  # for each program: the functions of its stacks
        self._rows = SumRows()
        self._rates = Rates()
        self._live = BlockEvents(np.empty(0, UNIT), np.empty(0, np.int32), [])
        self._last_made: Integers = np.zeros(0, np.int64)  # by thread: tsc of its newest block
        self._mappings = Mappings(self._is_heap)
        self._bytes = self._count = 0.0  # sums of the blocks that are alive
        self._peak = (0.0, 0.0, 0)  # bytes, blocks and tsc of the peak
        self._staged = self._live  # events that can be added up,
        self._order: Integers = np.zeros(0, np.int64)  # order of the staged events by time,
        self._stage_at = 0  # and how many of them are in the sums already
        self._staged_until = 0  # all events from before this tsc are staged
        self._late = self._unseen = self._strange = self._samples = 0
        self._waiting = 0  # number of events that were given back and wait
        self._write_at = 0.0

    # ---- input ----

    def begun(self) -> None:
        """Note that all calls are hooked."""
        self._begun = time.time_ns()

    def table(self, kind: int, program: int, first: int, data: bytes) -> None:  # noqa: D102  see Sink
        if kind == form.STACKS:
            stacks = self._apis.setdefault(program, bytearray(8))
            stacks[8 * first : 8 * first + len(data)] = data
        self._recording.table(kind, program, first, data)

    def chunk(self, program: int, header: bytes, first: int, units: bytes) -> None:  # noqa: D102  see Sink
        self._collector.chunk(program, header, first, units)

    def chunks(self, program: int, data: bytes | memoryview) -> None:  # noqa: D102  see Sink
        self._collector.chunks(program, bytes(data))

    def stop(self, stop: Stop) -> None:  # noqa: D102  see Sink
        self._end = self._end or stop.tsc
        self._recording.stop(stop)

    def clock(self, tsc: int, realtime: int, monotonic: int) -> None:
        """Take a clock pair. The recording gets the first two, so that its sums have times."""
        self._clock.add(tsc, realtime, monotonic)
        if not self._is_clock_told:
            self._is_clock_told = self._clock.rate != 1.0
            self._recording.clock(tsc, realtime, monotonic)
        self.tick(tsc, monotonic)

    def tick(self, tsc: int, monotonic: int) -> None:
        """Note that all records from before `tsc` have arrived."""
        if monotonic - self._newest[1] >= _BEHIND:
            self._before, self._newest = self._newest, (tsc, monotonic)

    # ---- when to add up ----

    def catch_up(self) -> bool:
        """Add up some events if many are waiting. Return whether many are still waiting."""
        if self._is_behind():
            self._go_on()
        return self._is_behind()

    def move(self) -> bool:
        """Add up events and write the sums, at intervals. Return whether more events are ready."""
        now = time.monotonic()
        if now < self._write_at:
            return False
        if self._go_on():
            return True
        self._write()
        done = time.monotonic()
        self._write_at = done + max(_EVERY, _SHARE * (done - now))
        return False

    def finish(self) -> None:
        """Add up all remaining events and write the sums for the last time."""
        while self._go_on():
            pass
        self._stage(None)
        while self._go_on():
            pass
        if self._older_ns:
            self._find_old()
        self._is_over = True
        self._write()

    def _is_behind(self) -> bool:
        waits = self._collector.count >= _MANY and self._staged_until < self._before[0]
        return waits or self._stage_at < len(self._order)

    def _go_on(self) -> bool:
        """Add up a slice of events, which takes a moment. Return whether more events are ready."""
        if self._stage_at >= len(self._order):
            self._stage(self._before[0])
        if self._stage_at < len(self._order):
            self._add_events(self._slice())
        return self._stage_at < len(self._order)

    # ---- adding up ----

    def _is_heap(self, program: int, stack: int) -> bool:
        words, at = self._apis.get(program, b""), 8 * stack
        head = int.from_bytes(words[at : at + 8], "little")
        return head >> layout.STACK_API & 0xFF in HEAP_APIS

    def _stage(self, until: int | None) -> None:
        """Prepare the events from before `until` (tsc; all events if it is None) for adding up."""
        if until is not None and until <= self._staged_until:
            return
        events = self._collector.take()
        self._late += int((events.units["tsc"][self._waiting :] < self._staged_until).sum())
        if until is not None:
            self._beat()
            ready = self._ready(events, until)
            self._beat()
            rest = events.some(np.flatnonzero(~ready))
            self._collector.give_back(rest)
            self._waiting = len(rest)
            events = events.some(np.flatnonzero(ready))
            self._staged_until = until
        self._staged = events
        self._beat()
        self._order = np.argsort(events.units["tsc"], kind="stable")
        self._stage_at = 0

    def _slice(self) -> BlockEvents:
        """Return the earliest staged events, with the events of each thread in their order."""
        staged, most = self._staged, max(_MANY // 2, len(self._live) // 4)
        until = min(self._stage_at + most, len(self._order))
        tsc = staged.units["tsc"]
        if until < len(self._order):
            end = tsc[self._order[until]]
            around = self._order[max(until - most, self._stage_at) : until + most]
            which = around[(tsc[around] >= end - EARLY) & (tsc[around] < end + EARLY)]
            is_before = np.isin(which, self._order[self._stage_at : until])
            soon = _frees_behind(staged, which, is_before)
            if len(soon):
                rest = self._order[until:]
                rest = rest[~np.isin(rest, soon)]
                self._order = np.concatenate((self._order[:until], soon, rest))
                until += len(soon)
        chosen = np.sort(self._order[self._stage_at : until])
        self._stage_at = until
        return staged.some(chosen)

    def _add_events(self, events: BlockEvents) -> None:
        """Add up events that are later than all events before."""
        missing = len(events.threads) - len(self._last_made)
        self._last_made = np.concatenate((self._last_made, np.zeros(missing, np.int64)))
        if missing:
            self._end_replaced(events)
        is_mapping = (events.kind == layout.UNIT_MAPPED) | (events.kind == layout.UNIT_UNMAPPED)
        if is_mapping.any():
            self._mappings.add(events.some(is_mapping))
            events = events.some(~is_mapping)
        if len(events):
            self._match(events)

    def _end_replaced(self, events: BlockEvents) -> None:
        """End the live blocks of programs whose process has executed another program."""
        old = np.isin(self._live.thread, replaced(events.threads))
        if old.any():
            live = self._live.some(old)
            gone = BlockEvents(live.units, live.thread, events.threads)
            self._add(MatchedBlocks(gone, self._sample_bytes), len(gone))
            self._live = self._live.some(~old)

    def _ready(self, events: BlockEvents, until: int) -> Booleans:
        """Return a mask of the events to take. Other events wait for events that belong to them."""
        units, kind = events.units, events.kind
        tsc = units["tsc"]
        ready: Booleans = tsc < until
        near = np.flatnonzero((tsc >= until - EARLY) & (tsc < until + EARLY))
        ready[_frees_behind(events, near, ready[near])] = True
        # A thread's last record may be about a call that fails. Only the thread's next record
        # tells.
        last = np.full(len(events.threads), -1, np.int64)
        last[events.thread] = np.arange(len(events))
        last = last[last >= 0]
        ends = (kind[last] == layout.UNIT_FREED) | (kind[last] == layout.UNIT_UNMAPPED)
        held = last[ends & ready[last] & (tsc[last] > until - round(_HELD / self._clock.rate))]
        makes = (kind == layout.UNIT_BLOCK) | (kind == layout.UNIT_BLOCK_OVER)
        for at in held.tolist():
            if kind[at] == layout.UNIT_UNMAPPED:  # later events may be about its addresses
                later = (kind == layout.UNIT_MAPPED) | (kind == layout.UNIT_UNMAPPED)
                ready &= ~(later & (tsc >= tsc[at]))
            elif not (ready & makes & (units["addr"] == units["addr"][at]) & (tsc > tsc[at])).any():
                ready[at] = False
        return ready

    def _match(self, events: BlockEvents) -> None:
        """Find the ends of blocks, both of blocks that are alive and of new ones."""
        live, threads = self._live, events.threads
        touched = _touched(live.units["addr"], events.units["addr"])
        old = live.some(touched)
        old = old.some(np.argsort(old.units["tsc"], kind="stable"))
        both = BlockEvents(
            np.concatenate((old.units, events.units)),
            np.concatenate((old.thread, events.thread)),
            threads,
        )
        self._beat()
        blocks = MatchedBlocks(both, self._sample_bytes)
        self._beat()
        made = np.flatnonzero(
            (both.kind == layout.UNIT_BLOCK) | (both.kind == layout.UNIT_BLOCK_OVER)
        )
        count = len(old)  # the old blocks come first
        was_last = blocks.start[:count] == self._last_made[blocks.thread[:count]]
        if self._sample_bytes is None:  # in samples, the agent marks temporary blocks
            blocks.temporary[:count] &= was_last
        new = slice(count, None)
        self._last_made[blocks.thread[new]] = blocks.start[new]
        self._unseen += blocks.unseen
        self._strange += blocks.strange
        self._add(blocks, count)
        alive = blocks.alive()
        rest = live.some(~touched)
        units = np.concatenate((rest.units, both.units[made][alive]))
        order = np.argsort(units["addr"], kind="stable")
        thread = np.concatenate((rest.thread, blocks.thread[alive]))
        self._live = BlockEvents(units[order], thread[order], threads)

    def _add(self, blocks: MatchedBlocks, old: int) -> None:
        """Add matched blocks to the sums. The first `old` of them are already counted as made."""
        rows, new, size = self._rows, slice(old, None), blocks.bytes
        self._samples += len(blocks) - old
        places = rows.places(blocks.thread.astype(np.int64) << 32 | blocks.stack)
        amounts = blocks.count, size, blocks.variance
        gone = blocks.end != FOREVER
        sign = np.where(gone, -1.0, 0.0)
        sign[new] += 1.0
        weights = np.where(blocks.temporary & gone, 1.0, 0.0)
        self._find_peak(blocks, old, places)
        for offset, amount in enumerate(amounts):
            rows.add(LIVE + offset, places, amount * sign)
            rows.add(MADE + offset, places[new], amount[new])
            rows.add(TEMPORARY + offset, places, amount * weights)
        self._rates.made(blocks.start[new], blocks.count[new], size[new])
        self._rates.freed(blocks.end[gone], blocks.count[gone], size[gone])

    def _find_peak(self, blocks: MatchedBlocks, old: int, places: Integers) -> None:
        """Find a new peak of bytes among the events, and store what was alive then."""
        gone = np.flatnonzero(blocks.end != FOREVER)
        new = np.arange(old, len(blocks))
        which = np.concatenate((gone, new))  # at equal times, ends come first
        times = np.concatenate((blocks.end[gone], blocks.start[new]))
        sign = np.concatenate((np.full(len(gone), -1.0), np.ones(len(new))))
        order = np.argsort(times, kind="stable")
        which, sign = which[order], sign[order]
        size = np.cumsum(blocks.bytes[which] * sign)
        if len(size) and self._bytes + size.max() > self._peak[0]:
            at = int(np.argmax(size))
            count = float((blocks.count[which[: at + 1]] * sign[: at + 1]).sum())
            self._peak = self._bytes + float(size[at]), self._count + count, int(times[order[at]])
            rows, until = self._rows, slice(0, at + 1)
            rows.values[:, PEAK : PEAK_VARIANCE + 1] = rows.values[:, LIVE : LIVE + 3]
            for offset, amount in enumerate((blocks.count, blocks.bytes, blocks.variance)):
                amounts = amount[which[until]] * sign[until]
                rows.add(PEAK + offset, places[which[until]], amounts)
        if len(size):
            self._bytes += float(size[-1])
            self._count += float((blocks.count[which] * sign).sum())

    def _find_old(self) -> None:
        """Add up the blocks that are alive and older than the limit."""
        blocks = MatchedBlocks(self._live, self._sample_bytes)
        old = np.flatnonzero(blocks.start <= self._latest())
        places = self._rows.places(blocks.thread[old].astype(np.int64) << 32 | blocks.stack[old])
        self._rows.values[:, OLD : OLD_VARIANCE + 1] = 0.0
        for offset, amount in enumerate((blocks.count, blocks.bytes, blocks.variance)):
            self._rows.add(OLD + offset, places, amount[old])

    # ---- writing ----

    def _write(self) -> None:
        """Write the sums to the recording."""
        mapped = self._mappings
        size, count, tsc = self._peak
        head: dict[str, object] = {
            "threads": [list(thread) for thread in self._collector.threads],
            "peak": [size, count, self._time(tsc)],
            "samples": self._samples,
            "unseen": self._unseen,
            "strange": self._strange,
            "late": self._late,
            "spoiled": self._collector.strange,
            "older_ns": self._older_ns,
            "begun": self._begun,
            "until": self._time(self._until()),
            "rates": self._rates.said(self._clock),
            "mapped": {name: getattr(mapped.totals, name) for name in mapped.totals.__slots__},
            "mapped_peak": self._time(mapped.peak_tsc),
            "mappings": [_area(area, area.bytes, self._is_old(area)) for area in mapped.alive],
            "mappings_temporary": [[*who, *amount] for who, amount in mapped.temporary.items()],
            "mappings_at_peak": [_area(area, then, False) for area, then in mapped.at_peak],
        }
        if self._counted is not None:
            head["counted"] = self._counted.said()
        self._recording.sums(self._rows.pack(head))

    def _until(self) -> int:
        """Return the time (tsc) up to which the sums are complete."""
        return (self._end or self._newest[0]) if self._is_over else self._staged_until

    def _time(self, tsc: int) -> int | None:
        return self._clock.time_ns(tsc) if tsc else None

    def _latest(self) -> int:
        """Return the latest time (tsc) at which a block counts as old."""
        end = self._end or self._collector.newest
        return end - round(self._older_ns / self._clock.rate)

    def _is_old(self, area: MappedArea) -> bool:
        return area.tsc <= self._latest()


def _frees_behind(events: BlockEvents, near: Integers, is_before: Booleans) -> Integers:
    """Return the frees after a moment that belong before a block from before the moment.

    `near` are the events around the moment. The clocks of processors differ a little, so the
    memory may seem to belong to its next owner, another thread, before it was freed.
    """
    kind, addr, thread = events.kind[near], events.units["addr"][near], events.thread[near]
    made = is_before & (kind == layout.UNIT_BLOCK)
    owner = dict(zip(addr[made].tolist(), thread[made].tolist(), strict=True))
    behind = np.flatnonzero(~is_before & (kind == layout.UNIT_FREED))
    mine = zip(addr[behind].tolist(), thread[behind].tolist(), strict=True)
    wanted = [owner.get(where, by) != by for where, by in mine]
    frees: Integers = near[behind[np.array(wanted, np.bool_)]]
    return frees


def _area(area: MappedArea, size: int, is_old: bool) -> list[object]:
    return [area.thread, area.stack, size, is_old]


def _touched(live: npt.NDArray[np.uint64], addr: npt.NDArray[np.uint64]) -> Booleans:
    """Return a mask of the live addresses (sorted) that occur among the events' addresses."""
    wanted = np.unique(addr)
    marks = np.zeros(len(live) + 1, np.int64)
    np.add.at(marks, np.searchsorted(live, wanted, "left"), 1)
    np.subtract.at(marks, np.searchsorted(live, wanted, "right"), 1)
    touched: Booleans = np.cumsum(marks)[:-1] > 0
    return touched
