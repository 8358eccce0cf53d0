# SPDX-License-Identifier: Apache-2.0
"""Objects of this very process, which is a CPython, read as those of another are."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soscope.binfmt.source import BufferSource
from soscope.live.python.objects import ManyObjects, ObjectReader, Words, gather
from soscope.live.python.offsets import layout_of
from soscope.live.python.types import RULES
from soscope.live.python.values import read_bytes, read_str, value_of
from soscope.proc.memory import ProcessMemory

LAYOUT = layout_of(sys.version_info[:2])
PAGE = 4096


@pytest.fixture(scope="module")
def memory() -> Iterator[ProcessMemory]:
    source = ProcessMemory(os.getpid())
    yield source
    source.close()


class Text(str):
    __slots__ = ()


TEXTS = st.text(st.characters() | st.characters(max_codepoint=255), max_size=400)


@given(TEXTS)
def test_texts_and_bytes(memory: ProcessMemory, text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    other = Text(text)
    assert read_str(memory, LAYOUT, id(text)) == text
    assert read_str(memory, LAYOUT, id(other)) == text
    assert read_bytes(memory, LAYOUT, id(data)) == data
    assert read_str(memory, LAYOUT, id(data)) is None
    assert read_bytes(memory, LAYOUT, id(text)) is None


def test_what_is_no_object(memory: ProcessMemory) -> None:
    for addr in (0, 8, 1 << 47, (1 << 64) - 8):
        assert read_str(memory, LAYOUT, addr) is None
        assert read_bytes(memory, LAYOUT, addr) is None
        assert value_of(memory, LAYOUT, addr, "name") == {}


@given(st.dictionaries(TEXTS | st.integers(), st.integers(), max_size=300), st.data())
@settings(max_examples=50)
def test_keys_of_dictionaries(
    memory: ProcessMemory, table: dict[str | int, int], data: st.DataObject
) -> None:
    names = [key for key in table if isinstance(key, str)]
    if names:
        gone = data.draw(st.sampled_from(names))
        del table[gone]
        assert value_of(memory, LAYOUT, id(table), gone) == {}
    truth = {key: id(value) for key, value in table.items() if isinstance(key, str)}
    assert value_of(memory, LAYOUT, id(table), *truth, "never a key \0") == truth


# ---- many at once ----


def test_words_around_a_hole(memory: ProcessMemory) -> None:
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    start = libc.mmap(None, ctypes.c_size_t(8 * PAGE), 3, flags, -1, ctypes.c_size_t(0))
    data = np.ctypeslib.as_array((ctypes.c_uint64 * PAGE).from_address(start))
    data[:] = np.arange(PAGE)
    for page in (2, 5):
        assert libc.munmap(ctypes.c_void_p(start + page * PAGE), ctypes.c_size_t(PAGE)) == 0
    places = [0, 8, 2 * PAGE - 24, 2 * PAGE - 16, 2 * PAGE, 3 * PAGE - 8, 3 * PAGE, 5 * PAGE - 8]
    addresses = np.array([start + place for place in [*places, 6 * PAGE, 4]], np.uint64)
    words, mask = gather(memory, addresses, 3)
    for place, row, known in zip([*places, 6 * PAGE], words, mask, strict=False):
        for column in range(3):
            at = place + 8 * column
            is_there = at // PAGE not in (2, 5)
            assert known[column] == is_there
            assert row[column] == (at // 8 if is_there else 0)
    assert not mask[-1].any()  # not where a word begins
    order = np.random.default_rng(1).permutation(len(addresses))
    again = gather(memory, addresses[order], 3)
    assert (again[0] == words[order]).all()
    assert (again[1] == mask[order]).all()
    for first, count in ((0, 2), (3, 2), (6, 2)):
        libc.munmap(ctypes.c_void_p(start + first * PAGE), ctypes.c_size_t(count * PAGE))


def test_addresses_that_are_none(memory: ProcessMemory) -> None:
    addresses = np.array([0, 8, 1 << 46, 1 << 62, (1 << 64) - 8, (1 << 64) - 1], np.uint64)
    words, mask = gather(memory, addresses, 10)
    assert not words.any()
    assert not mask.any()
    objects = ObjectReader(memory, LAYOUT).look(addresses)
    assert not objects.alive.any()
    assert not objects.types.any()
    assert not objects.sizes.any()
    assert not ObjectReader(memory, LAYOUT).look(addresses[:0]).alive.any()


def headers(*counts: int, kind: int = id(object)) -> tuple[Words, ProcessMemory]:
    """Return what looks like objects with these reference counts, and the memory of it."""
    raw = np.zeros((len(counts), 10), np.uint64)
    raw[:, 0] = counts
    raw[:, 1] = kind
    return raw, ProcessMemory(os.getpid())


def addresses_of(raw: Words) -> Words:
    start = np.uint64(raw.__array_interface__["data"][0])
    return start + np.uint64(80) * np.arange(len(raw), dtype=np.uint64)


@pytest.mark.parametrize("version", [(3, 11), (3, 12), (3, 13), (3, 14)])
def test_the_dead_are_told_from_the_living(version: tuple[int, int]) -> None:
    link = 0x7F12_3456_7890  # of a free list, where the count was
    counts = (0, 1, 5, 0xFFFF_FFFF, 1 << 32, link, (1 << 20) - 1, 1 << 20)
    raw, own = headers(*counts)
    reader = ObjectReader(own, layout_of(version))
    addresses = addresses_of(raw)
    alive = reader.look(addresses).alive.tolist()
    assert alive == [False, True, True, True, False, True, True, True]
    dying = np.ones(len(counts), np.bool_)
    alive = reader.look(addresses, dying).alive.tolist()
    if version < (3, 13):
        assert alive == [False, True, True, True, False, True, True, True]
    else:  # revived: a count that is one
        assert alive == [False, True, True, False, False, False, True, False]
    own.close()


def test_both_forms_of_a_state_in_3_14() -> None:
    own = ProcessMemory(os.getpid())
    layout = layout_of((3, 14))
    for text, kind, is_ascii in (
        ("name", 1, 1),
        ("\xe9t\xe9", 1, 0),
        ("\u0161", 2, 0),
        ("\U0001f600", 4, 0),
    ):
        data = text.encode({1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}[kind])
        bits = kind | 8 | is_ascii << 4
        sizes = []
        for state in (1 | bits << 2, 1 | bits << 16):
            raw = np.zeros(16, np.uint64)
            raw[:5] = 1, id(str), len(text), 0, state
            start = layout.str_ascii_data if is_ascii else layout.str_compact_data
            raw.view(np.uint8)[start : start + len(data)] = list(data)
            addresses = addresses_of(raw[None, :10])
            assert read_str(own, layout, int(addresses[0])) == text
            group = ManyObjects(
                own, layout, addresses, raw[None, :10], *[addresses * np.uint64(0)] * 2
            )
            sizes.append(int(RULES["str"](group)[0]))
        assert sizes == [start + (len(text) + 1) * kind] * 2
    own.close()


def test_types_that_cannot_be_read() -> None:
    for kind in (0, 16, 1 << 46, id(sys), (1 << 64) - 8):
        raw, own = headers(1, 1, kind=kind)
        reader = ObjectReader(own, LAYOUT)
        objects = reader.look(addresses_of(raw))
        assert objects.alive.all()
        assert not objects.types.any()
        assert not objects.sizes.any()
        assert reader.type_names([kind]) == [None]
        own.close()


def test_names_of_types(memory: ProcessMemory) -> None:
    class Outer:
        class Inner:
            pass

    renamed = type("Renamed\u0161", (dict,), {"__module__": 5})
    kinds: list[type] = [int, type, Outer, Outer.Inner, mmap.mmap, st.DataObject]
    names = ObjectReader(memory, LAYOUT).type_names([*map(id, kinds), id(renamed), id(kinds)])
    truth = [(kind.__name__, f"{kind.__module__}.{kind.__qualname__}") for kind in kinds]
    assert names == [*truth, ("Renamed\u0161", "Renamed\u0161"), None]


def test_memory_that_is_cut_off() -> None:
    # nothing but a head: the type lies nowhere
    raw = np.array([1, 0x1000, 3], np.uint64).tobytes()
    objects = ObjectReader(BufferSource(raw, "cut"), LAYOUT).look(np.array([0], np.uint64))
    assert objects.alive.tolist() == [True]
    assert objects.sizes.tolist() == [0]


def test_many_objects_of_few_types(memory: ProcessMemory) -> None:
    kept: list[object] = []
    for number in range(1000, 21_000):
        kept += [[number], {number: 1}, str(number), (number, 2), number + 10**9, float(number)]
    addresses = np.array([*map(id, kept)], np.uint64)
    objects = ObjectReader(memory, LAYOUT).look(addresses)
    assert objects.alive.all()
    assert not objects.shallow.any()
    assert objects.sizes.tolist() == [*map(sys.getsizeof, kept)]
    assert objects.types.tolist() == [id(type(thing)) for thing in kept]
