# SPDX-License-Identifier: Apache-2.0
"""Mappings: ranges of addresses, which can be unmapped in parts."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable

from soscope.instruments.mem.events import BlockEvents
from soscope.instruments.mem.model import NativeTotals
from soscope.wire import layout

_PAGE = 4096


class MappedArea:
    """One mapping. `size` is the number of bytes asked for, and `left` the bytes still mapped.

    `whole` are the bytes of all its pages when it was made, at the time `tsc`.
    """

    __slots__ = ("left", "size", "stack", "thread", "tsc", "whole")

    def __init__(self, size: int, whole: int, stack: int, thread: int, tsc: int) -> None:
        self.size = size
        self.whole = self.left = whole
        self.stack = stack
        self.thread = thread
        self.tsc = tsc

    @property
    def bytes(self) -> int:
        """Return the bytes still mapped, of the bytes that were asked for."""
        return self.size if self.left == self.whole else self.left


class _Space:
    """The mappings of one process, as sorted parts that do not overlap."""

    __slots__ = ("ends", "of", "starts")

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.of: list[MappedArea] = []

    def cut(self, start: int, end: int) -> list[MappedArea]:
        """Remove [start, end). Return the mappings that had a part of it."""
        first = bisect_right(self.ends, start)
        last = bisect_left(self.starts, end)
        touched = self.of[first:last]
        rest: list[tuple[int, int, MappedArea]] = []
        for at in range(first, last):
            low, high, mapping = self.starts[at], self.ends[at], self.of[at]
            mapping.left -= min(high, end) - max(low, start)
            if low < start:
                rest.append((low, start, mapping))
            if high > end:
                rest.append((end, high, mapping))
        self.starts[first:last] = [low for low, _, _ in rest]
        self.ends[first:last] = [high for _, high, _ in rest]
        self.of[first:last] = [mapping for _, _, mapping in rest]
        return touched

    def add(self, start: int, end: int, mapping: MappedArea) -> None:
        """Add a mapping to a range without mappings."""
        at = bisect_left(self.starts, start)
        self.starts.insert(at, start)
        self.ends.insert(at, end)
        self.of.insert(at, mapping)


class Mappings:
    """The mappings of all processes. `alive` are the mappings that are left.

    `peak_tsc` is the time when most bytes were mapped. `at_peak` are pairs of a mapping and its
    bytes at that time. `temporary` has counts and bytes by (thread, stack).
    """

    __slots__ = (
        "_bytes",
        "_count",
        "_is_heap",
        "_last",
        "_most",
        "_newest",
        "_spaces",
        "alive",
        "at_peak",
        "peak_tsc",
        "temporary",
        "totals",
    )

    def __init__(self, is_heap: Callable[[int, int], bool]) -> None:
        """Begin without mappings. `is_heap` tells whether a (program, stack) called brk or sbrk.

        Such calls count in bytes, not in pages.
        """
        self.totals = NativeTotals()
        self.alive: dict[MappedArea, None] = {}
        self.at_peak: list[tuple[MappedArea, int]] = []
        self.temporary: dict[tuple[int, int], list[int]] = {}
        self.peak_tsc = 0
        self._is_heap = is_heap
        self._bytes = self._count = self._most = 0
        self._spaces: dict[tuple[int, int], _Space] = {}
        self._newest: dict[int, tuple[int, _Space]] = {}  # for each process: its last program
        self._last: dict[int, MappedArea] = {}  # for each thread: its last mapping

    def add(self, events: BlockEvents) -> None:
        """Continue with events, all of which are later than the events before."""
        chosen = events.some(
            (events.kind == layout.UNIT_MAPPED) | (events.kind == layout.UNIT_UNMAPPED)
        )
        last = self._last
        order = chosen.units["tsc"].argsort(kind="stable")
        for at in order.tolist():
            _, stack, tsc, addr, size = (int(word) for word in chosen.units[at])
            thread = int(chosen.thread[at])
            program, pid, _ = chosen.threads[thread]
            space = self._space(program, pid, thread)
            is_mapped = int(chosen.kind[at]) == layout.UNIT_MAPPED
            if is_mapped:
                end = addr + size
                if not self._is_heap(program, stack):
                    end += -end % _PAGE
                self._cut(space, addr, end, thread, last)
                mapping = MappedArea(size, end - addr, stack, thread, tsc)
                last[thread] = mapping
                space.add(addr, end, mapping)
                self.alive[mapping] = None
                self._bytes += size
                self._count += 1
                self.totals.allocations += 1
                self.totals.allocated_bytes += size
                if self._bytes > self._most:
                    self.peak_tsc = tsc
            else:
                self._cut(space, addr, addr + size, thread, last)
        if self._bytes > self._most:
            self._keep_peak()
        self.totals.temporary = sum(count for count, _ in self.temporary.values())
        self.totals.live = len(self.alive)
        self.totals.live_bytes = self._bytes

    def _space(self, program: int, pid: int, thread: int) -> _Space:
        """Return the mappings of a process. After an exec, its old mappings end."""
        space = self._spaces.get((program, pid))
        if space is None:
            space = self._spaces[program, pid] = _Space()
            number, before = self._newest.get(pid, (program, space))
            if number < program and before.ends:
                self._cut(before, before.starts[0], before.ends[-1], thread, {})
            if number <= program:
                self._newest[pid] = program, space
        return space

    def _keep_peak(self) -> None:
        self._most = self.totals.peak_bytes = self._bytes
        self.totals.peak = self._count
        self.at_peak = [(mapping, mapping.bytes) for mapping in self.alive]

    def _cut(
        self, space: _Space, start: int, end: int, thread: int, last: dict[int, MappedArea]
    ) -> None:
        """Unmap a range. A mapping ends when no part of it is left."""
        first = bisect_right(space.ends, start)
        until = bisect_left(space.starts, end)
        if first < until and self._bytes > self._most:
            self._keep_peak()  # the peak lies before a decrease
        before = sum(mapping.bytes for mapping in {*space.of[first:until]})
        touched = {*space.cut(start, end)}
        self._bytes += sum(mapping.bytes for mapping in touched) - before
        for mapping in touched:
            if not mapping.left and mapping in self.alive:
                del self.alive[mapping]
                self._count -= 1
                self.totals.frees += 1
                if last.get(thread) is mapping:
                    amount = self.temporary.setdefault((mapping.thread, mapping.stack), [0, 0])
                    amount[0] += 1
                    amount[1] += mapping.size
