# SPDX-License-Identifier: Apache-2.0
"""From a recording to a report: what is alive, and where it was made."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

from soscope.errors import RecordingError
from soscope.instruments.mem.ends import processes_of
from soscope.instruments.mem.events import collect
from soscope.instruments.mem.frames import APIS, HEAP_APIS, FrameNames, stack_at
from soscope.instruments.mem.mapped import Mappings
from soscope.instruments.mem.matched import MatchedBlocks
from soscope.instruments.mem.model import (
    COMPLETE,
    STATES,
    EndOf,
    MemReport,
    NativeRow,
    NativeTotals,
    ObjectTotals,
    RssParts,
    StackFrame,
    Survivor,
)
from soscope.instruments.mem.sampled import half_width
from soscope.recording.losses import EXITS
from soscope.recording.reader import RecordingFile

ALIVE = "alive"  # the native rows: at the end,
PEAK = "peak"  # when most bytes were there,
SAMPLED = "sampled"  # the mode of objects that were chosen by chance
TEMPORARY = "temporary"  # or blocks that were freed at once

# program, pid, api, the words of a stack
_Key = tuple[int, int, int, tuple[int, ...]]
_FIELDS = 6  # of a survivor's row
_MORE = 2  # of one that is an estimate: what the squares of its errors are expected to be
_PAIR = 2  # a process and its parts


class _Sum:
    """What is added up for a row; `threads` are those that made it, `variance` is of its bytes."""

    __slots__ = ("bytes", "count", "threads", "variance")

    def __init__(self) -> None:
        self.count = self.bytes = self.variance = 0.0
        self.threads: set[int] = set()

    def add(self, other: _Sum) -> None:
        """Add what another one has."""
        self.count += other.count
        self.bytes += other.bytes
        self.variance += other.variance
        self.threads |= other.threads


_Rows = dict[_Key, _Sum]


def report_of(recording: RecordingFile, native: str = ALIVE) -> MemReport:
    """Return what a recording of `soscope mem` says; `native` chooses its native rows.

    Raises RecordingError for a recording of something else.
    """
    options = recording.meta.get("options")
    modes = options if isinstance(options, dict) else {}
    objects, blocks = modes.get("objects"), modes.get("blocks")
    if not isinstance(objects, dict) and not isinstance(blocks, dict):
        raise RecordingError(f"'{recording.path}' is not a recording of soscope mem")
    command = [str(word) for word in recording.meta.get("command") or ()]
    processes = processes_of(recording)
    report = MemReport(command, processes[0].pid if processes else 0)
    report.processes = processes
    report.follows = bool(modes.get("follow"))
    if processes:
        worst = max(processes, key=lambda process: STATES.index(process.state))
        report.state, report.cut = worst.state, worst.cut
        report.exit = processes[0].exit
    elif recording.complete:
        report.state = COMPLETE
    if report.exit is None and recording.end is not None:
        report.exit = EndOf(recording.end.get("status"))
    if isinstance(objects, dict):
        report.objects_mode = str(objects.get("mode") or "exact")
        report.uses_qualname = bool(objects.get("qualname"))
        size = objects.get("sample_bytes")
        report.sample_bytes = size if isinstance(size, int) else None
        _add_objects(recording, report)
    if isinstance(blocks, dict):
        report.native_mode = str(blocks.get("mode") or "exact")
        size = blocks.get("sample_bytes")
        report.sample_bytes = size if isinstance(size, int) else None
        _Native(recording, report).add(native)
    _add_rss(recording, report)
    _add_losses(recording, report)
    return report


# ---- objects ---------------------------------------------------------------------


def _add_objects(recording: RecordingFile, report: MemReport) -> None:
    """Add the survivors, by what was said last of each process."""
    newest: dict[int, list[dict[str, Any]]] = {}
    for _, said in recording.objects:
        pid = said.get("pid")
        if isinstance(pid, int):
            is_further = pid in newest and "runtime" not in said
            newest[pid] = [*newest[pid], said] if is_further else [said]
    add_survivors(report, newest)
    if report.objects_mode == SAMPLED:
        report.notes.append(
            f"objects are estimates: one in {report.sample_bytes:,} bytes was chosen by chance"
        )
    if isinstance(notes := _totals_of(recording).get("notes"), list):
        report.notes += map(str, notes)


def add_survivors(report: MemReport, by_pid: dict[int, list[dict[str, Any]]]) -> None:
    """Add what OBJECTS blocks say of processes: a process's first has more than rows.

    Types that are shown by the same name are one.
    """
    rows: dict[tuple[int, str | None, int, str], Survivor] = {}
    sums: dict[tuple[int, str | None, int, str], list[float]] = {}
    for pid, blocks in by_pid.items():
        runtime = blocks[0].get("runtime")
        if isinstance(runtime, dict) and not report.runtime:
            report.runtime = runtime
        for file, line, kind, qualname, *numbers in itertools.chain(*map(_rows, blocks)):
            path = None if file is None else str(file)
            name = str(qualname if report.uses_qualname else kind)
            key = (pid, path, int(line), name)
            rows.setdefault(key, Survivor(path, int(line), str(kind), str(qualname), 0, 0, pid))
            total = sums.setdefault(key, [0] * (2 + _MORE))
            for at, number in enumerate(numbers):
                total[at] += number
        lost = blocks[0].get("lost")
        report.dropped += lost if isinstance(lost, int) else 0
    for key, row in rows.items():
        row.count, row.bytes = round(sums[key][0]), round(sums[key][1])
        if report.objects_mode == SAMPLED:
            row.error_count, row.error_bytes = map(half_width, sums[key][2:])
    report.survivors = list(rows.values())
    report.survivors.sort(
        key=lambda row: (-row.count, -row.bytes, row.file or "", row.line, row.type)
    )
    created = [blocks[0].get("created") for blocks in by_pid.values()]
    destroyed = [blocks[0].get("destroyed") for blocks in by_pid.values()]
    report.object_totals = ObjectTotals(
        sum(row.count for row in report.survivors),
        sum(row.bytes for row in report.survivors),
        _sum(created),
        _sum(destroyed),
    )


def _rows(said: dict[str, Any]) -> list[list[Any]]:
    rows = said.get("rows")
    rows = rows if isinstance(rows, list) else []
    known = _FIELDS, _FIELDS + _MORE
    return [row for row in rows if isinstance(row, list) and len(row) in known]


def _add_rss(recording: RecordingFile, report: MemReport) -> None:
    """Add up what was resident of all processes."""
    said = _totals_of(recording).get("rss")
    parts = [row[1] for row in said if len(row) == _PAIR] if isinstance(said, list) else []
    known = [part for part in parts if part is not None]
    if known:
        report.rss = RssParts(*map(sum, zip(*known, strict=True)))
    if known and len(known) < len(parts):
        missing = len(parts) - len(known)
        report.notes.append(f"of {missing:,} of {len(parts):,} processes RSS is not known")


def _totals_of(recording: RecordingFile) -> dict[str, Any]:
    totals = (recording.end or {}).get("totals")
    return totals if isinstance(totals, dict) else {}


def _sum(counts: list[object]) -> int | None:
    """Return the sum of counts, None where one of them is not known."""
    known = [count for count in counts if isinstance(count, int)]
    return sum(known) if known and len(known) == len(counts) else None


# ---- blocks ----------------------------------------------------------------------


def _rounded(column: npt.NDArray[np.float64]) -> int:
    return round(float(column.sum()))


class _Native:
    """The native half of a report."""

    def __init__(self, recording: RecordingFile, report: MemReport) -> None:
        self._recording = recording
        self._report = report
        self._events = collect(recording)
        self._frames = FrameNames()

    def add(self, native: str) -> None:
        """Add rows, totals and notes."""
        report, events = self._report, self._events
        blocks = MatchedBlocks(events, report.sample_bytes)
        mappings = Mappings(events, self._is_heap)
        size, count, tsc = blocks.peak()
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
            variance = float(blocks.variance[alive].sum())
            report.native_totals.error_bytes = half_width(variance)
        report.mapped_totals = mappings.totals
        report.mapped_totals.peak_time_ns = self._time(mappings.peak_tsc)
        rows: _Rows = {}
        if native == PEAK:
            self._add_blocks(rows, blocks, blocks.alive_at(tsc) if count else alive[:0])
        elif native == TEMPORARY:
            self._add_blocks(rows, blocks, np.flatnonzero(blocks.temporary))
        else:
            self._add_blocks(rows, blocks, alive)
            for mapping in mappings.alive:
                self._add_row(rows, mapping.thread, mapping.stack, 1, mapping.bytes)
        self._name(rows)
        self._add_notes(blocks)

    def _time(self, tsc: int) -> int | None:
        return self._recording.clock.time_ns(tsc) if tsc else None

    def _is_heap(self, program: int, stack: int) -> bool:
        return stack_at(self._recording.programs[program], stack)[0] in HEAP_APIS

    def _add_blocks(self, rows: _Rows, blocks: MatchedBlocks, which: npt.NDArray[np.int64]) -> None:
        """Add blocks by thread and stack."""
        keys = blocks.thread[which].astype(np.int64) << 32 | blocks.stack[which]
        unique, inverse = np.unique(keys, return_inverse=True)
        columns = [
            np.bincount(inverse, values[which], len(unique)).tolist()
            for values in (blocks.count, blocks.bytes, blocks.variance)
        ]
        for key, count, size, variance in zip(unique.tolist(), *columns, strict=True):
            self._add_row(rows, key >> 32, key & 0xFFFF_FFFF, count, size, variance)

    def _add_row(
        self,
        rows: _Rows,
        thread: int,
        stack: int,
        count: float,
        size: float,
        variance: float = 0.0,
    ) -> None:
        program, pid, tid = self._events.threads[thread]
        api, addrs, _ = stack_at(self._recording.programs[program], stack)
        row = rows.setdefault((program, pid, api, addrs), _Sum())
        row.count += count
        row.bytes += size
        row.variance += variance
        row.threads.add(tid)

    def _name(self, rows: _Rows) -> None:
        """Make rows of the report."""
        programs = self._recording.programs
        named: dict[tuple[int, int, tuple[StackFrame, ...]], _Sum] = {}
        for (program, pid, api, words), row in rows.items():
            frames = self._frames.stack(programs[program], pid, words)
            same = named.setdefault((pid, api, frames), row)
            if same is not row:  # other instructions of the same lines
                same.add(row)
        for (pid, api, frames), row in named.items():
            thread = min(row.threads) if len(row.threads) == 1 else None
            name = APIS.get(api, APIS[0])
            error = None if self._report.sample_bytes is None else half_width(row.variance)
            native = NativeRow(name, round(row.count), round(row.bytes), thread, frames, pid, error)
            self._report.native.append(native)
        self._report.native.sort(key=lambda row: (-row.count, -row.bytes))

    def _add_notes(self, blocks: MatchedBlocks) -> None:
        notes = self._report.notes
        if self._report.sample_bytes is not None:
            notes.append(
                f"blocks are estimates of {len(blocks):,} samples, one in "
                f"{self._report.sample_bytes:,} bytes; mappings are exact"
            )
        for path in sorted(self._frames.others):
            notes.append(f"{path} has changed since: its functions are not named")
        if blocks.unseen:
            notes.append(
                f"{blocks.unseen:,} blocks were freed unseen: other blocks came where they had been"
            )
        if blocks.strange:
            notes.append(f"{blocks.strange:,} frees of blocks whose allocation was not seen")
        totals = (self._recording.end or {}).get("totals")
        lost = totals.get("blocks", {}) if isinstance(totals, dict) else {}
        if isinstance(lost, dict) and lost.get("stacks_lost"):
            notes.append(f"{lost['stacks_lost']:,} calls have no stack: there was no room for it")


def _add_losses(recording: RecordingFile, report: MemReport) -> None:
    """Add what is missing from the recording."""
    losses = recording.losses
    lost = sum(losses.total(kind) for kind in range(EXITS + 1))
    report.dropped += lost + losses.file_entries
    report.notes += [f"{count:,} lost: {why}" for count, why in losses.messages()]
