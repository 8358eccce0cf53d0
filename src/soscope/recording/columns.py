# SPDX-License-Identifier: Apache-2.0
"""The calls of a recording as numpy arrays, one element per call, in order of time.

The arrays have the times, durations and failures of many calls at once, by the same rules as
`clock` and `is_error` for a single call.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from soscope.model import image as rules
from soscope.model.call import ENDED_EXIT, ENDED_KILLED, ENDED_LOST, ENDED_RETURN, ENDED_UNWOUND
from soscope.recording.arrays import Booleans, Integers, Words
from soscope.recording.clock import Clock
from soscope.recording.gather import Run
from soscope.recording.match_arrays import Matched
from soscope.recording.pairing import OpenCall
from soscope.recording.reader import RecordingFile
from soscope.recording.windows import SIZE, Windows
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


class Times:
    """Converts the tsc of one recording to nanoseconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        pieces = clock.segments()
        self._starts = np.array([piece[0] for piece in pieces], np.int64)
        self._realtime = np.array([piece[1] for piece in pieces], np.int64)
        self._rates = np.array([piece[2] for piece in pieces])
        self._even = np.array([piece[3] for piece in pieces])

    def ns(self, tsc: Integers) -> Integers:
        """Return the CLOCK_REALTIME ns of many times, as `Clock.time_ns` does for one."""
        if not len(self._starts):
            return np.zeros(len(tsc), np.int64)
        at = np.searchsorted(self._starts, tsc, side="right") - 1
        rate = self._rates[np.maximum(at, 0)]
        rate[at < 0] = self._clock.rate
        at = np.maximum(at, 0)
        with np.errstate(invalid="ignore"):  # only invented clocks of a file reach that far
            since = np.floor((tsc - self._starts[at]) * rate).astype(np.int64)
        return np.where(tsc > 0, self._realtime[at] + since, 0)

    def durations(self, run: Run, entries: Integers, exits: Integers) -> Integers:
        """Return the ns between entries and exits, without the agent's time; -1 if not known."""
        tsc = run.events.tsc
        begun, ended = tsc[entries], tsc[exits]
        ticks = ended - begun
        if run.time is tsc:  # the times never go back
            taken = run.thread.spans.before_each(tsc)
            if taken is not None:
                ticks -= taken[exits] - taken[entries]
        else:
            before = run.thread.spans.before
            ticks -= before(ended) - before(begun)
        spent = self._nanoseconds(ticks, run.time[exits])
        if not tsc.all():
            spent[(begun <= 0) | (ended <= 0)] = -1
        return spent

    def _nanoseconds(self, ticks: Integers, until: Integers) -> Integers:
        """Return the ns of durations in ticks that ended at `until`, as `Clock.duration_ns`."""
        ticks = np.maximum(ticks, 0)
        if not len(self._starts) or not len(until):
            return ticks.astype(np.int64)
        ends = np.searchsorted(self._starts, (until.min(), until.max()), side="right") - 1
        low, high = np.maximum(ends, 0).tolist()
        if low == high:
            return np.asarray(ticks * self._even[low], np.int64)
        at = np.searchsorted(self._starts[low : high + 1], until, side="right") - 1
        return np.asarray(ticks * self._even[low : high + 1][np.maximum(at, 0)], np.int64)

    def late(self, run: Run, begun: Integers, exits: Integers, moved: Booleans) -> Integers:
        """Return durations of calls that began at `begun`, in another window or thread."""
        ended = run.events.tsc[exits]
        before = run.thread.spans.before
        ticks = ended - begun - np.where(moved, 0, before(ended) - before(begun))
        spent = self._nanoseconds(ticks, run.time[exits])
        spent[(begun <= 0) | (ended <= 0)] = -1
        return spent


def failed(rule: npt.NDArray[np.uint8], result: Words) -> Booleans:
    """Return for each result whether its function failed, as `is_error` does."""
    fails = np.zeros(len(rule), np.bool_)
    for each in np.flatnonzero(np.bincount(rule)).tolist():
        if each == rules.ERROR_NONE:
            continue
        here = np.flatnonzero(rule == each)
        fails[here] = _fails(each, result[here])
    return fails


def _fails(rule: int, result: Words) -> Booleans:
    low = result.astype(np.uint32)
    if rule == rules.ERROR_INT_NEGATIVE:
        fails = low >= 1 << 31
    elif rule == rules.ERROR_LONG_NEGATIVE:
        fails = result >= 1 << 63
    elif rule == rules.ERROR_NULL:
        fails = result == 0
    elif rule == rules.ERROR_MINUS_ONE:
        fails = ~result == 0
    elif rule == rules.ERROR_INT_NONZERO:
        fails = low > 0
    elif rule == rules.ERROR_INT_ZERO:
        fails = low == 0
    elif rule == rules.ERROR_INT_MINUS_ONE:
        fails = ~low == 0
    else:
        fails = np.zeros(len(result), np.bool_)
    return np.asarray(fails, np.bool_)


