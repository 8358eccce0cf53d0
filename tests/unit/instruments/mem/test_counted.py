# SPDX-License-Identifier: Apache-2.0
"""Blocks that were counted by size class, in memory that the program may have written over."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from soscope.instruments.mem.lifetimes import CountedBlocks, class_sizes
from soscope.wire import layout
from soscope.wire.block import ControlBlock
from soscope.wire.plan import InstrumentPlan, Plan

GOOD = [5, 100, 3, 60]  # blocks of 17 to 32 bytes that were made, and freed


@pytest.fixture
def block() -> Iterator[ControlBlock]:
    fields = layout.BLOCKS
    values = [*fields.struct.unpack(bytes(fields.size))]
    values[10:13] = fields.size, 1, 1  # one array, which is in use
    own = fields.struct.pack(*values) + bytes(layout.SIZES.size)
    blocks = InstrumentPlan(
        layout.INSTRUMENT_BLOCKS, rules=b"", functions=b"", own=own, own_size=len(own)
    )
    block = ControlBlock.create(Plan(instruments=[blocks], patterns=b"", main_path=""))
    yield block
    block.close()


def put(block: ControlBlock, size_class: int, amounts: list[int]) -> None:
    at = block.own_start(layout.INSTRUMENT_BLOCKS) + layout.BLOCKS.size
    at += layout.SIZES.offset("classes") + size_class * layout.SIZE_CLASS.size
    for offset, amount in enumerate(amounts):
        block.words[at // 8 + offset] = amount


@pytest.mark.parametrize(
    ("size_class", "amounts"),
    [
        (2, [1 << 61, 33, 0, 0]),  # more than there was time for
        (2, [1, 33, 1 << 61, 33]),
        (2, [5, 1 << 40, 0, 0]),  # more bytes than such blocks have
        (2, [5, 6, 0, 0]),  # fewer
        (127, [1, 1 << 62, 0, 0]),  # larger than memory
        (104, [1 << 17, 1 << 63, 0, 0]),  # as many as there may be, and more than any program has
    ],
)
def test_blocks_that_cannot_be_are_left_out_and_counted(
    size_class: int, amounts: list[int], block: ControlBlock
) -> None:
    blocks = CountedBlocks()
    blocks.add(block)
    put(block, 1, GOOD)
    assert class_sizes(1) == (17, 32)
    assert blocks.said() == {
        "rows": [[0, 0, 0, 1, *GOOD]],
        "strange": 0,
        "untracked": [0, 0],
        "damaged": 0,
    }
    put(block, size_class, amounts)
    said = blocks.said()
    assert (said["rows"], said["damaged"]) == ([[0, 0, 0, 1, *GOOD]], 1)
    blocks.take(block)
    assert blocks.said() == said


@pytest.mark.parametrize("at", range(3), ids=["strange", "untracked", "bytes"])
def test_sums_that_cannot_be_are_left_out_and_counted(at: int, block: ControlBlock) -> None:
    start = block.own_start(layout.INSTRUMENT_BLOCKS) + layout.BLOCKS.size
    heads = [3, 5, 7000]
    for number, head in enumerate(heads):
        block.words[start // 8 + 1 + number] = head
    blocks = CountedBlocks()
    blocks.add(block)
    assert blocks.said() == {"rows": [], "strange": 3, "untracked": [5, 7000], "damaged": 0}
    block.words[start // 8 + 1 + at] = (1 << 63) + 5
    heads[at] = 0
    blocks.take(block)
    assert blocks.said() == {
        "rows": [],
        "strange": heads[0],
        "untracked": heads[1:],
        "damaged": 1,
    }
