# SPDX-License-Identifier: Apache-2.0
"""Sums that are made while records come are those of all records taken together."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest

from soscope.instruments.mem import aggregate
from soscope.instruments.mem.aggregate import Aggregate
from soscope.instruments.mem.lifetimes import FOREVER, Collector, Mappings, MatchedBlocks
from soscope.recording.sink import Sink
from soscope.wire import layout

_UNIT = struct.Struct("<IIQQQ")
_STEP = 1000  # ns, and ticks
_LATE = 20_000_000  # ns by which a thread's records may come late


class Kept(Sink):
    data = b""

    def sums(self, data: bytes) -> None:
        self.data = data


class Threads:
    """Threads that make, free, move and map, with the records that they write of it."""

    def __init__(self, seed: int, count: int) -> None:
        self.random = random.Random(seed)
        self.now = 1 << 40
        self.units: list[list[bytes]] = [[] for _ in range(count)]
        self.times: list[list[int]] = [[] for _ in range(count)]
        self.live: list[int] = []
        self.free = [0x5000_0000 + 32 * at for at in range(300)]
        self.mapped: list[int] = []
        self.failing: dict[int, int] = {}  # what is written next of a call that has failed

    def write(self, thread: int, kind: int, addr: int, size: int = 0, low: int = 0) -> None:
        stack = self.random.randrange(1, 5)
        unit = _UNIT.pack(kind << 28 | low, stack, self.now, addr, size)
        self.units[thread].append(unit)
        self.times[thread].append(self.now)

    def step(self) -> None:
        chance, thread = self.random.random(), self.random.randrange(len(self.units))
        self.now += self.random.choice((10, 300, 50_000, 900_000))
        if thread in self.failing:
            addr = self.failing.pop(thread)
            self.write(thread, layout.UNIT_KEPT, addr)
            self.live.append(addr)
        elif chance < 0.45 and self.free:
            addr = self.free.pop(self.random.randrange(len(self.free)))
            self.live.append(addr)
            self.write(thread, layout.UNIT_BLOCK, addr, self.random.randrange(100))
        elif chance < 0.55 and self.free:
            self.write(thread, layout.UNIT_BLOCK_OVER, self.random.choice(self.free), 8, 5)
        elif chance < 0.9 and self.live:
            addr = self.live.pop(self.random.randrange(len(self.live)))
            if self.random.random() < 0.05:  # a realloc that fails
                self.failing[thread] = addr
            else:
                self.free.append(addr)
            self.write(thread, layout.UNIT_FREED, addr)
        elif chance < 0.92:
            self.write(thread, layout.UNIT_FREED, 0x4000_0000 + 16 * self.random.randrange(99))
        elif chance < 0.97:
            addr = 0x7000_0000 + 4096 * self.random.randrange(400)
            self.write(thread, layout.UNIT_MAPPED, addr, 4096 * self.random.randrange(1, 9))
        else:
            addr = 0x7000_0000 + 4096 * self.random.randrange(400)
            self.write(thread, layout.UNIT_UNMAPPED, addr, 4096 * self.random.randrange(1, 9))


def header(thread: int) -> bytes:
    fields = [0] * len(layout.CHUNK.struct.unpack(bytes(layout.CHUNK.size)))
    fields[0], fields[1], fields[2] = 1, 100 + thread, 100
    return layout.CHUNK.struct.pack(*fields)


def hand_over(sink: Sink, threads: Threads, done: list[int], until: list[int]) -> None:
    for thread, units in enumerate(threads.units):
        end = done[thread]
        while end < len(units) and threads.times[thread][end] < until[thread]:
            end += 1
        if end > done[thread]:
            sink.chunk(0, header(thread), 0, b"".join(units[done[thread] : end]))
            done[thread] = end


@pytest.mark.parametrize("many", [60, 1000, 100_000])
@pytest.mark.parametrize("seed", range(3))
def test_sums_are_those_of_all_events(
    monkeypatch: pytest.MonkeyPatch, seed: int, many: int
) -> None:
    monkeypatch.setattr(aggregate, "_MANY", many)
    threads, kept = Threads(seed, 5), Kept()
    summed = Aggregate(kept)
    done = [0] * 5
    for _ in range(60):
        begin = threads.now
        for _ in range(threads.random.randrange(200)):
            threads.step()
        late = [threads.now - threads.random.randrange(_LATE) for _ in range(5)]
        hand_over(summed, threads, done, late)
        summed.clock(begin, begin, begin)  # all from before then is there, or late
        while summed.catch_up():
            pass
        summed.move()
    while threads.failing:
        threads.step()
    hand_over(summed, threads, done, [threads.now + 1] * 5)
    summed.finish()

    whole = Collector()
    hand_over(whole, threads, [0] * 5, [threads.now + 1] * 5)
    events = whole.take()
    blocks = MatchedBlocks(events)
    head, keys, values = aggregate.unpack(kept.data)
    alive = blocks.alive()
    assert len(alive) > 20
    for column, which in (
        (aggregate.LIVE, alive),
        (aggregate.MADE, np.arange(len(blocks))),
        (aggregate.TEMPORARY, np.flatnonzero(blocks.temporary & (blocks.end != FOREVER))),
        (aggregate.PEAK, blocks.alive_at(blocks.peak()[2])),
    ):
        truth: dict[tuple[int, int], list[float]] = {}
        for at in which.tolist():
            _, _, tid = events.threads[int(blocks.thread[at])]
            row = truth.setdefault((tid, int(blocks.stack[at])), [0, 0])
            row[0] += 1
            row[1] += int(blocks.size[at])
        found = {
            (head["threads"][key >> 32][2], key & 0xFFFF_FFFF): row
            for key, row in zip(keys.tolist(), values[:, column : column + 2].tolist(), strict=True)
            if row[0]
        }
        assert found == truth, column
    size, count, _ = blocks.peak()
    assert head["peak"][:2] == [size, count]
    assert (head["strange"], head["unseen"]) == (blocks.strange, blocks.unseen)
    mappings = Mappings(lambda _program, _stack: False)
    mappings.add(events)
    names = ("live", "live_bytes", "allocations", "frees", "peak", "peak_bytes", "temporary")
    assert {name: head["mapped"][name] for name in names} == {
        name: getattr(mappings.totals, name) for name in names
    }
    assert sum(row[2] for row in head["rates"]) == len(blocks)
