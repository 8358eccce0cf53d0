# SPDX-License-Identifier: Apache-2.0
"""What was kept of a call, out of units in the usual order and in any other."""

from __future__ import annotations

import random
import struct

import pytest

from soscope.recording import units as captures
from soscope.wire import layout
from tests.unit.recording.fake import data_units

LENGTHS = (0, 4, 8, 16, 24, 25, 40, 100, 300)


def unit(chance: random.Random) -> bytes:
    """Return a unit as damage could leave it."""
    kind, item = chance.randrange(9), chance.choice((0, 1, 1, 2, 4, 255))
    commit = layout.UNIT_DATA << 28 | kind << 24 | item << 16 | chance.choice(LENGTHS)
    return struct.pack("<II", commit, chance.choice((0, 1, 4))) + chance.randbytes(24)


@pytest.mark.parametrize("seed", range(4))
def test_no_order_of_units_is_read_otherwise(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(3000):
        units = b"".join(unit(chance) for _ in range(chance.randrange(1, 7)))
        first = chance.choice(((), (5,)))
        one_way, other = captures.captured(first, units), captures._scattered(first, units)
        assert repr(one_way) == repr(other)  # a NaN equals nothing


def test_all_kinds_in_the_usual_order() -> None:
    text = b"longer than one unit, and therefore in two of them"
    units = b"".join(
        [
            data_units(layout.DATA_WORDS, 1, struct.pack("<5Q", *range(2, 7))),
            data_units(layout.DATA_STACK, 0, struct.pack("<2Q", 7, 8)),
            data_units(layout.DATA_FLOATS, 0, struct.pack("<2d", 1.5, -0.0)),
            data_units(layout.DATA_STRING, 1, text),
            data_units(layout.DATA_BYTES, 255, b""),
        ]
    )
    kept = captures.captured((1,), units)
    assert (kept.words, kept.stack, kept.floats) == ((1, 2, 3, 4, 5, 6), (7, 8), (1.5, -0.0))
    assert kept.data == {
        1: (layout.DATA_STRING, 0, text),
        255: (layout.DATA_BYTES, 0, b""),
    }
