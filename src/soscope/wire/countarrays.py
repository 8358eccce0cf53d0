# SPDX-License-Identifier: Apache-2.0
"""The sums of COUNT and STATS: an array for each thread, and one that other threads share.

An array has a cell for each slot. If calls are counted by call site, the array also has a cell
for each call site, behind the cells of the slots. The cell of call site number n has the index
MAX_SLOTS + n. A call that is counted in the cell of its call site is not counted in the cell of
its slot.
"""

from __future__ import annotations

import errno
import os

from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from soscope.model.call import Stats
    from soscope.wire.plan import Plan


_TIMED = 8  # a call takes at least so many times as long to time as to count


def by_call_site(plan: Plan) -> bool:
    """Return whether an instrument of the plan counts calls by call site."""
    return any(instrument.flags & layout.PLAN_CALLERS for instrument in plan.instruments)


def size_of(plan: Plan) -> int:
    """Return the size of one array in bytes."""
    kinds = [instrument.instrument for instrument in plan.instruments]
    cells = layout.MAX_SLOTS + (layout.MAX_CALL_SITES if by_call_site(plan) else 0)
    return cells * (layout.STATS.size if layout.INSTRUMENT_STATS in kinds else 8)


class CountArrays:
    """The arrays of a control block whose file is `fd` and whose memory is `words`.

    They begin at `offset` and have `size` bytes. There are `arrays` of them, and the first `used`
    are in use. `slots` and `call_sites` are the numbers of slots and call sites. By now there can
    have been at most `most_calls` calls, each of at most `most_ticks`.
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
        """Yield (index of the first cell, view) for each written part of the arrays in use.

        A view consists of u64, `width` in each cell.
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
        """Yield the written parts outside the cells in use. Nothing should have written there."""
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
        """Yield (start, end) of the written parts among the `words` words from `start` on.

        The parts consist of whole pages. Reading the other pages would allocate them, and there
        may be hundreds of arrays. If the file system cannot tell which pages were written, yield
        all words, or with `is_known` nothing.
        """
        at, end = start * 8, (start + words) * 8
        while at < end:
            try:
                first = os.lseek(self._fd, at, os.SEEK_DATA)
            except OSError as error:
                if error.errno != errno.ENXIO and not is_known:  # no SEEK_DATA here
                    yield at // 8 - start, words
                return  # no further written page
            if first >= end:
                return
            first = max(at, first)
            last = min(end, os.lseek(self._fd, first, os.SEEK_HOLE))
            yield first // 8 - start, last // 8 - start
            at = last


def counts(arrays: CountArrays) -> dict[int, int]:
    """Return {index: number of calls} of COUNT, without zero and impossible counts."""
    total: dict[int, int] = {}
    for first, view in arrays.views(1):
        for index, calls in enumerate(view.tolist(), first):
            if 0 < calls <= arrays.most_calls:
                total[index] = total.get(index, 0) + calls
    return total


def stats(arrays: CountArrays) -> Stats:
    """Return the sums of STATS, by index.

    The times are ticks, merged over all arrays. The minimum and the maximum are 0 if no call has
    returned. Cells without calls and impossible cells are left out.
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
    # The agent stores the minimum plus one, and 0 while there is none.
    return {
        index: (calls, returns, errors, total, max(least - 1, 0), most, own)
        for index, (calls, returns, errors, total, least, most, own) in merged.items()
    }


def _can_be(arrays: CountArrays, cell: list[int]) -> bool:
    """Return whether a cell's counts and times are possible.

    The words of a cell are not read at the same moment, so the sums may differ by one call.
    """
    calls, returns, errors, total, least, most, own = cell
    longest = arrays.most_ticks
    return (
        max(calls, returns, errors) <= arrays.most_calls // _TIMED
        and max(least, most) <= longest
        and max(total, own) <= (max(calls, returns) + 1) * longest
    )


def spoiled(arrays: CountArrays, width: int) -> int:
    """Return the number of counters that cannot be right.

    These are counters outside the cells in use that are not 0, and counters that contradict
    others.
    """
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
            _, returns = words  # the call itself may be in another array
            _, _, errors, total, least, most, own, rest = view[at : at + width]
            is_right = errors <= returns and max(least - 1, 0) <= most <= total and not rest
            is_right &= bool(returns) or not (total or least or own)
            bad += not (is_right and _can_be(arrays, view[at : at + 7].tolist()))
    return bad
