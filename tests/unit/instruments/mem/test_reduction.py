# SPDX-License-Identifier: Apache-2.0
"""Blocks and mappings of events, compared with a program that is simulated step by step."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from soscope.instruments.mem.lifetimes import (
    FOREVER,
    UNIT,
    BlockEvents,
    Mappings,
    MatchedBlocks,
    _without_failures,
)
from soscope.wire import layout

THREADS = [(0, 100, 100), (0, 100, 101), (0, 200, 200)]
PAGE = 4096


class Simulated:
    """A program that allocates: what it does, what of that is recorded, and what is alive."""

    def __init__(self) -> None:
        self.units: list[tuple[int, ...]] = []
        self.thread: list[int] = []
        self.tsc = 100_000
        self.alive: list[dict[int, tuple[int, int]]] = [{}, {}]  # address -> size, stack
        self.last: dict[int, int | None] = {}  # of a thread: the newest block
        self.peak = self.temporary = self.made = 0

    def note(self, thread: int, kind: int, addr: int, size: int = 0, stack: int = 0) -> None:
        self.tsc += 10_000
        self.units.append((kind << 28, stack, self.tsc, addr, size))
        self.thread.append(thread)

    def space(self, thread: int) -> dict[int, tuple[int, int]]:
        return self.alive[THREADS[thread][1] // 100 - 1]

    def malloc(self, thread: int, size: int) -> None:
        space = self.space(thread)
        addr = next(at for at in range(16, 10_000, 16) if at not in space)
        self.made += 1
        self.note(thread, layout.UNIT_BLOCK, addr, size, self.made)
        space[addr] = size, self.made
        self.last[thread] = self.made
        self.peak = max(self.peak, sum(size for each in self.alive for size, _ in each.values()))

    def free(self, thread: int, which: int, *, fails: bool = False) -> None:
        space = self.space(thread)
        if not space:
            return
        addr = sorted(space)[which % len(space)]
        commit, _, tsc, at, _ = self.units[-1]
        merges = self.thread[-1] == thread and commit == layout.UNIT_BLOCK << 28 and at == addr
        if merges and not fails:
            self.tsc += 10_000
            over = layout.UNIT_BLOCK_OVER << 28 | self.tsc - tsc
            self.units[-1] = (over, *self.units[-1][1:])
        else:
            self.note(thread, layout.UNIT_FREED, addr)
        if fails:
            self.note(thread, layout.UNIT_KEPT, addr)
            return
        self.temporary += space.pop(addr)[1] == self.last.get(thread)

    def events(self) -> BlockEvents:
        units = np.array(self.units, UNIT)
        return _without_failures(BlockEvents(units, np.array(self.thread, np.int32), THREADS))


STEPS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(["malloc", "malloc", "free", "free", "fails"]),
        st.integers(0, 50),
    ),
    max_size=60,
)


@given(STEPS)
def test_blocks_are_those_of_the_program(steps: list[tuple[int, str, int]]) -> None:
    program = Simulated()
    for thread, what, number in steps:
        if what == "malloc":
            program.malloc(thread, number)
        elif program.units:
            program.free(thread, number, fails=what == "fails")
    blocks = MatchedBlocks(program.events())
    alive = {(int(blocks.size[at]), int(blocks.stack[at])) for at in blocks.alive()}
    assert alive == {pair for space in program.alive for pair in space.values()}
    assert len(blocks) == program.made
    assert (blocks.unseen, blocks.strange) == (0, 0)
    assert int(blocks.temporary.sum()) == program.temporary
    size, count, tsc = blocks.peak()
    assert size == program.peak
    there = blocks.alive_at(tsc)
    assert (int(blocks.size[there].sum()), len(there)) == (size, count)


def _events(*rows: tuple[int, int, int, int, int]) -> BlockEvents:
    """Return events of (thread, kind, tsc, address, size)."""
    units = [(kind << 28, 1, tsc, addr, size) for _, kind, tsc, addr, size in rows]
    thread = np.array([row[0] for row in rows], np.int32)
    return BlockEvents(np.array(units, UNIT), thread, THREADS)


def test_a_clock_that_is_read_early_changes_no_owner() -> None:
    blocks = MatchedBlocks(
        _events(
            (0, layout.UNIT_BLOCK, 1000, 64, 5),
            (1, layout.UNIT_BLOCK, 99_990, 64, 6),  # thread 0 had freed it by then
            (0, layout.UNIT_FREED, 100_000, 64, 0),
        )
    )
    assert blocks.size[blocks.alive()].tolist() == [6]
    assert blocks.unseen == 0


def test_a_block_whose_end_was_not_seen_is_gone_when_its_memory_comes_back() -> None:
    block, over, freed = layout.UNIT_BLOCK, layout.UNIT_BLOCK_OVER, layout.UNIT_FREED
    blocks = MatchedBlocks(
        _events(
            (0, block, 1000, 64, 5),
            (0, block, 500_000, 64, 6),
            (0, freed, 900_000, 64, 0),
            (0, block, 1_000_000, 128, 7),
            (0, over, 2_000_000, 128, 8),
            (0, freed, 3_000_000, 256, 0),
        )
    )
    assert (len(blocks.alive()), blocks.unseen, blocks.strange) == (0, 2, 1)
    assert blocks.end[0] == 500_000 < FOREVER


def test_no_events_are_no_blocks() -> None:
    blocks = MatchedBlocks(_events())
    assert (len(blocks), len(blocks.alive()), blocks.peak()) == (0, 0, (0, 0, 0))


SPANS = st.lists(
    st.tuples(
        st.booleans(),
        st.integers(0, 30),
        st.integers(1, 12 * PAGE),
    ),
    max_size=40,
)


@given(SPANS)
def test_each_page_belongs_to_the_last_mapping_of_it(
    spans: list[tuple[bool, int, int]],
) -> None:
    pages: dict[int, int] = {}  # page -> which mapping
    whole: dict[int, tuple[int, int]] = {}  # its pages and bytes
    rows = []
    peak = 0

    def bytes_of(which: int) -> int:
        left = sum(1 for owner in pages.values() if owner == which)
        return whole[which][1] if left == whole[which][0] else left * PAGE

    for number, (is_mapped, first, size) in enumerate(spans):
        count = -(-size // PAGE)
        kind = layout.UNIT_MAPPED if is_mapped else layout.UNIT_UNMAPPED
        rows.append((0, kind, 1000 + number, first * PAGE, size if is_mapped else count * PAGE))
        for page in range(first, first + count):
            pages.pop(page, None)
            if is_mapped:
                pages[page] = number
        if is_mapped:
            whole[number] = count, size
        peak = max(peak, sum(map(bytes_of, set(pages.values()))))
    mappings = Mappings(lambda *_: False)
    mappings.add(_events(*rows))
    alive = set(pages.values())
    assert sorted(each.bytes for each in mappings.alive) == sorted(map(bytes_of, alive))
    totals = mappings.totals
    assert (totals.live, totals.live_bytes) == (len(alive), sum(map(bytes_of, alive)))
    assert totals.allocations == totals.frees + totals.live == len(whole)
    assert totals.peak_bytes == peak == sum(size for _, size in mappings.at_peak)
