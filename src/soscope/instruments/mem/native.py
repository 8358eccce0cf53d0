# SPDX-License-Identifier: Apache-2.0
"""The native half of a memory report: blocks and mappings by stack.

It comes from the events of a recording, or from the sums that a recording has in place of events.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from soscope.errors import RecordingError
from soscope.frames.names import APIS, HEAP_APIS, MAPPING_APIS, FrameNames, stack_at
from soscope.instruments.mem import aggregate
from soscope.instruments.mem.lifetimes import (
    Mappings,
    MatchedBlocks,
    Rates,
    class_sizes,
    collect,
    summed,
)
from soscope.instruments.mem.model import (
    ALIVE,
    PEAK,
    TEMPORARY,
    MemReport,
    NativeRow,
    NativeTotals,
    Younger,
)
from soscope.instruments.mem.sampled import half_width
from soscope.model.call import StackFrame
from soscope.recording.reader import RecordingFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

# program, pid, api, the words of a stack
_Key = tuple[int, int, int, tuple[int, ...]]
# Index of a thread, number of a stack, count, bytes, variance of the bytes.
Amount = tuple[int, int, float, float, float]
_MAPPINGS = {ALIVE: "mappings", PEAK: "mappings_at_peak"}
_COLUMN = {ALIVE: aggregate.LIVE, PEAK: aggregate.PEAK, TEMPORARY: aggregate.TEMPORARY}


class _Sum:
    """The sums of a row. `threads` are the threads that made the blocks.

    `variance` is the variance of the bytes.
    """

    __slots__ = ("bytes", "count", "threads", "variance")

    def __init__(self) -> None:
        self.count = self.bytes = self.variance = 0.0
        self.threads: set[int] = set()

    def add(self, other: _Sum) -> None:
        """Add another sum."""
        self.count += other.count
        self.bytes += other.bytes
        self.variance += other.variance
        self.threads |= other.threads


def add_native(
    recording: RecordingFile, report: MemReport, native: str, older_ns: int, names: FrameNames
) -> None:
    """Add the rows that `native` chooses, totals and notes to a report.

    Raises RecordingError.
    """
    if recording.sums is not None:
        source: _Source = _Added(recording, report, recording.sums)
    else:
        source = _Events(recording, report)
    amounts = source.amounts(native, older_ns)
    if older_ns:
        report.younger = _younger(source, amounts, native, older_ns)
    _name(recording, report, source, amounts, names)
    _add_threads(report, source, amounts)
    report.native += source.counted
    report.native.sort(key=lambda row: (-row.count, -row.bytes))
    notes = report.notes
    if native == PEAK and len({row.api in MAPPING_APIS for row in report.native}) > 1:
        report.has_two_moments = True
        notes.append(
            "rows of blocks and rows of mappings are of two moments: each of that when most bytes"
            " of its kind were there"
        )
    if report.sample_bytes is not None:
        notes.append(
            f"blocks are estimates of {source.samples:,} samples, one in "
            f"{report.sample_bytes:,} bytes; mappings are exact"
        )
    if source.unseen:
        notes.append(
            f"{source.unseen:,} blocks were freed unseen: other blocks came where they had been"
        )
    if source.strange:
        notes.append(_strange(recording, source.strange))
    notes += source.notes
    lost = recording.totals.get("blocks")
    lost = lost if isinstance(lost, dict) else {}
    if lost.get("stacks_lost"):
        notes.append(f"{lost['stacks_lost']:,} calls have no stack: there was no room for it")
    if lost.get("threads_lost"):
        notes.append(f"{lost['threads_lost']:,} threads were made whose stacks are not known")
    if isinstance(lost.get("notes"), list):
        notes += map(str, lost["notes"])


def _younger(source: _Source, old: list[Amount], native: str, older_ns: int) -> Younger:
    """Return how many blocks and bytes are alive and not older than `older_ns`."""
    every = source.amounts(native, 0)
    count, size = (sum(row[at] for row in every) - sum(row[at] for row in old) for at in (2, 3))
    return Younger(older_ns, round(count), round(size))


def _add_threads(report: MemReport, source: _Source, amounts: Iterable[Amount]) -> None:
    """Add up by thread what is alive and what was made."""
    for columns, rows in ((0, amounts), (2, source.made())):
        for thread, _, count, size, _ in rows:
            _, pid, tid = source.threads[thread]
            row = report.threads.setdefault((pid, tid), [0.0] * 4)
            row[columns] += count
            row[columns + 1] += size


def _strange(recording: RecordingFile, count: int) -> str:
    if recording.options.get("processes"):
        return f"{count:,} frees of blocks that were made before soscope came"
    return f"{count:,} frees of blocks whose allocation was not seen"


def _name(
    recording: RecordingFile,
    report: MemReport,
    source: _Source,
    amounts: Iterable[Amount],
    names: FrameNames,
) -> None:
    """Make rows of the report, one for each stack."""
    rows: dict[_Key, _Sum] = {}
    programs = recording.programs
    for thread, stack, count, size, variance in amounts:
        program, pid, tid = source.threads[thread]
        api, words, _ = stack_at(programs[program], stack)
        row = rows.setdefault((program, pid, api, words), _Sum())
        row.count += count
        row.bytes += size
        row.variance += variance
        row.threads.add(tid)
    named: dict[tuple[int, int, tuple[StackFrame, ...]], _Sum] = {}
    for (program, pid, api, words), row in rows.items():
        frames = names.stack(programs[program], words)
        same = named.setdefault((pid, api, frames), row)
        if same is not row:  # other instructions of the same lines
            same.add(row)
    for (pid, api, frames), row in named.items():
        thread_of_all = min(row.threads) if len(row.threads) == 1 else None
        error = None if report.sample_bytes is None else half_width(row.variance)
        report.native.append(
            NativeRow(
                APIS.get(api, APIS[0]),
                round(row.count),
                round(row.bytes),
                thread_of_all,
                frames,
                pid,
                error,
            )
        )
    report.notes += [
        f"{path} has changed since: its functions are not named" for path in sorted(names.others)
    ]


class _Source:
    """A source of rows. `threads` are (program, pid, tid), and `counted` are finished rows."""

    samples = unseen = strange = 0

    def __init__(self) -> None:
        self.threads: list[tuple[int, int, int]] = []
        self.notes: list[str] = []
        self.counted: list[NativeRow] = []

    def amounts(self, native: str, older_ns: int) -> list[Amount]:
        """Return amounts of each thread and stack. A pair may occur several times."""
        raise NotImplementedError

    def made(self) -> list[Amount]:
        """Return the amounts of all blocks that were made, also by thread and stack."""
        raise NotImplementedError


# ---- of events --------------------------------------------------------------------


def _rounded(column: npt.NDArray[np.float64]) -> int:
    return round(float(column.sum()))


class _Events(_Source):
    """The events of a recording, all matched at once."""

    def __init__(self, recording: RecordingFile, report: MemReport) -> None:
        super().__init__()
        self._recording = recording
        events = collect(recording)
        self.threads = events.threads
        self._blocks = blocks = MatchedBlocks(events, report.sample_bytes)
        self._mappings = mappings = Mappings(self._is_heap)
        mappings.add(events)
        self.samples, self.unseen, self.strange = len(blocks), blocks.unseen, blocks.strange
        self._last = int(events.units["tsc"].max()) if len(events) else 0
        self._peak = size, count, tsc = blocks.peak()
        alive = blocks.alive()
        live, made = _rounded(blocks.count[alive]), _rounded(blocks.count)
        report.native_totals = NativeTotals(
            live=live,
            live_bytes=_rounded(blocks.bytes[alive]),
            allocations=made,
            frees=made - live - blocks.unseen,
            allocated_bytes=_rounded(blocks.bytes),
            peak=count,
            peak_bytes=size,
            peak_time_ns=self._time(tsc),
            temporary=_rounded(blocks.count[blocks.temporary]),
        )
        if report.sample_bytes is not None:
            report.native_totals.error_bytes = half_width(float(blocks.variance[alive].sum()))
        report.mapped_totals = mappings.totals
        report.mapped_totals.peak_time_ns = self._time(mappings.peak_tsc)
        rates = Rates()
        rates.made(blocks.start, blocks.count, blocks.bytes)
        gone = blocks.gone()
        rates.freed(blocks.end[gone], blocks.count[gone], blocks.bytes[gone])
        report.rates = rates.said(recording.clock)

    def _time(self, tsc: int) -> int | None:
        return self._recording.clock.time_ns(tsc) if tsc else None

    def _is_heap(self, program: int, stack: int) -> bool:
        return stack_at(self._recording.programs[program], stack)[0] in HEAP_APIS

    def amounts(self, native: str, older_ns: int) -> list[Amount]:
        """Return amounts of each thread and stack."""
        blocks = self._blocks
        mappings = self._mappings
        if native == PEAK:
            _, count, tsc = self._peak
            rows = self._of(blocks.alive_at(tsc) if count else blocks.alive()[:0])
            return rows + [
                (area.thread, area.stack, 1, size, 0.0) for area, size in mappings.at_peak
            ]
        if native == TEMPORARY:
            rows = self._of(np.flatnonzero(blocks.temporary))
            return rows + [
                (*who, count, size, 0.0) for who, (count, size) in mappings.temporary.items()
            ]
        latest = self._latest(older_ns)
        alive = blocks.alive()
        rows = self._of(alive[blocks.start[alive] <= latest])
        for area in mappings.alive:
            if area.tsc <= latest:
                rows.append((area.thread, area.stack, 1, area.bytes, 0.0))
        return rows

    def made(self) -> list[Amount]:
        """Return the amounts that were made by each thread and stack."""
        return self._of(np.arange(len(self._blocks)))

    def _latest(self, older_ns: int) -> int:
        """Return the latest time (tsc) at which a block is old enough at the end."""
        clock = self._recording.clock
        return max(self._last, clock.newest) - round(older_ns / clock.rate)

    def _of(self, which: npt.NDArray[np.int64]) -> list[Amount]:
        """Add blocks up by thread and stack."""
        blocks = self._blocks
        keys = blocks.thread[which].astype(np.int64) << 32 | blocks.stack[which]
        unique, inverse = np.unique(keys, return_inverse=True)
        columns = [
            np.bincount(inverse, values[which], len(unique)).tolist()
            for values in (blocks.count, blocks.bytes, blocks.variance)
        ]
        return [
            (key >> 32, key & 0xFFFF_FFFF, *amount)
            for key, *amount in zip(unique.tolist(), *columns, strict=True)
        ]


# ---- of sums ------------------------------------------------------------------------


class _Added(_Source):
    """The sums of a recording that was made with --aggregate."""

    def __init__(self, recording: RecordingFile, report: MemReport, data: bytes) -> None:
        super().__init__()
        try:
            self._head, self._keys, self._values = aggregate.unpack(data)
            self._read(report)
            damaged = self._head.get("counted", {}).get("damaged", 0)
            recording.losses.strange = int(self._head.get("spoiled", 0)) + int(damaged)
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise RecordingError(f"'{recording.path}': its sums cannot be read: {error}") from error

    def _read(self, report: MemReport) -> None:
        head, values = self._head, self._values
        self.threads = [(program, pid, tid) for program, pid, tid in head["threads"]]
        self.samples, self.unseen = head["samples"], head["unseen"]
        self.strange = head["strange"]
        report.rates = head["rates"]
        begun, until = head.get("begun"), head.get("until")
        if begun is not None and until is not None:
            report.span = int(begun), max(int(begun), int(until))
        size, count, time_ns = head["peak"]
        live, made, temporary = (
            _rounded(values[:, column])
            for column in (aggregate.LIVE, aggregate.MADE, aggregate.TEMPORARY)
        )
        report.native_totals = NativeTotals(
            live=live,
            live_bytes=_rounded(values[:, aggregate.LIVE_BYTES]),
            allocations=made,
            frees=made - live - self.unseen,
            allocated_bytes=_rounded(values[:, aggregate.MADE_BYTES]),
            peak=round(count),
            peak_bytes=round(size),
            peak_time_ns=time_ns,
            temporary=temporary,
        )
        if report.sample_bytes is not None:
            variance = float(values[:, aggregate.LIVE_VARIANCE].sum())
            report.native_totals.error_bytes = half_width(max(variance, 0.0))
        if "counted" in head:
            self._read_counted(report, head["counted"])
        report.mapped_totals = NativeTotals(**head["mapped"])
        report.mapped_totals.peak_time_ns = head["mapped_peak"]
        if head["late"] or self.unseen:
            self.notes.append(
                f"the peak may be off: {head['late']:,} records came late, and "
                f"{self.unseen:,} blocks were freed unseen"
            )

    def _read_counted(self, report: MemReport, said: dict[str, Any]) -> None:
        """Read the blocks that were counted by function and size class."""
        self.strange = said["strange"]
        untracked, untracked_bytes = said["untracked"]
        totals = np.zeros(4, np.int64)
        for (pid, api, size_class), row in summed(said["rows"]).items():
            totals += row[:4]
            made, made_bytes, freed, freed_bytes, tid = row
            if made != freed:
                sizes = class_sizes(size_class)
                count, size = made - freed, made_bytes - freed_bytes
                thread = tid if tid > 0 else None
                self.counted.append(NativeRow(APIS[api], count, size, thread, (), pid, None, sizes))
        made, made_bytes, freed, freed_bytes = totals.tolist()
        report.native_totals = NativeTotals(
            live=made - freed,
            live_bytes=made_bytes - freed_bytes,
            allocations=made,
            frees=freed,
            allocated_bytes=made_bytes,
            peak=None,
            peak_bytes=None,
            temporary=None,
        )
        self.notes.append("blocks were counted by function and size: their stacks are not known")
        if untracked:
            self.notes.append(
                f"{untracked:,} blocks of {untracked_bytes:,} bytes count as alive: there was no"
                " memory to take note of them"
            )

    def amounts(self, native: str, older_ns: int) -> list[Amount]:
        """Return amounts of each thread and stack. Raises RecordingError."""
        if "counted" in self._head and (native != ALIVE or older_ns):
            raise RecordingError("a recording with --mode count has only sums of what is alive")
        first = _COLUMN[native]
        if native == ALIVE and older_ns:
            if self._head["older_ns"] != older_ns:
                raise RecordingError("a recording with --aggregate does not say how old blocks are")
            first = aggregate.OLD
        rows = self._of(first)
        if native == TEMPORARY:
            return rows + [(*area, 0.0) for area in self._head.get("mappings_temporary", [])]
        for thread, stack, size, is_old in self._head[_MAPPINGS[native]]:
            if is_old or not older_ns:
                rows.append((thread, stack, 1, size, 0.0))
        return rows

    def made(self) -> list[Amount]:
        """Return the amounts that were made by each thread and stack."""
        return self._of(aggregate.MADE)

    def _of(self, first: int) -> list[Amount]:
        """Return the amounts of three columns, beginning with column `first`."""
        columns = self._values[:, first : first + 3]
        there = np.flatnonzero(columns[:, 0] > 0.5)
        return [
            (key >> 32, key & 0xFFFF_FFFF, *amounts)
            for key, amounts in zip(
                self._keys[there].tolist(), columns[there].tolist(), strict=True
            )
        ]
