# SPDX-License-Identifier: Apache-2.0
"""Files of gprof and LD_PROFILE: of all widths and byte orders, whole, cut off and damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from soscope.binfmt.profiles import is_ldprofile, read_gmon, read_ldprofile, version_of
from soscope.binfmt.source import BufferSource
from soscope.errors import FormatError
from tests.support.files import damage, gmonmade

KINDS = [(bits, order) for bits in (64, 32) for order in "<>"]
ARCS = [(0x1010, 0x1124, 7), (0x1020, 0x1124, 0xFFFFFFFF), (0x1020, 0x1124, 1)]


def classic(bits: int, order: str) -> bytes:
    """Return a file with two histograms, three arcs, two of them the same, and two blocks."""
    first = gmonmade.histogram(0x1000, 0x1010, [0, 5, 0, 65535], bits=bits, order=order)
    second = gmonmade.histogram(
        0x2000, 0x2006, [1, 0, 0], bits=bits, order=order, rate=1000, dimension=b"usec", letter=b"u"
    )
    return (
        gmonmade.header(1, order)
        + b"\0"
        + first
        + gmonmade.arcs(ARCS, bits=bits, order=order)
        + b"\0"
        + second
        + gmonmade.blocks([(0x1000, 3), (0x1008, 4)], bits=bits, order=order)
    )


@pytest.mark.parametrize(("bits", "order"), KINDS)
@pytest.mark.parametrize("is_told", [True, False])
def test_gmon(bits: int, order: str, *, is_told: bool) -> None:
    found = read_gmon(BufferSource(classic(bits, order)), bits if is_told else None)
    assert (found.bits, found.order) == (bits, order)
    assert found.arcs == {(0x1010, 0x1124): 7, (0x1020, 0x1124): 1 << 32}
    assert found.blocks == 2
    first, second = found.histograms
    assert (first.low, first.high, first.bins, first.rate) == (0x1000, 0x1010, 4, 100)
    assert (first.dimension, first.abbreviation) == ("seconds", "s")
    assert first.ticks == {1: 5, 3: 65535}
    assert [first.bin(number) for number in range(4)] == [
        (0x1000, 0x1004),
        (0x1004, 0x1008),
        (0x1008, 0x100C),
        (0x100C, 0x1010),
    ]
    assert (second.dimension, second.rate, second.ticks) == ("usec", 1000, {0: 1})


def test_a_gmon_without_records() -> None:
    found = read_gmon(BufferSource(gmonmade.header(1)))
    assert (found.arcs, found.histograms, found.blocks) == ({}, [], 0)


@pytest.mark.parametrize(("bits", "order"), KINDS)
def test_ldprofile(bits: int, order: str) -> None:
    several = [(0, 0x120, 5), (0x130, 0x140, 0xFFFFFFFF)]
    data = gmonmade.ldprofile(
        0x1000, 0x1000, several, ticks={0x123 // 4: 9}, bits=bits, order=order
    )
    source = BufferSource(data)
    assert is_ldprofile(source)
    found = read_ldprofile(source)
    assert (found.bits, found.low, found.high, found.lost) == (bits, 0x1000, 0x2000, 0)
    assert found.arcs == several
    assert found.histogram.ticks == {0x48: 9}


def test_arcs_without_room_are_lost() -> None:
    several = [(0, at * 32, 1) for at in range(gmonmade.room(0x1000))]
    data = gmonmade.ldprofile(0, 0x1000, several, used=len(several) + 3)
    found = read_ldprofile(BufferSource(data))
    assert (len(found.arcs), found.lost) == (122, 3)


GMON = classic(64, "<")
LDPROFILE = gmonmade.ldprofile(0x1000, 0x1000, [(0, 0x120, 5), (0x130, 0x140, 6)])
HISTOGRAM = gmonmade.histogram(0, 8, [0, 0])


def _put(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


@pytest.mark.parametrize(
    ("data", "field", "offset"),
    [
        (b"", "magic", 0),
        (b"gmon", "header", 0),
        (b"sosr" + bytes(16), "magic", 0),
        (gmonmade.header(9), "version", 4),
        (gmonmade.header(1) + b"\7", "tag", 20),
        (gmonmade.header(1) + b"\1" + bytes(19), "arc", 21),
        (gmonmade.header(1) + b"\0" + HISTOGRAM[:30], "histogram header", 21),
        (gmonmade.header(1) + b"\0" + HISTOGRAM[:-1], "hist_size", 37),
        (gmonmade.header(1) + b"\0" + _put(HISTOGRAM, 16, b"\xff" * 4), "hist_size", 37),
        (gmonmade.header(1) + b"\0" + _put(HISTOGRAM, 8, bytes(8)), "high_pc", 29),
        (gmonmade.header(1) + b"\0" + _put(HISTOGRAM, 24, b"\1"), "dimen", 45),
        (gmonmade.header(1) + b"\2\1\0", "blocks", 21),
        (gmonmade.header(1) + b"\2\xff\xff\xff\xff", "blocks", 21),
    ],
)
def test_a_damaged_gmon(data: bytes, field: str, offset: int) -> None:
    with pytest.raises(FormatError, match=f" at offset {offset:#x}: ") as error:
        read_gmon(BufferSource(data))
    assert (error.value.field, error.value.offset) == (field, offset)


BINS = 0x40
TABLE = BINS + 2 * 0x400


@pytest.mark.parametrize(
    ("data", "field", "offset"),
    [
        (gmonmade.header(1), "version", 4),
        (LDPROFILE[:22], "tag", 20),
        (_put(LDPROFILE, 20, b"\1"), "tag", 20),
        (_put(LDPROFILE, 0x30, b"minutes"), "dimen", 24),
        (_put(LDPROFILE, 0x28, b"\0\3"), "hist_size", 0x28),
        (_put(LDPROFILE, 0x20, bytes(8)), "high_pc", 0x20),
        (LDPROFILE[: TABLE - 9], "hist_size", 0x28),
        (_put(LDPROFILE, TABLE, b"\2"), "tag", TABLE),
        (LDPROFILE[: TABLE + 6], "arcs", TABLE + 4),
        (LDPROFILE[: TABLE + 20], "arcs", TABLE + 8),
        (_put(LDPROFILE, TABLE + 8, b"\0\x10"), "from_pc", TABLE + 8),
        (_put(LDPROFILE, TABLE + 8 + 28, b"\0\x10"), "self_pc", TABLE + 8 + 20),
    ],
)
def test_a_damaged_ldprofile(data: bytes, field: str, offset: int) -> None:
    with pytest.raises(FormatError, match=f" at offset {offset:#x}: ") as error:
        read_ldprofile(BufferSource(data))
    assert (error.value.field, error.value.offset) == (field, offset)


def test_the_version_is_in_either_byte_order() -> None:
    assert version_of(BufferSource(gmonmade.header(0x1FFFF, ">"))) == (0x1FFFF, ">")
    assert version_of(BufferSource(gmonmade.header(1, "<"))) == (1, "<")


def test_damaged_copies(tmp_path: Path) -> None:
    files = []
    for bits, order in KINDS:
        name = f"{bits}{'le' if order == '<' else 'be'}"
        (tmp_path / f"{name}.gmon").write_bytes(classic(bits, order))
        (tmp_path / f"{name}.ld").write_bytes(
            gmonmade.ldprofile(0x1000, 0x1000, [(0, 0x120, 5)], bits=bits, order=order)
        )
        files += [tmp_path / f"{name}.gmon", tmp_path / f"{name}.ld"]
    said = damage.check("tests.support.truth.readers:gmon", files, 400)
    assert said["error"] > 100
    assert said.total() == 400