# `Columns.ended` has indices of this tuple. 0: it had not ended, or its exit is not recorded.
ENDED = ("", ENDED_RETURN, ENDED_UNWOUND, ENDED_EXIT, ENDED_KILLED, ENDED_LOST)
RETURNED = ENDED.index(ENDED_RETURN)
_UNWOUND = ENDED.index(ENDED_UNWOUND)
_LOST = ENDED.index(ENDED_LOST)

# how a call ended: index of ENDED, duration, result, errno, failed
_End = tuple[int, int, int, int, bool]
_ENDS = ("ended", "duration_ns", "result", "errno", "failed")


class Columns:
    """Calls of a recording, as one array for each of these columns.

        program, slot   the traced program and the slot's number in it
        pid, tid        of the thread that made the call
        time_ns         of the entry, CLOCK_REALTIME
        duration_ns     -1 if it is not known
        result          unsigned 64-bit word, 0 if `ended` is not "return"
        errno           0 if the call did not fail, or if it is not known
        return_addr     return address, 0 if it is not known
        arg0            the first integer argument register
        depth           number of open hooked calls around it in its own process
        ended           index of `ENDED`
        entry_only      the exit is not recorded
        failed          the call counts as an error in `trace -c`
        number          number of its entry's unit in the file, which identifies the call
        stack           number of its stack in its program, 0 if it has none

    Calls are in the order of their times.
    """

    __slots__ = (
        "arg0", "depth", "duration_ns", "ended", "entry_only", "errno", "failed", "number", "pid",
        "program", "result", "return_addr", "slot", "stack", "tid", "time_ns",
    )  # fmt: skip

    def __init__(self, arrays: dict[str, Any]) -> None:
        self.program: npt.NDArray[np.int64] = arrays["program"]
        self.pid: npt.NDArray[np.int64] = arrays["pid"]
        self.tid: npt.NDArray[np.int64] = arrays["tid"]
        self.slot: npt.NDArray[np.int64] = arrays["slot"]
        self.time_ns: npt.NDArray[np.int64] = arrays["time_ns"]
        self.duration_ns: npt.NDArray[np.int64] = arrays["duration_ns"]
        self.result: npt.NDArray[np.uint64] = arrays["result"]
        self.errno: npt.NDArray[np.int64] = arrays["errno"]
        self.return_addr: npt.NDArray[np.uint64] = arrays["return_addr"]
        self.arg0: npt.NDArray[np.uint64] = arrays["arg0"]
        self.depth: npt.NDArray[np.int64] = arrays["depth"]
        self.ended: npt.NDArray[np.uint8] = arrays["ended"]
        self.entry_only: npt.NDArray[np.bool_] = arrays["entry_only"]
        self.failed: npt.NDArray[np.bool_] = arrays["failed"]
        self.number: npt.NDArray[np.int64] = arrays["number"]
        self.stack: npt.NDArray[np.uint32] = arrays["stack"]

    def __len__(self) -> int:
        return len(self.slot)


def columns(recording: RecordingFile, size: int | None = SIZE) -> Columns:
    """Return all calls of a recording up to its damage, read in windows of `size` units."""
    rows = _Rows(recording)
    parts = list(rows.windows(size))
    names = Columns.__slots__
    calls = Columns(
        {name: np.concatenate([_EMPTY[name], *(part[name] for part in parts)]) for name in names}
    )
    rows.end(calls)
    return calls


def batches(recording: RecordingFile, size: int | None = SIZE) -> Iterator[Columns]:
    """Yield all calls of a recording, with the same columns, window by window.

    The recording is read twice. The first time finds calls that end in a later window than they
    begin.
    """
    first = _Rows(recording)
    first.find_ends(size)
    second = _Rows(recording)
    for part in second.windows(size):
        calls = Columns(part)
        first.end(calls)
        yield calls


