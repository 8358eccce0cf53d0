# SPDX-License-Identifier: Apache-2.0
"""Units that no agent can have written are found."""

from __future__ import annotations

import struct

import pytest

from soscope.recording.spoiled import Limits, without
from soscope.wire import layout
from tests.unit.recording.fake import data_units

START, NOW = 1 << 40, (1 << 40) + (1 << 34)
SLOTS, SITES, STACKS = 20, 30, 500
CHUNK = (layout.CHUNK_SIZE - layout.CHUNK_HEADER) // layout.UNIT


def limits(*instruments: int, has_clock: bool = True) -> Limits:
    return Limits(
        instruments,
        slots=SLOTS,
        call_sites=SITES,
        stacks=STACKS,
        first=START,
        now=NOW,
        has_clock=has_clock,
    )


CALLS = limits(layout.INSTRUMENT_TRACE)
BLOCKS = limits(layout.INSTRUMENT_BLOCKS)
REPORTS = limits(layout.INSTRUMENT_PROF)


def unit(kind: int, low: int = 0, half: int = 0, *words: int) -> bytes:
    return struct.pack("<IIQQQ", kind << 28 | low, half, *words)


def entry(kind: int = layout.UNIT_ENTRY, slot: int = 3, tsc: int = START + 5) -> bytes:
    return unit(kind, slot, 0x1000, tsc, 0x4000, 7)


def whole(number: int = 3, start: int = 5, ticks: int = 9) -> bytes:
    return unit(layout.UNIT_WHOLE, number << layout.TICKS_LOW | ticks, 0x1000, start, 1, 2)


def data(length: int, kind: int = layout.DATA_STRING, aux: int = 0) -> bytes:
    return unit(layout.UNIT_DATA, kind << 24 | length, aux, 1, 2, 3)


NOTHING = unit(layout.UNIT_NOTHING, 0, 0, 0, 0, 0)
OVERHEAD = unit(layout.UNIT_OVERHEAD, 0, 0, START + 3, 500, 0)
NEVER_FINISHED = unit(0, 0, 0x1000, 0, 5, 6)
GOOD = [
    (CALLS, entry() + entry(layout.UNIT_EXIT) + whole() + OVERHEAD + NOTHING),
    (CALLS, entry() + data(60) + data(36, layout.DATA_MORE) + data(12, layout.DATA_MORE)),
    (CALLS, whole() + data(0xFFFF, layout.DATA_PACKED, 0xFFFF_FFFF) + data(5) + data(0)),
    # an item that could not be read has more units than it says
    (CALLS, entry() + data(0, aux=layout.DATA_UNREADABLE) + data(0, layout.DATA_MORE)),
    # behind what was never finished anything may stand
    (CALLS, entry() + NEVER_FINISHED + data(60) + data(3) + entry()),
    (CALLS, whole(ticks=layout.NO_TICKS & 0x3FF, start=0xFFFF << 48 | 5)),
    (limits(layout.INSTRUMENT_TRACE, has_clock=False), entry(tsc=0)),
    (BLOCKS, unit(layout.UNIT_BLOCK, 0, 4, START, 0x5000, 64)),
    (BLOCKS, unit(layout.UNIT_BLOCK_OVER, 77, 4, START, 0x5000, 64)),
    (BLOCKS, unit(layout.UNIT_FREED, 0, 0xFFFF_FFFF, START, 0x5000, 1)),
    (REPORTS, unit(layout.UNIT_REPORTED, 1 << 5 | 3, 8, START, 0x5000, 1)),
]
BAD = [
    (CALLS, entry(slot=SLOTS), [0]),
    (CALLS, entry() + entry(tsc=0), [1]),
    (CALLS, entry(tsc=NOW * 2), [0]),
    (CALLS, entry(tsc=5), [0]),
    (CALLS, unit(layout.UNIT_EXIT, 3, 0, START, 0, 1 << 32), [0]),
    (CALLS, whole(SITES), [0]),
    (CALLS, whole(start=1 << 40), [0]),
    (CALLS, data(5), [0]),
    (CALLS, NOTHING + data(5), [1]),
    (CALLS, OVERHEAD + data(5), [1]),
    (CALLS, entry() + data(60) + entry(), [1]),
    (CALLS, entry() + data(60), [1]),
    (CALLS, entry() + data(60) + data(35, layout.DATA_MORE), [2]),
    (CALLS, entry() + data(5, layout.DATA_MORE), [1]),
    (CALLS, entry() + data(5, 9), [1]),
    (CALLS, entry() + data(5, aux=8), [1]),
    (CALLS, unit(layout.UNIT_OVERHEAD, 0, 1, START, 5, 0), [0]),
    (CALLS, unit(layout.UNIT_OVERHEAD, 0, 0, START, 1 << 63, 0), [0]),
    (CALLS, unit(layout.UNIT_BLOCK, 0, 4, START, 0x5000, 64), [0]),
    (BLOCKS, entry(), [0]),
    (BLOCKS, unit(layout.UNIT_BLOCK, 1, 4, START, 0x5000, 64), [0]),
    (BLOCKS, unit(layout.UNIT_MAPPED, 0, STACKS, START, 0x5000, 64), [0]),
    (BLOCKS, unit(layout.UNIT_FREED, 0, 0, START, 1 << 60, 1), [0]),
    (BLOCKS, unit(layout.UNIT_UNMAPPED, 0, 0, START, 0x5000, 1 << 62), [0]),
    (REPORTS, unit(layout.UNIT_REPORTED, 3, 8, 1 << 63, 0x5000, 1), [0]),
    (REPORTS, unit(layout.UNIT_REPORTED, 0xFFF_FFE3, 8, START, 0x5000, 1), [0]),
]


