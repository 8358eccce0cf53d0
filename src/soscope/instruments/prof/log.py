# SPDX-License-Identifier: Apache-2.0
"""Calls that instrumented code has reported one by one (`--mode log`), read from a recording.

They are arrays, as objects for millions of calls would take minutes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from soscope.model.image import Record
from soscope.recording.names import RecordedProgram
from soscope.recording.reader import RecordingFile
from soscope.recording.sink import Sink, Stop
from soscope.wire import layout

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.uint32]
Booleans = npt.NDArray[np.bool_]

_UNIT = np.dtype(
    [("commit", "<u4"), ("ticks", "<u4"), ("start", "<i8"), ("function", "<i8"), ("around", "<i8")]
)
_Units = npt.NDArray[Any]  # array of _UNIT
_HEADER_UNITS = layout.CHUNK_HEADER // layout.UNIT
_CHUNK_UNITS = layout.CHUNK_SIZE // layout.UNIT
_FLAGS = (1 << layout.REPORTED_TICKS) - 1
_HIGH = (0xFFF_FFFF >> layout.REPORTED_TICKS) << layout.REPORTED_TICKS


class ThreadLog(Record):
    """The calls of one thread, in the order in which they began.

    `start` and `ticks` are of the processor's clock and include the time of the hooks. `function`
    and `around` are the same as in `struct sosc_reported`, and `flags` are REPORTED_ flags of
    `layout`. `waits` are (tsc, ticks) of times that the agent, not the program, took for the
    recording. `is_open` tells for each call whether it had not returned at the end. `overwritten`
    is the number of missing calls, whose units were used for other calls.
    """

    __slots__ = (
        "around",
        "flags",
        "function",
        "is_open",
        "overwritten",
        "pid",
        "start",
        "ticks",
        "tid",
        "waits",
    )

    def __init__(self, pid: int, tid: int, units: _Units, waits: _Units, is_open: Booleans) -> None:
        self.pid = pid
        self.tid = tid
        ticks = _ticks(units)
        # at equal starts, the longer call contains the other
        order = np.lexsort((-ticks, units["start"]))
        order = _without_doubled(units, ticks, order)
        self.overwritten = len(units) - len(order)
        self.start: Integers = np.ascontiguousarray(units["start"][order])
        self.ticks: Integers = ticks[order]
        self.function: Integers = np.ascontiguousarray(units["function"][order])
        self.around: Integers = np.ascontiguousarray(units["around"][order])
        self.flags: Flags = np.asarray((units["commit"] & _FLAGS)[order], np.uint32)
        self.is_open: Booleans = is_open[order]
        self.waits: tuple[Integers, Integers] = (
            waits["start"].astype(np.int64),
            waits["function"].astype(np.int64),
        )

    def __len__(self) -> int:
        return len(self.start)

    def is_seen(self) -> Booleans:
        """Return for each call whether its return could be seen. Other calls have no time."""
        return np.asarray((self.flags & layout.REPORTED_UNSEEN) == 0)


OpenCalls = dict[tuple[int, int], list[tuple[int, ...]]]  # words of units, by pid and tid


def logs_of(
    recording: RecordingFile, still_open: dict[int, OpenCalls]
) -> dict[int, list[ThreadLog]]:
    """Return the calls of each program by its number. `still_open` has calls that are open."""
    taken = _Taken(recording)
    logs: dict[int, list[ThreadLog]] = {}
    keys = set(taken.pieces) | {
        (program, *thread) for program, threads in still_open.items() for thread in threads
    }
    for key in sorted(keys):
        program, pid, tid = key
        units = np.concatenate(taken.pieces.get(key) or [np.zeros(0, _UNIT)])
        kind = units["commit"] >> 28
        calls = units[kind == layout.UNIT_REPORTED]
        opened = [_unit_of(each) for each in still_open.get(program, {}).get((pid, tid), ())]
        is_open = np.arange(len(calls) + len(opened)) >= len(calls)
        calls = np.concatenate([calls, np.array(opened, _UNIT)])
        if taken.until:
            before = calls["start"] < taken.until
            calls, is_open = calls[before], is_open[before]
        if len(calls):
            _tell_apart(calls, recording.programs[program], pid)
            waits = units[kind == layout.UNIT_OVERHEAD]
            logs.setdefault(program, []).append(ThreadLog(pid, tid, calls, waits, is_open))
    return logs


def _tell_apart(calls: _Units, program: RecordedProgram, pid: int) -> None:
    """Add to addresses the image that was there then, if several images were there in turn."""
    moves = np.array(program.moves.times(), np.int64)
    if not len(moves):
        return
    is_root = calls["commit"] & layout.REPORTED_ROOT != 0
    for name, are_addrs in (("function", np.ones(len(calls), np.bool_)), ("around", is_root)):
        addrs = [each for each in np.unique(calls[name][are_addrs]).tolist() if each > 0]
        several = [each for each in addrs if program.needs_time(each)]
        rows = np.flatnonzero(are_addrs & np.isin(calls[name], several))
        # The images do not change between two moves.
        since = np.searchsorted(moves, calls["start"][rows], side="right")
        keys = np.stack([calls[name][rows], since], axis=1)
        distinct, first, which = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        starts = calls["start"][rows[first]].tolist()
        words = [
            program.word(addr, pid, start)
            for addr, start in zip(distinct[:, 0].tolist(), starts, strict=True)
        ]
        calls[name][rows] = np.array(words, np.int64)[which.reshape(-1)]


def _ticks(units: _Units) -> Integers:
    high = (units["commit"] & _HIGH).astype(np.int64) << (32 - layout.REPORTED_TICKS)
    return high | units["ticks"].astype(np.int64)


def _without_doubled(units: _Units, ticks: Integers, order: Integers) -> Integers:
    """Return `order` (units by start) without units that were written twice.

    If a signal handler forks while a unit is written, the child writes it, too. Another call may
    use that unit by then, and its ticks stay in the copy, as the child does not write them again.
    """
    sorted_units = units[order]
    flags = sorted_units["commit"] & _FLAGS
    same = (flags & layout.REPORTED_UNSEEN == 0) & (ticks[order] > 0)
    for words in (sorted_units["start"], sorted_units["function"], sorted_units["around"], flags):
        same[1:] &= words[1:] == words[:-1]
    at = np.flatnonzero(same[1:] & (ticks[order[:-1]] > 0))
    stays = np.ones(len(units), np.bool_)
    stays[np.maximum(order[at], order[at + 1])] = False  # the unit written first is right
    return np.asarray(order[stays[order]], np.int64)


def _unit_of(call: tuple[int, ...]) -> tuple[int, ...]:
    commit, start, ticks, function, around = call
    high = ticks >> 32 << layout.REPORTED_TICKS
    return commit | high, ticks & 0xFFFF_FFFF, start, function, around


class _Taken(Sink):
    """The units of logged calls, by program, process and thread."""

    def __init__(self, recording: RecordingFile) -> None:
        self.pieces: dict[tuple[int, int, int], list[_Units]] = {}
        self.until = 0  # tsc at which the recording ends, 0 if it has no end
        self._programs = recording.programs
        for _ in recording.replay(self):
            pass

    def chunk(self, program: int, header: bytes, first: int, units: bytes) -> None:
        _, tid, pid, *_ = layout.CHUNK.struct.unpack(header)
        self._add(program, pid, tid, np.frombuffer(units, _UNIT))

    def chunks(self, program: int, data: bytes | memoryview) -> None:
        units = np.frombuffer(data, _UNIT).reshape(-1, _CHUNK_UNITS)
        for row, at in zip(units, range(0, len(data), layout.CHUNK_SIZE), strict=True):
            _, tid, pid, *_ = layout.CHUNK.struct.unpack_from(data, at)
            self._add(program, pid, tid, row[_HEADER_UNITS:])

    def stop(self, stop: Stop) -> None:
        if stop.program is None:
            self.until = stop.tsc

    def _add(self, program: int, pid: int, tid: int, units: _Units) -> None:
        self._programs.checked(program)
        kind = units["commit"] >> 28
        wanted = (kind == layout.UNIT_REPORTED) | (kind == layout.UNIT_OVERHEAD)
        self.pieces.setdefault((program, pid, tid), []).append(units[wanted])