class _Rows:
    """Makes rows of windows. `ends` has the ends of calls that ended later, by their number."""

    def __init__(self, recording: RecordingFile) -> None:
        self._recording = recording
        self._times = Times(recording.clock)
        self.ends: dict[int, _End] = {}

    def find_ends(self, size: int | None) -> None:
        """Read all windows only to fill `ends`."""
        windows = Windows(self._recording, size, deep=False)
        for window in windows:
            for matched in window:
                self._find_ends(matched)
            self._close(windows)

    def windows(self, size: int | None) -> Iterator[dict[str, Any]]:
        """Yield the arrays of the calls that began in each window."""
        windows = Windows(self._recording, size, deep=True)
        for window in windows:
            threads = [self._arrays(matched) for matched in window]
            for matched in window:
                self._find_ends(matched)
            self._close(windows)
            if threads:
                arrays = {
                    name: np.concatenate([part[name] for part in threads]) for name in threads[0]
                }
                order = np.lexsort((arrays["number"], arrays.pop("place")))
                yield {name: array[order] for name, array in arrays.items()}

    def end(self, calls: Columns) -> None:
        """Add the ends of calls that had not ended in their own window."""
        if not self.ends or not len(calls):
            return
        numbers = np.fromiter(self.ends, np.int64, len(self.ends))
        order = np.argsort(calls.number)
        at = np.searchsorted(calls.number, numbers, sorter=order)
        at = order[np.minimum(at, len(order) - 1)]
        here = np.flatnonzero(calls.number[at] == numbers)
        ends = list(self.ends.values())
        for place, index in zip(at[here].tolist(), here.tolist(), strict=True):
            for name, value in zip(_ENDS, ends[index], strict=True):
                getattr(calls, name)[place] = value

    def _close(self, windows: Windows) -> None:
        for call, fate in windows.closed:
            self.ends[call.payload[0]] = fate, -1, 0, 0, False

    def _find_ends(self, matched: Matched) -> None:
        """Keep the ends of calls that began in earlier windows or in other threads."""
        run, matching = matched.run, matched.matching
        gone = [(opened, event) for opened, event in matching.over if isinstance(opened, OpenCall)]
        holes = run.holes_at(np.array([event for _, event in gone], np.int64)).tolist()
        for (call, _), lost in zip(gone, holes, strict=True):
            self.ends[call.payload[0]] = _LOST if call.holes != lost else _UNWOUND, -1, 0, 0, False
        late = [(event, opened.tsc, opened.payload[0], False) for event, opened in matching.late]
        late += [(event, opened.tsc, opened.payload[0], True) for event, opened in matched.moved]
        if late:
            exits, begun, numbers, moved = (np.array(some) for some in zip(*late, strict=True))
            spent = self._times.late(run, begun, exits, moved)
            ends = zip(
                *(values.tolist() for values in (spent, *_results(matched, exits))), strict=True
            )
            for number, end in zip(numbers.tolist(), ends, strict=True):
                self.ends[number] = RETURNED, *end

    def _arrays(self, matched: Matched) -> dict[str, Any]:
        """Return a row for each entry of one thread in one window."""
        run, matching = matched.run, matched.matching
        events = run.events
        kind = events.kind()
        entries = np.flatnonzero(kind != layout.UNIT_EXIT)
        size = len(entries)
        program, pid, tid = run.thread.key
        assert matching.depth is not None
        arrays: dict[str, Any] = {
            "program": np.full(size, program, np.int64),
            "pid": np.full(size, pid, np.int64),
            "tid": np.full(size, tid, np.int64),
            "slot": events.slot()[entries],
            "time_ns": self._times.ns(run.time[entries]),
            "arg0": events.second(entries),
            "depth": matching.depth[entries].astype(np.int64),
            "entry_only": kind[entries] == layout.UNIT_ENTRY_ONLY,
            "return_addr": matched.return_addrs()[entries],
            "number": run.numbers(entries),
            "stack": run.stacks()[entries],
            "place": run.place[entries],
            "ended": np.zeros(size, np.uint8),
            "duration_ns": np.full(size, -1, np.int64),
            "result": np.zeros(size, np.uint64),
            "errno": np.zeros(size, np.int64),
            "failed": np.zeros(size, np.bool_),
        }
        row = np.cumsum(kind != layout.UNIT_EXIT) - 1  # for each event: row of its entry
        over = [(call, event) for call, event in matching.over if not isinstance(call, OpenCall)]
        if over:
            gone, at = (np.array(some, np.int64) for some in zip(*over, strict=True))
            lost = run.holes_at(gone) != run.holes_at(at)
            arrays["ended"][row[gone]] = np.where(lost, _LOST, _UNWOUND)
        begun, exits = matching.pairs()
        back = row[begun]
        arrays["ended"][back] = RETURNED
        arrays["duration_ns"][back] = self._times.durations(run, begun, exits)
        for name, values in zip(
            ("result", "errno", "failed"), _results(matched, exits), strict=True
        ):
            arrays[name][back] = values
        return arrays


def _results(matched: Matched, exits: Integers) -> tuple[Any, Any, Any]:
    """Return results, errno and failures of exits."""
    events, slots = matched.run.events, matched.slots
    results = events.first(exits)
    fails = failed(slots.error_rule(events.slot()[exits]), results)
    errnos = np.zeros(len(exits), np.int64)
    if slots.knows_errno:
        errnos[fails] = (events.second(exits[fails]) & np.uint64(0xFFFF_FFFF)).astype(np.int64)
    return results, errnos, fails


_KINDS = {"result": np.uint64, "return_addr": np.uint64, "arg0": np.uint64, "ended": np.uint8,
          "entry_only": np.bool_, "failed": np.bool_, "stack": np.uint32}  # fmt: skip
_EMPTY: dict[str, npt.NDArray[Any]] = {
    name: np.zeros(0, _KINDS.get(name, np.int64)) for name in Columns.__slots__
}