@pytest.mark.parametrize(("known", "units"), GOOD, ids=range(len(GOOD)))
def test_what_an_agent_writes_can_be(known: Limits, units: bytes) -> None:
    assert known.spoiled(units) == []


@pytest.mark.parametrize(("known", "units", "wrong"), BAD, ids=range(len(BAD)))
def test_what_no_agent_writes_is_found(known: Limits, units: bytes, wrong: list[int]) -> None:
    assert known.spoiled(units) == wrong
    left = without(units, wrong)
    assert [left[at * layout.UNIT :][: layout.UNIT] for at in wrong] == [NOTHING] * len(wrong)
    assert len(left) == len(units)


def _chunk(units: bytes) -> bytes:
    return units + bytes(CHUNK * layout.UNIT - len(units))


@pytest.mark.parametrize(("known", "units"), GOOD, ids=range(len(GOOD)))
def test_types_are_looked_at_in_every_chunk(known: Limits, units: bytes) -> None:
    whole = bytes([0xFF]) * layout.CHUNK_HEADER + _chunk(units)
    assert known.have_types(3 * whole)
    other = min(set(range(16)) - known.kinds)
    for bad in (unit(other, 0, 0, 0, 0, 0), data(0, kind=9)):
        worse = whole[: -layout.UNIT] + bad
        assert not known.have_types(whole + worse)
        assert not known.have_types(worse + whole)


def test_data_of_the_agents_kind_can_be() -> None:
    units = b"".join(
        entry() + data_units(layout.DATA_BYTES, 1, bytes(size)) for size in range(0, 100, 7)
    )
    assert CALLS.spoiled(units) == []


HEADER = (5, 100, 100, START + 9, START + 20, 0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *((0, 0), (1, 0), (1, 1 << 23), (2, 0), (2, 1 << 30), (3, 7), (3, NOW * 2)),
        *((4, 0), (4, START), (5, 2), (6, 1), (7, 1), (8, 1), (9, 1)),
    ],
)
def test_headers_that_no_agent_writes(field: int, value: int) -> None:
    header = list(HEADER)
    assert CALLS.can_be_chunk(layout.CHUNK.struct.pack(*header), is_full=True)
    header[field] = value
    assert not CALLS.can_be_chunk(layout.CHUNK.struct.pack(*header), is_full=True)
