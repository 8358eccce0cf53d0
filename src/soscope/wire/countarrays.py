# SPDX-License-Identifier: Apache-2.0
"""What COUNT and STATS have added up: an array for each thread, and one that others share.

An array has a cell for each slot. Where calls are counted by call site, there is one for each
number of a call site behind those, and what a call site counts its slot does not: indices from
MAX_SLOTS on are MAX_SLOTS and such a number.
"""

from __future__ import annotations

import errno
import os

from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from soscope.model.stats import Stats
    from soscope.wire.plan import Plan


_TIMED = 8  # times as long it takes to time a call, at least, as to count it


def by_call_site(plan: Plan) -> bool:
    """Return whether an instrument of the plan counts calls by call site."""
    return any(instrument.flags & layout.PLAN_CALLERS for instrument in plan.instruments)


def size_of(plan: Plan) -> int:
    """Return the bytes of one array."""
    kinds = [instrument.instrument for instrument in plan.instruments]
    cells = layout.MAX_SLOTS + (layout.MAX_CALL_SITES if by_call_site(plan) else 0)
    return cells * (layout.STATS.size if layout.INSTRUMENT_STATS in kinds else 8)


class CountArrays:
    """The arrays of a control block whose file is `fd`, and whose memory `words` are.

    They begin at `offset` and have `size` bytes: `arrays` of them, of which `used` are in use.
    `slots` and `call_sites` are how many there are of these. There can be no more than `most_calls`
    by now, and none can have taken more than `most_ticks`.
    """

    __slots__ = (
        "_arrays",
        "_call_sites",
        "_fd",
        "_offset",
        "_size",
        "_slots",
        "_used",
        "_words",
        "most_calls",
        "most_ticks",
    )

    def __init__(
        self,
        fd: int,
        words: memoryview,
        offset: int,
        size: int,
        *,
        arrays: int,
        used: int,
        slots: int,
        call_sites: int,
        most_calls: int,
        most_ticks: int,
    ) -> None:
        self.most_calls = most_calls
        self.most_ticks = most_ticks
        self._fd = fd
        self._words = words
        self._offset = offset
        self._size = size
        self._arrays = arrays
        self._used = min(used, arrays)
        self._slots = slots
        self._call_sites = call_sites

    def views(self, width: int) -> Iterator[tuple[int, memoryview]]:
        """Yield what was written of the arrays in use: (index of its first cell, view).

        A view has u64, `width` of them a cell.
        """
        size = self._size // 8 // self._arrays if self._arrays else 0
        parts = [(0, self._slots)]
        if size > layout.MAX_SLOTS * width:
            parts.append((layout.MAX_SLOTS, self._call_sites))
        for array in range(self._used):
            for first, count in parts:
                start = self._offset // 8 + array * size + first * width
                for at, end in self._written(start, count * width):
                    yield first + at // width, self._words[start + at : start + end]

    def rest(self, width: int) -> Iterator[memoryview]:
        """Yield what was written elsewhere: behind the cells that are in use."""
        size = self._size // 8 // self._arrays if self._arrays else 0
        ends = [(self._slots, min(layout.MAX_SLOTS, size // width))]
        if size > layout.MAX_SLOTS * width:
            ends.append((layout.MAX_SLOTS + self._call_sites, size // width))
        for array in range(self._arrays):
            for first, end in ends if array < self._used else [(0, size // width)]:
                start = self._offset // 8 + array * size + first * width
                for at, until in self._written(start, (end - first) * width, is_known=True):
                    yield self._words[start + at : start + until]

    def _written(
        self, start: int, words: int, *, is_known: bool = False
    ) -> Iterator[tuple[int, int]]:
        """Yield the parts of `words` words from `start` on that were written, by whole pages.

        To read the others would make pages of them: there may be hundreds of arrays. With
        `is_known` yield none if the file system does not say which those are.
        """
        at, end = start * 8, (start + words) * 8
        while at < end:
            try:
                first = os.lseek(self._fd, at, os.SEEK_DATA)
            except OSError as error:
                if error.errno != errno.ENXIO and not is_known:  # no such question
                    yield at // 8 - start, words
                return  # nothing more
            if first >= end:
                return
            first = max(at, first)
            last = min(end, os.lseek(self._fd, first, os.SEEK_HOLE))
            yield first // 8 - start, last // 8 - start
            at = last


def counts(arrays: CountArrays) -> dict[int, int]:
    """Return index -> calls, of COUNT; what was never called is left out, and what cannot be."""
    total: dict[int, int] = {}
    for first, view in arrays.views(1):
        for index, calls in enumerate(view.tolist(), first):
            if 0 < calls <= arrays.most_calls:
                total[index] = total.get(index, 0) + calls
    return total


def stats(arrays: CountArrays) -> Stats:
    """Return what STATS has added up, by index.

    The times are ticks, merged over all arrays; min and max are 0 where nothing returned. What
    was never called is left out, and what cannot be.
    """
    width = layout.STATS.size // 8
    merged: dict[int, tuple[int, ...]] = {}
    for first, view in arrays.views(width):
        columns = zip(view[::width].tolist(), view[1::width].tolist(), strict=True)
        for at, words in zip(range(0, len(view), width), columns, strict=True):
            if words != (0, 0) and _can_be(arrays, view[at : at + 7].tolist()):
                calls, returns, errors, total, least, most, own = view[at : at + 7]
                index = first + at // width
                before = merged.get(index)
                if before is not None:
                    calls += before[0]
                    returns += before[1]
                    errors += before[2]
                    total += before[3]
                    least = min(least, before[4]) if least and before[4] else least or before[4]
                    most = max(most, before[5])
                    own += before[6]
                merged[index] = calls, returns, errors, total, least, most, own
    # The agent keeps the minimum plus one, so that 0 can say "none yet".
    return {
        index: (calls, returns, errors, total, max(least - 1, 0), most, own)
        for index, (calls, returns, errors, total, least, most, own) in merged.items()
    }


def _can_be(arrays: CountArrays, cell: list[int]) -> bool:
    """Return whether calls can be as many, and take as long; their times are read one by one."""
    calls, returns, errors, total, least, most, own = cell
    longest = arrays.most_ticks
    return (
        max(calls, returns, errors) <= arrays.most_calls // _TIMED
        and max(least, most) <= longest
        and max(total, own) <= (max(calls, returns) + 1) * longest
    )


def spoiled(arrays: CountArrays, width: int) -> int:
    """Return how many counters cannot be right: those of nobody, and those that others rule out."""
    bad = 0
    for view in arrays.rest(width):
        data = view.tobytes()
        if data.strip(b"\0"):
            bad += len(view) - view.tolist().count(0)
    if width == 1:
        for _, view in arrays.views(width):
            bad += sum(calls > arrays.most_calls for calls in view.tolist())
        return bad
    for _, view in arrays.views(width):
        columns = zip(view[::width].tolist(), view[1::width].tolist(), strict=True)
        for at, words in zip(range(0, len(view), width), columns, strict=True):
            _, returns = words  # a call may have begun in another array
            _, _, errors, total, least, most, own, rest = view[at : at + width]
            is_right = errors <= returns and max(least - 1, 0) <= most <= total and not rest
            is_right &= bool(returns) or not (total or least or own)
            bad += not (is_right and _can_be(arrays, view[at : at + 7].tolist()))
    return bad
