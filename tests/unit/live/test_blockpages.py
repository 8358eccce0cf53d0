# SPDX-License-Identifier: Apache-2.0
"""Bytes of blocks by page, compared with counting each byte."""

from __future__ import annotations

import random

import numpy as np

from soscope.live.heap.memory import BlockPages, ResidentPages

PAGE = 4096
START, END = 16 * PAGE, 400 * PAGE


def made(blocks: list[tuple[int, int]], goes: int = 1) -> BlockPages:
    pages = BlockPages()
    for number in range(goes):
        columns = np.array(blocks[number::goes], np.uint64).reshape(-1, 2)
        pages.add(columns[:, 0], columns[:, 1])
    return pages


def one_by_one(blocks: list[tuple[int, int]]) -> BlockPages:
    pages = BlockPages()
    pages.add_each(blocks)
    return pages


def test_bytes_in_resident_pages_are_counted_once() -> None:
    chance = random.Random(7)
    present = [chance.random() < 0.5 for _ in range(START, END, PAGE)]
    resident = ResidentPages(START, PAGE, bytes(2 * each for each in present))
    blocks, at = [], START
    while at < END - 100 * PAGE:
        size = chance.choice((16, 500, 5000, 90 * PAGE))
        blocks.append((at, size))
        at += size + chance.randrange(9000)
    truth = sum(
        min(start + size, page + PAGE) - max(start, page)
        for start, size in blocks
        for page, is_there in zip(range(START, END, PAGE), present, strict=True)
        if is_there and start < page + PAGE and page < start + size
    )
    assert truth
    for pages in (made(blocks), made(blocks, 3), one_by_one(blocks)):
        assert pages.within(START, END, resident) == truth
        middle = START + 200 * PAGE
        halves = pages.within(START, middle, resident), pages.within(middle, END, resident)
        assert sum(halves) == truth
        assert BlockPages.of_plain(*pages.plain()).within(START, END, resident) == truth


def test_nonsense_does_no_harm() -> None:
    resident = ResidentPages(START, PAGE, b"\2" * ((END - START) // PAGE))
    blocks = [(0, 100), (START, 0), (START, (1 << 64) - 1), (START, 1 << 62), (START, 10)]
    for pages in (made(blocks), one_by_one(blocks)):
        assert pages.within(START, END, resident) >= 10
    assert BlockPages().within(START, END, resident) == 0


def test_the_part_that_blocks_lie_in() -> None:
    chance = random.Random(8)
    large = 100 * PAGE
    blocks = [(chance.randrange(START, END), chance.choice([1, 100, 9000])) for _ in range(30)]
    blocks.append((END + large, large))
    pages = made(blocks)
    for _ in range(200):
        start = chance.randrange(START // PAGE, (END + 3 * large) // PAGE) * PAGE
        end = start + chance.randrange(1, 200) * PAGE
        inside = {
            byte // PAGE * PAGE
            for addr, size in blocks
            for byte in [*range(addr, addr + size, PAGE), addr + size - 1]
            if start <= byte < end
        }
        expected = (min(inside), max(inside) + PAGE) if inside else None
        assert pages.around(start, end) == expected
