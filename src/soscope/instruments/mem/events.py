# SPDX-License-Identifier: Apache-2.0
"""The units of a recording that are about blocks and mappings, as columns."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from soscope.recording.arrays import UNITS, units_of, units_of_chunks
from soscope.recording.reader import RecordingFile
from soscope.recording.sink import Sink
from soscope.wire import layout

_UNIT = np.dtype(
    [("commit", "<u4"), ("stack", "<u4"), ("tsc", "<u8"), ("addr", "<u8"), ("size", "<u8")]
)
_KINDS = layout.UNIT_KEPT - layout.UNIT_BLOCK + 1
_MOST = 1 << 62  # more than any time (tsc) and any size of a block
_TICKS = (1 << layout.BLOCK_TICKS) - 1
_PID, _TID = (layout.CHUNK.offset(name) // 4 for name in ("pid", "tid"))

Units = npt.NDArray[np.void]


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

    def some(self, which: npt.NDArray[np.bool_] | npt.NDArray[np.signedinteger]) -> BlockEvents:
        """Return the events that a mask or an array of indices chooses."""
        return BlockEvents(self.units[which], self.thread[which], self.threads)


def replaced(threads: list[tuple[int, int, int]]) -> list[int]:
    """Return the indices of (program, pid, tid) whose process has executed another program since.

    At the exec, the kernel has released all memory of the earlier program.

    >>> from soscope.instruments.mem.events import replaced
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
        units = np.concatenate(self.units) if self.units else np.empty(0, _UNIT)
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
        units = units_of_chunks(data).view(_UNIT).reshape(-1)
        self._add(units, np.repeat(numbers, UNITS))

    def chunk(self, program: int, header: bytes, first: int, units: bytes) -> None:  # noqa: D102  see Sink
        del first
        _, tid, pid, _, _, flags = layout.CHUNK.struct.unpack(header)[:6]
        rows = units_of(units).view(_UNIT).reshape(-1)
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
    """Return FREED units for BLOCK_OVER units that were handed over before, as BLOCK."""
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
