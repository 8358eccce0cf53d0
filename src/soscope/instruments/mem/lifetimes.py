# SPDX-License-Identifier: Apache-2.0
"""Blocks with the times at which they were made and freed, from the events of all processes.

A block belongs to the process that made it. If a forked child frees a block of its parent, that
is no block of its own, and no event of the parent's.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from soscope.instruments.mem.events import BlockEvents, replaced
from soscope.instruments.mem.sampled import Chances
from soscope.wire import layout

Integers = npt.NDArray[np.int64]
FOREVER = np.iinfo(np.int64).max
_TICKS = (1 << layout.BLOCK_TICKS) - 1
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

    __slots__ = (
        "_is_sampled",
        "count",
        "end",
        "size",
        "stack",
        "start",
        "strange",
        "temporary",
        "thread",
        "unseen",
        "variance",
    )

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
    def bytes(self) -> npt.NDArray[np.float64]:
        """Return the bytes that each recorded block stands for."""
        total: npt.NDArray[np.float64] = self.size * self.count
        return total

    def alive_at(self, tsc: int) -> npt.NDArray[np.int64]:
        """Return the blocks that were alive after all events at `tsc`."""
        return np.flatnonzero((self.start <= tsc) & (self.end > tsc))

    def alive(self) -> npt.NDArray[np.int64]:
        """Return the blocks that are alive at the end."""
        return np.flatnonzero(self.end == FOREVER)

    def gone(self) -> npt.NDArray[np.int64]:
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
    frees: npt.NDArray[np.bool_],
    same: npt.NDArray[np.bool_],
    thread: npt.NDArray[np.int32],
) -> None:
    """Move a free before a slightly earlier block at its address, if that was taken until then."""
    third = np.flatnonzero(~frees[:-2] & ~frees[1:-1] & frees[2:] & same[:-2] & same[1:-1]) + 2
    early = tsc[third] - tsc[third - 1] < EARLY
    other = thread[rows[third]] != thread[rows[third - 1]]
    for at in third[early & other].tolist():
        rows[at - 1], rows[at] = rows[at], rows[at - 1]
        tsc[at - 1], tsc[at] = tsc[at], tsc[at - 1]
