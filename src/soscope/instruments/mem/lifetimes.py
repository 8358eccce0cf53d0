# SPDX-License-Identifier: Apache-2.0
"""The lifetimes of blocks and mappings of a recording, and how many were in use when."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np
import numpy.typing as npt

from soscope.instruments.mem.model import NativeTotals
from soscope.instruments.mem.sampled import Chances
from soscope.model.record import Record, fresh
from soscope.recording.arrays import UNITS, units_of, units_of_chunks
from soscope.recording.clock import Clock
from soscope.recording.reader import RecordingFile
from soscope.recording.sink import Sink
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from soscope.wire.block import ControlBlock


# Blocks that the agent has only counted, by function and size class.

# process (its own pid), thread, api, size class, made, bytes, freed, bytes
CountedRow = list[int]
_COARSE = layout.SIZES_FINE // layout.SIZES_STEP
_WORDS = layout.SIZES.size // 8
_HEAD = layout.SIZES.offset("classes") // 8
_CELL = layout.SIZE_CLASS.size // 8
_EACH_NS = 8  # ns that making a block takes at least
_MOST_BYTES = 1 << 47  # largest block: a process has no more addresses
_MOST_SUM = 1 << 56  # bytes of all blocks: more than a program asks for in its life


def class_sizes(number: int) -> tuple[int, int]:
    """Return the smallest and the largest size (bytes) of a size class.

    >>> from soscope.instruments.mem.lifetimes import class_sizes
    >>> class_sizes(0), class_sizes(1), class_sizes(64)
    ((0, 16), (17, 32), (1025, 2048))
    """
    if number < _COARSE:
        step = layout.SIZES_STEP
        return number * step + bool(number), (number + 1) * step
    most = layout.SIZES_FINE << (number - _COARSE + 1)
    return most // 2 + 1, most


class CountedBlocks:
    """The counts of the threads of all programs, also of programs that have ended.

    If a process executes another program, the blocks that it had in use count as freed. `strange`
    counts frees of unknown blocks, and `untracked` blocks (and their bytes) whose end could not
    be seen. `damaged` counts impossible numbers, which are left out because the program has
    written over them.
    """

    __slots__ = ("_ended", "_lost", "_programs", "_running")

    def __init__(self) -> None:
        self._running: dict[int, tuple[int, ControlBlock]] = {}  # (program number, block)
        self._ended: list[tuple[int, list[CountedRow]]] = []
        self._programs = 0
        self._lost = [0] * 4

    def add(self, block: ControlBlock) -> None:
        """Include a program from now on."""
        self._running[id(block)] = self._programs, block
        self._programs += 1

    def take(self, block: ControlBlock) -> None:
        """Keep the final counts of a program, whose block is closed next."""
        known = self._running.pop(id(block), None)
        if known is not None:
            rows, lost = _read(block)
            self._ended.append((known[0], rows))
            self._lost = _plus(self._lost, lost)

    def said(self) -> dict[str, object]:
        """Return the present counts, for a recording."""
        programs, lost = [*self._ended], self._lost
        for number, block in self._running.values():
            more, others = _read(block)
            programs.append((number, more))
            lost = _plus(lost, others)
        rows: list[CountedRow] = []
        newer: set[int] = set()  # processes that have executed a later program
        for _, of_program in sorted(programs, reverse=True):
            rows += [row[:6] + row[4:6] if row[0] in newer else row for row in of_program]
            newer |= {row[0] for row in of_program}
        strange, untracked, size, damaged = lost
        return {
            "rows": rows,
            "strange": strange,
            "untracked": [untracked, size],
            "damaged": damaged,
        }


def _plus(left: list[int], right: list[int]) -> list[int]:
    return [amount + more for amount, more in zip(left, right, strict=True)]


def _read(block: ControlBlock) -> tuple[list[CountedRow], list[int]]:
    """Return the rows of a program, and [`strange`, `untracked`, its bytes, `damaged`]."""
    rows: list[CountedRow] = []
    lost = [0] * 4
    most = block.bounds.calls(_EACH_NS)
    with block.own(layout.INSTRUMENT_BLOCKS) as own:
        fields = layout.BLOCKS
        if len(own) < fields.size:
            return rows, lost
        first, arrays = fields.struct.unpack_from(block.given(layout.INSTRUMENT_BLOCKS))[10:12]
        used = fields.struct.unpack_from(own)[12]
        for number in range(min(used, arrays) if first else 0):
            start = first + number * layout.SIZES.size
            words = np.frombuffer(own, "<u8", _WORDS, start).copy()
            for at, (head, limit) in enumerate(
                zip(words[1:_HEAD].tolist(), (most, most, _MOST_SUM), strict=True)
            ):
                lost[at if head <= limit else 3] += head if head <= limit else 1
            owner = int(words[0])
            cells = words[_HEAD:].reshape(-1, _CELL)
            for at in np.flatnonzero(cells[:, 0] | cells[:, 2]).tolist():
                api, size_class = divmod(at, layout.SIZES_CLASSES)
                who = [owner & 0xFFFF_FFFF, owner >> 32]
                amounts = cells[at].tolist()
                if _can_be(size_class, amounts, most):
                    rows.append([*who, api, size_class, *amounts])
                else:
                    lost[3] += 1
    return rows, lost


def _can_be(size_class: int, amounts: list[int], most: int) -> bool:
    """Return whether the numbers of a size class are possible by now.

    A block may have been added to the count and not yet to the bytes.
    """
    smallest, largest = class_sizes(size_class)
    return smallest <= _MOST_BYTES and all(
        count <= most and (count - 1) * smallest <= size <= min((count + 1) * largest, _MOST_SUM)
        for count, size in zip(amounts[::2], amounts[1::2], strict=True)
    )


def summed(rows: Iterable[CountedRow]) -> dict[tuple[int, int, int], list[int]]:
    """Return the sums of rows by (process, api, size class), and the thread that made all blocks.

    The thread is 0 if several threads made blocks.
    """
    sums: dict[tuple[int, int, int], list[int]] = {}
    for pid, tid, api, size_class, *amounts in rows:
        row = sums.get((pid, api, size_class))
        if row is None:
            row = sums[pid, api, size_class] = [0, 0, 0, 0, -1]
        for at, amount in enumerate(amounts):
            row[at] += amount
        if amounts[0]:
            row[4] = tid if row[4] in (-1, tid) else 0
    return sums


# The units of a recording that are about blocks and mappings, as columns.

UNIT = np.dtype(
    [("commit", "<u4"), ("stack", "<u4"), ("tsc", "<u8"), ("addr", "<u8"), ("size", "<u8")]
)
_KINDS = layout.UNIT_KEPT - layout.UNIT_BLOCK + 1
_MOST = 1 << 62  # more than any time (tsc) and any size of a block
_TICKS = (1 << layout.BLOCK_TICKS) - 1
_PID, _TID = (layout.CHUNK.offset(name) // 4 for name in ("pid", "tid"))

Units = npt.NDArray[np.void]
Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]
Booleans = npt.NDArray[np.bool_]


class BlockEvents:
    """Units BLOCK … KEPT of a recording. The units of one thread are in its order.

    `units` has the columns `commit`, `stack`, `tsc`, `addr` and `size`. If blocks are sampled,
    the size of a FREED unit is 1 if its thread has made no block in between. `thread` is, for
    each unit, an index into `threads`, which are (program, pid, tid). `kind` is the type of each
    unit.
    """

    __slots__ = ("kind", "thread", "threads", "units")

    def __init__(
        self,
        units: Units,
        thread: npt.NDArray[np.int32],
        threads: list[tuple[int, int, int]],
    ) -> None:
        self.units = units
        self.thread = thread
        self.threads = threads
        self.kind: npt.NDArray[np.uint32] = np.asarray(units["commit"] >> 28, np.uint32)

    def __len__(self) -> int:
        return len(self.units)

    def some(self, which: Booleans | npt.NDArray[np.signedinteger]) -> BlockEvents:
        """Return the events that a mask or an array of indices chooses."""
        return BlockEvents(self.units[which], self.thread[which], self.threads)


def replaced(threads: list[tuple[int, int, int]]) -> list[int]:
    """Return the indices of (program, pid, tid) whose process has executed another program since.

    At the exec, the kernel has released all memory of the earlier program.

    >>> from soscope.instruments.mem.lifetimes import replaced
    >>> replaced([(0, 700, 700), (1, 700, 700), (0, 701, 701)])
    [0]
    """
    newest: dict[int, int] = {}
    for program, pid, _ in threads:
        newest[pid] = max(program, newest.get(pid, 0))
    return [at for at, (program, pid, _) in enumerate(threads) if program < newest[pid]]


class Collector(Sink):
    """Keeps the units that are about blocks and mappings. `count` is how many it has.

    `newest` is the latest time (tsc) of all units. `strange` counts the units that it left out
    because the program has written over them.
    """

    def __init__(self) -> None:
        self.threads: dict[tuple[int, int, int], int] = {}
        self.units: list[Units] = []
        self.thread: list[npt.NDArray[np.int32]] = []
        self.count = self.newest = self.strange = 0

    def take(self) -> BlockEvents:
        """Return all units except for failed calls, and forget them."""
        units = np.concatenate(self.units) if self.units else np.empty(0, UNIT)
        thread = np.concatenate(self.thread) if self.thread else np.empty(0, np.int32)
        self.units.clear()
        self.thread.clear()
        self.count = 0
        return _without_failures(BlockEvents(units, thread, list(self.threads)))

    def give_back(self, events: BlockEvents) -> None:
        """Take units back, in front of all that follow."""
        self.units.insert(0, events.units)
        self.thread.insert(0, events.thread)
        self.count += len(events)

    def _number(self, program: int, pid: int, tid: int) -> int:
        return self.threads.setdefault((program, pid, tid), len(self.threads))

    def chunks(self, program: int, data: bytes | memoryview) -> None:  # noqa: D102  see Sink
        words = np.frombuffer(data, "<u4").reshape(-1, layout.CHUNK_SIZE // 4)
        owners = words[:, [_PID, _TID]].tolist()
        numbers = np.array([self._number(program, pid, tid) for pid, tid in owners], np.int32)
        units = units_of_chunks(data).view(UNIT).reshape(-1)
        self._add(units, np.repeat(numbers, UNITS))

    def chunk(self, program: int, header: bytes, first: int, units: bytes) -> None:  # noqa: D102  see Sink
        del first
        _, tid, pid, _, _, flags = layout.CHUNK.struct.unpack(header)[:6]
        rows = units_of(units).view(UNIT).reshape(-1)
        if flags & layout.CHUNK_RETURNED:
            rows = _ends(rows)
        self._add(rows, np.full(len(rows), self._number(program, pid, tid), np.int32))

    def _add(self, units: Units, thread: npt.NDArray[np.int32]) -> None:
        which = (units["commit"] >> 28) - layout.UNIT_BLOCK < _KINDS
        can_be = (units["tsc"] < _MOST) & (units["size"] < _MOST)
        self.strange += int((which & ~can_be).sum())
        which &= can_be
        self.units.append(units[which])
        self.thread.append(thread[which])
        self.count += len(self.units[-1])
        if len(self.units[-1]):
            self.newest = max(self.newest, int(self.units[-1]["tsc"].max()))


def _ends(units: Units) -> Units:
    """Return a FREED unit for each BLOCK_OVER unit.

    The FREED unit has the time at which the block was freed. The block itself was handed over
    before, as a BLOCK unit.
    """
    over: Units = units[units["commit"] >> 28 == layout.UNIT_BLOCK_OVER].copy()
    over["tsc"] += over["commit"] & _TICKS
    over["commit"] = layout.UNIT_FREED << 28
    over["size"] = 1
    return over


def collect(recording: RecordingFile) -> BlockEvents:
    """Return the units of a recording about blocks and mappings, up to damage in it.

    The units that the program has written over are then counted among the recording's losses.
    """
    collector = Collector()
    for _ in recording.replay(collector):
        pass
    recording.losses.strange = collector.strange
    return collector.take()


def _without_failures(events: BlockEvents) -> BlockEvents:
    """Remove the FREED and UNMAPPED units of calls that have failed, and their KEPT units."""
    failed = np.flatnonzero(events.kind == layout.UNIT_KEPT)
    if not len(failed):
        return events
    keep = np.ones(len(events), np.bool_)
    keep[failed] = False
    order = np.argsort(events.thread, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    for at in failed.tolist():
        addr = events.units["addr"][at]
        for before in range(int(place[at]) - 1, -1, -1):
            other = int(order[before])
            if events.thread[other] != events.thread[at]:
                break
            ends = events.kind[other] in (layout.UNIT_FREED, layout.UNIT_UNMAPPED)
            if ends and events.units["addr"][other] == addr and keep[other]:
                keep[other] = False
                break
    return events.some(keep)


# Mappings: ranges of addresses, which can be unmapped in parts.

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


class _Space(Record):
    """The mappings of one process, as sorted parts that do not overlap."""

    starts: list[int] = fresh(list)
    ends: list[int] = fresh(list)
    of: list[MappedArea] = fresh(list)

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


# Blocks with the times at which they were made and freed, from the events of all processes.
#
# A block belongs to the process that made it. If a forked child frees a block of its parent, that
# is no block of its own, and no event of the parent's.

FOREVER = np.iinfo(np.int64).max
# A processor may read its clock some hundred instructions early. Then the next owner of a block
# seems to have it before another thread has freed it.
EARLY = 2000  # ticks


class MatchedBlocks:
    """All blocks of a recording, in columns, and a count of frees that belong to no block.

    `start` and `end` are times (tsc), with FOREVER as the end of blocks that are alive. `size` is
    in bytes. `stack` is a number in its program, and `thread` an index into the events' threads.
    `temporary` tells whether the thread freed the block before it made another one. If blocks
    were sampled, each one stands for `count` blocks, else for 1.0; `variance` is the variance of
    its bytes. `unseen` counts blocks whose end was not seen, but whose memory was given out
    again. `strange` counts frees of unknown blocks, except in forked children, which free what
    their parent has made.
    """

    def __init__(self, events: BlockEvents, sample_bytes: int | None = None) -> None:
        self._is_sampled = sample_bytes is not None
        processes = _processes(events)
        units, kind = events.units, events.kind
        is_over = kind == layout.UNIT_BLOCK_OVER
        made = np.flatnonzero(is_over | (kind == layout.UNIT_BLOCK))
        self.start: Integers = units["tsc"][made].astype(np.int64)
        self.size: Integers = units["size"][made].astype(np.int64)
        chances = Chances(sample_bytes)
        self.count = chances.count(self.size)
        self.variance = chances.variance(self.size)
        self.stack: npt.NDArray[np.uint32] = units["stack"][made]
        self.thread = events.thread[made]
        self.temporary = is_over[made]
        self.end: Integers = np.full(len(made), FOREVER, np.int64)
        ticks = (units["commit"][made] & _TICKS).astype(np.int64)
        # A thread that records alone reads no clock at the free, which comes before all later
        # events.
        self.end[self.temporary] = (self.start + np.maximum(ticks, 1))[self.temporary]
        self.unseen = self.strange = 0
        rank = np.full(len(events), -1, np.int64)
        rank[made] = np.arange(len(made))
        self._match(events, processes, rank)
        self._find_unseen(units["addr"][made], processes[self.thread])
        self._end_replaced(events)

    def _match(self, events: BlockEvents, processes: Integers, rank: Integers) -> None:
        """Give each BLOCK event its end, the next event about its address."""
        kind = events.kind
        rows = np.flatnonzero((kind == layout.UNIT_BLOCK) | (kind == layout.UNIT_FREED))
        if not len(rows):
            return
        addr = events.units["addr"][rows]
        tsc = events.units["tsc"][rows].astype(np.int64)
        where = processes[events.thread[rows]]
        order = np.lexsort((tsc, addr, where))
        rows, addr, tsc, where = rows[order], addr[order], tsc[order], where[order]
        frees = kind[rows] == layout.UNIT_FREED
        same = np.zeros(len(rows), np.bool_)  # whether the next row is about the same address
        same[:-1] = (addr[1:] == addr[:-1]) & (where[1:] == where[:-1])
        _put_right(rows, tsc, frees, same, events.thread)
        frees = kind[rows] == layout.UNIT_FREED
        ended = np.flatnonzero(~frees[:-1] & same[:-1] & frees[1:])
        self.end[rank[rows[ended]]] = tsc[ended + 1]
        known = np.zeros(len(rows), np.bool_)
        known[ended + 1] = True
        others = _first_processes(events)
        if not self._is_sampled:  # in samples it may free a block that was not chosen
            self.strange = int((frees & ~known & np.isin(where, others)).sum())
        replaced = np.flatnonzero(~frees[:-1] & same[:-1] & ~frees[1:])
        self.end[rank[rows[replaced]]] = tsc[replaced + 1]
        self.unseen = len(replaced)
        self._find_temporary(events, rank, rows[ended], rows[ended + 1])

    def _find_temporary(
        self, events: BlockEvents, rank: Integers, made: Integers, freed: Integers
    ) -> None:
        """Mark the temporary blocks among blocks that have both events, BLOCK and FREED."""
        own = events.thread[made] == events.thread[freed]
        if self._is_sampled:  # the agent has marked those without blocks in between
            own &= events.units["size"][freed] == 1
            self.temporary[rank[made[own]]] = True
            return
        made, freed = made[own], freed[own]
        if not len(made):
            return
        order = np.argsort(events.thread, kind="stable")
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        # The number of blocks before each event, in the order of each thread.
        count = np.cumsum(rank[order] >= 0)
        short = count[place[freed]] == count[place[made]]
        self.temporary[rank[made[short]]] = True

    def _end_replaced(self, events: BlockEvents) -> None:
        """End the blocks of a program when its process executes another one."""
        old = replaced(events.threads)
        which = np.flatnonzero((self.end == FOREVER) & np.isin(self.thread, old))
        if not len(which):
            return
        first = np.full(len(events.threads), FOREVER, np.int64)  # for each thread: its first event
        np.minimum.at(first, events.thread, events.units["tsc"].astype(np.int64))
        begun: dict[int, list[tuple[int, int]]] = {}  # by process: programs, begins
        for (program, pid, _), tsc in zip(events.threads, first.tolist(), strict=True):
            begun.setdefault(pid, []).append((program, tsc))
        ends = np.zeros(len(events.threads), np.int64)
        for at in np.unique(self.thread[which]).tolist():
            program, pid, _ = events.threads[at]
            later = min(tsc for number, tsc in begun[pid] if number > program)
            ends[at] = 0 if later == FOREVER else later  # 0: the later program has no events here
        self.end[which] = np.maximum(self.start[which] + 1, ends[self.thread[which]])

    def _find_unseen(self, addr: npt.NDArray[np.uint64], where: Integers) -> None:
        """End blocks that seem alive, but whose memory was used by a temporary block later."""
        alive = np.flatnonzero(self.end == FOREVER)
        over = np.flatnonzero(self.temporary)
        if not len(alive) or not len(over):
            return
        over = over[np.isin(addr[over], addr[alive])]
        if not len(over):
            return
        rows = np.concatenate((alive, over))
        order = np.lexsort((self.start[rows], addr[rows], where[rows]))
        rows = rows[order]
        here, there = rows[:-1], rows[1:]
        gone = (
            (self.end[here] == FOREVER)
            & (addr[here] == addr[there])
            & (where[here] == where[there])
        )
        self.end[here[gone]] = self.start[there[gone]]
        self.unseen += int(gone.sum())

    def __len__(self) -> int:
        return len(self.start)

    @property
    def bytes(self) -> Numbers:
        """Return the bytes that each recorded block stands for."""
        total: Numbers = self.size * self.count
        return total

    def alive_at(self, tsc: int) -> Integers:
        """Return the blocks that were alive after all events at `tsc`."""
        return np.flatnonzero((self.start <= tsc) & (self.end > tsc))

    def alive(self) -> Integers:
        """Return the blocks that are alive at the end."""
        return np.flatnonzero(self.end == FOREVER)

    def gone(self) -> Integers:
        """Return the blocks that have ended."""
        return np.flatnonzero(self.end != FOREVER)

    def peak(self) -> tuple[int, int, int]:
        """Return (bytes, blocks, tsc) of the moment with most bytes alive.

        If blocks were sampled, bytes and blocks are estimates.
        """
        if not len(self.start):
            return 0, 0, 0
        gone = self.gone()
        times = np.concatenate((self.end[gone], self.start))  # at equal times, ends come first
        order = np.argsort(times, kind="stable")
        sizes = self.bytes if self._is_sampled else self.size
        total = np.cumsum(np.concatenate((-sizes[gone], sizes))[order])
        at = int(np.argmax(total))
        tsc = int(times[order[at]])
        there = np.concatenate((-self.count[gone], self.count))[order[: at + 1]]
        return round(float(total[at])), round(float(there.sum())), tsc


def _processes(events: BlockEvents) -> Integers:
    """Return a number for the process of each thread."""
    numbers: dict[tuple[int, int], int] = {}
    pairs = [(program, pid) for program, pid, _ in events.threads]
    return np.array([numbers.setdefault(pair, len(numbers)) for pair in pairs], np.int64)


def _first_processes(events: BlockEvents) -> list[int]:
    """Return the numbers of the processes that have executed their program themselves.

    Other processes are forked children.
    """
    first: dict[int, int] = {}
    numbers = _processes(events).tolist()
    for (program, _, _), number in zip(events.threads, numbers, strict=True):
        first.setdefault(program, number)
    return list(first.values())


def _put_right(
    rows: Integers,
    tsc: Integers,
    frees: Booleans,
    same: Booleans,
    thread: npt.NDArray[np.int32],
) -> None:
    """Move a free before a slightly earlier block at its address, if that was taken until then."""
    third = np.flatnonzero(~frees[:-2] & ~frees[1:-1] & frees[2:] & same[:-2] & same[1:-1]) + 2
    early = tsc[third] - tsc[third - 1] < EARLY
    other = thread[rows[third]] != thread[rows[third - 1]]
    for at in third[early & other].tolist():
        rows[at - 1], rows[at] = rows[at], rows[at - 1]
        tsc[at - 1], tsc[at] = tsc[at], tsc[at - 1]


# Rates: blocks and bytes that are made and freed in each of a number of equal intervals.

_MOST_RATES = 240  # intervals
_FIRST = 1 << 26  # ticks of the first interval: some hundredths of a second


class Rates:
    """Sums by time. Whenever there are too many intervals, their length doubles.

    >>> import numpy as np
    >>> from soscope.instruments.mem.lifetimes import Rates
    >>> rates = Rates()
    >>> rates.made(np.array([1 << 40, (1 << 40) + (1 << 33)]), np.ones(2), np.array([8.0, 4.0]))
    >>> float(rates.sums[:, 1].sum())
    12.0
    """

    __slots__ = ("_first", "_width", "sums")

    def __init__(self) -> None:
        self._first = 0  # tsc where the first interval begins, 0 if there is none yet
        self._width = _FIRST
        # Blocks made, their bytes, blocks freed, their bytes.
        self.sums: Numbers = np.zeros((0, 4))

    def made(self, tsc: Integers, count: Numbers, size: Numbers) -> None:
        """Add blocks that were made."""
        self._add(0, tsc, count, size)

    def freed(self, tsc: Integers, count: Numbers, size: Numbers) -> None:
        """Add blocks that were freed."""
        self._add(2, tsc, count, size)

    def _add(self, column: int, tsc: Integers, count: Numbers, size: Numbers) -> None:
        if not len(tsc):
            return
        first, last = int(tsc.min()), int(tsc.max())
        if not self._first:
            self._first = first
        end = max(last, self._first + len(self.sums) * self._width)
        while (end - min(first, self._first)) // self._width >= _MOST_RATES - 1:
            self._halve()
        if first < self._first:  # a record has come late
            more = -(-(self._first - first) // self._width)
            self._first -= more * self._width
            self.sums = np.concatenate((np.zeros((more, 4)), self.sums))
        at = (tsc - self._first) // self._width
        most = max(len(self.sums), int(at.max()) + 1)
        self.sums = np.concatenate((self.sums, np.zeros((most - len(self.sums), 4))))
        self.sums[:, column] += np.bincount(at, count, most)
        self.sums[:, column + 1] += np.bincount(at, size, most)

    def _halve(self) -> None:
        """Join neighbouring intervals in pairs."""
        self._width *= 2
        odd = np.zeros((len(self.sums) % 2, 4))
        self.sums = np.concatenate((self.sums, odd)).reshape(-1, 2, 4).sum(1)

    def said(self, clock: Clock) -> list[list[int]]:
        """Return [begin, end (CLOCK_REALTIME ns), made, bytes, freed, bytes] of each interval."""
        rows = []
        for number, sums in enumerate(self.sums.tolist()):
            begin = self._first + number * self._width
            times = clock.time_ns(begin), clock.time_ns(begin + self._width)
            rows.append([*times, *map(round, sums)])
        return rows
