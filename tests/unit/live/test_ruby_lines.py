# SPDX-License-Identifier: Apache-2.0
"""Lines of Ruby's instructions, against a table that is looked through."""

from __future__ import annotations

import random
from struct import pack

import pytest

from soscope.binfmt.source import BufferSource
from soscope.live.ruby.frames import RubyLines
from soscope.live.ruby.layout import first_variable

FIRST, IN_BLOCK = 54, 512  # iseq.c: IMMEDIATE_TABLE_SIZE, and bits of a struct succ_dict_block


def index_of(places: set[int], size: int) -> bytes:
    """Make the index as iseq.c's succ_index_table_create does."""
    words = [0] * 6
    rank = 0
    for place in range(FIRST):
        rank += place in places
        words[place // 9] |= rank << 7 * (place % 9)
    made = pack("<6Q", *words)
    for start in range(FIRST, size, IN_BLOCK):
        before, ranks, bits = rank, 0, [0] * 8
        for word in range(8):
            if word:
                ranks |= (rank - before) << 9 * (word - 1)
            for bit in range(64):
                if start + 64 * word + bit in places:
                    bits[word] |= 1 << bit
                    rank += 1
        made += pack("<I4xQ8Q", before, ranks, *bits)
    return made


@pytest.mark.parametrize("entry_size", [8, 12])
@pytest.mark.parametrize("size", [1, 9, 54, 55, 117, 118, 566, 567, 1500])
def test_each_place_has_the_line_of_the_last_entry_up_to_it(size: int, entry_size: int) -> None:
    chosen = random.Random(size)
    places = sorted({0, *chosen.sample(range(size), size // 3)})
    lines = [chosen.randrange(1, 1 << 20) for _ in places]
    entries = b"".join(pack("<i", line).ljust(entry_size, b"\xff") for line in lines)
    index = index_of(set(places), size)
    table = pack("<QQI4xQ", 0, 0, len(places), len(entries))
    read = RubyLines.read(BufferSource(entries + index), table, entry_size, size)
    assert read is not None
    for place in range(size):
        assert read.line(place) == lines[sum(one <= place for one in places) - 1]


def test_a_table_that_cannot_be_read_is_none() -> None:
    table = pack("<QQI4xQ", 0, 0, 5, 60)
    assert RubyLines.read(BufferSource(bytes(60)), table, 12, 40) is None
    assert RubyLines.read(BufferSource(b""), table, 12, 40) is None
    assert RubyLines.read(BufferSource(b""), pack("<QQI4xQ", 0, 0, 0, 0), 12, 40) is not None


def test_the_first_variable_of_a_thread_in_code() -> None:
    guard = bytes.fromhex("64 48 8b 04 25 28000000")
    local = bytes.fromhex("64 4c 8b 2c 25 f0ffffff")
    general = bytes.fromhex("66 48 8d 3d 10000000 66 66 48 e8 00000000")
    by_word = bytes.fromhex("66 48 8d 3d f0ffffff 66 48 ff 15 00000000")
    assert first_variable(guard + b"\x90", 0x1000) is None
    assert first_variable(guard + local + general, 0x1000) == (0, -16)
    assert first_variable(b"\x90" + general + local, 0x1000) == (0x1019, 0)
    assert first_variable(by_word, 0x1000) == (0xFF8, 0)
