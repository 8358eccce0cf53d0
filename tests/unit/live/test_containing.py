# SPDX-License-Identifier: Apache-2.0
"""Which symbol contains an address: three ways to find it, and one definition."""

from __future__ import annotations

import gc
import struct
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.reader import encoding
from soscope.binfmt.elf.symboltable import SymbolArray
from soscope.live.names import containing
from soscope.live.names.containing import GAP, INSIDE, UNSIZED, Hit, SymbolIndex, scan
from tests.support.time.patience import within_cpu

BOUNDS = [(0x100, 0x200), (0x200, 0x240), (0x300, 0x340)]

Row = tuple[int, int, int, int, int]  # value, size, type, binding, section


def table(rows: list[Row], bits: int = 64) -> SymbolArray:
    """Make a table; symbol N is called sN or _N, and the null symbol is N 0."""
    strings, data = bytearray(b"\0"), bytes(24 if bits == 64 else 16)
    for number, (value, size, kind, binding, section) in enumerate(rows, 1):
        name, info = len(strings), binding << 4 | kind
        strings += (b"s%d\0" if number % 2 else b"_%d\0") % number
        if bits == 64:
            data += struct.pack("<IBBHQQ", name, info, 0, section, value, size)
        else:
            data += struct.pack("<IIIBBH", name, value, size & 2**32 - 1, info, 0, section)
    return SymbolArray(encoding(bits, "<"), data, bytes(strings), name="test")


def expected(tables: list[SymbolArray], addr: int) -> Hit:
    """The definition, word by word."""
    segment = [(start, end) for start, end in BOUNDS if start <= addr < end]
    if not segment:
        return GAP, -1, -1, 0
    ((start, end),) = segment
    around, before = [], []
    for number, symbols in enumerate(tables):
        for row in range(1, len(symbols)):
            _, info, _, section, value, size = symbols.row(row)
            kind, binding = info & 15, info >> 4
            if kind in {3, 4, 5, 6} or section in {0, 0xFFF1, 0xFFF2}:
                continue
            if not start <= value <= addr:
                continue
            size = 0 if value + size > end else size
            rank = ({1: 3, 10: 3, 2: 2, 0: 1}.get(binding, 0), kind != 0, row % 2)
            if addr < value + size:
                around.append((value, -size, rank, -number, -row))
            else:
                before.append((value, size, rank, -number, -row))
    if around:
        value, _, _, number, row = max(around)
        return INSIDE, -number, -row, addr - value
    if before:
        value, size, _, number, row = max(before)
        return GAP if size else UNSIZED, -number, -row, addr - value - size
    return GAP, -1, -1, 0


ROW = st.tuples(
    st.integers(0xF8, 0x350) | st.just(2**64 - 8),
    st.integers(0, 48) | st.sampled_from([2**64 - 1, 2**63]),
    st.sampled_from([0, 1, 2, 2, 2, 3, 4, 5, 6, 10]),
    st.sampled_from([0, 1, 1, 2, 10, 13]),
    st.sampled_from([0, 1, 1, 1, 1, 0xFFF1, 0xFFF2, 0xFFFF]),
)


@settings(max_examples=50)
@given(st.lists(st.lists(ROW, max_size=14), min_size=1, max_size=3))
def test_every_way_says_the_same(many: list[list[Row]]) -> None:
    tables = [table(rows) for rows in many]
    addrs = list(range(0xF0, 0x348))
    wanted = [expected(tables, addr) for addr in addrs]
    assert [scan(tables, BOUNDS, addr) for addr in addrs] == wanted
    plain = SymbolIndex(tables, BOUNDS)
    assert [plain.find(addr) for addr in addrs] == wanted
    assert plain.find_all(addrs) == wanted
    for some in (addrs[::7], addrs[3:40:5], addrs[200:]):
        narrow = SymbolIndex(tables, BOUNDS, some)
        assert narrow.find_all(some) == [wanted[addrs.index(addr)] for addr in some]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(containing, "_MANY", -1)
        fast = SymbolIndex(tables, BOUNDS)
    assert [fast.find(addr) for addr in addrs] == wanted
    assert fast.find_all(addrs) == wanted


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("many", [-1, 1000])
def test_addresses_at_the_ends_of_the_world(
    bits: int, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(containing, "_MANY", many)
    top = 1 << bits - 1
    bounds = [(top - 64, top)]
    tables = [table([(top - 32, 16, 2, 1, 1)], bits)]
    index = SymbolIndex(tables, bounds)
    for addr in (0, top - 65, top, (1 << bits) - 1):
        assert scan(tables, bounds, addr) == (GAP, -1, -1, 0)
        assert index.find_all([addr]) == [(GAP, -1, -1, 0)]
        assert SymbolIndex(tables, bounds, [addr]).find_all([addr]) == [(GAP, -1, -1, 0)]
    assert index.find_all([top - 17]) == [(INSIDE, 0, 1, 15)]
    assert SymbolIndex(tables, bounds, [top - 17]).find_all([top - 17]) == [(INSIDE, 0, 1, 15)]


@pytest.mark.parametrize("before", [0, 1])  # which of two alike begins with an underscore
def test_aliases_by_size_binding_and_name(before: int) -> None:
    rows = [(0x120, 8, 2, 1, 1)] * before
    rows += [(0x100, 8, 2, 1, 1)] * 2 + [(0x104, 4, 2, 0, 1), (0x104, 2, 2, 1, 1)]
    rows += [(0x110, 8, 2, 2, 1), (0x110, 8, 2, 1, 1), (0x118, 8, 2, 1, 1), (0x118, 8, 0, 1, 1)]
    for count in (1, 4, 9):
        tables = [table(rows), table(rows * count)]
        addrs = list(range(0xFE, 0x12A))
        wanted = [expected(tables, addr) for addr in addrs]
        assert SymbolIndex(tables, BOUNDS, addrs).find_all(addrs) == wanted
        assert SymbolIndex(tables, BOUNDS).find_all(addrs) == wanted


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Nothing of what other tests have left is collected meanwhile: that takes half a second."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.usefixtures("uncollected")
def test_many_symbols_take_little_time() -> None:
    count = 300_000  # enough for numpy
    rows = b"".join(
        struct.pack("<IBBHQQ", 1, c.STT_FUNC, 0, 1, 0x1000 + 32 * number, 24)
        for number in range(count)
    )
    symbols = SymbolArray(encoding(64, "<"), bytes(24) + rows, b"\0f\0", name="many")
    bounds = [(0, 1 << 40)]
    with within_cpu(2):
        index = SymbolIndex([symbols], bounds)
    addrs = [0x1000 + 911 * number + 7 for number in range(10_000)]
    with within_cpu(0.5):
        hits = index.find_all(addrs)
    for addr, (what, _, row, offset) in zip(addrs, hits, strict=True):
        number, within = divmod(addr - 0x1000, 32)
        assert (what, row, offset) == (
            (INSIDE, number + 1, within) if within < 24 else (GAP, number + 1, within - 24)
        )


def test_one_symbol_around_very_many() -> None:
    inner = [(0x1000 + 8 * number, 4, 2, 0, 1) for number in range(2000)]
    symbols = table([(0x1000, 1 << 20, 2, 1, 1), *inner])
    index = SymbolIndex([symbols], [(0, 1 << 40)])
    assert index.find(0x1000 + 8 * 1999 + 6) == (INSIDE, 0, 1, 8 * 1999 + 6)
    assert index.find(0x1000 + 8 * 1999 + 3) == (INSIDE, 0, 2001, 3)
