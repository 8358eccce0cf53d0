# SPDX-License-Identifier: Apache-2.0
"""Words that hold their own address, compared with looking at each word."""

from __future__ import annotations

import random
from struct import pack_into, unpack_from

from soscope.live.heap.memory import own_words


def test_each_of_them_is_found() -> None:
    chance = random.Random(5)
    for start, back in ((0x7F12_3456_7FF8, 0), (0x5555_5554_0008, 16), (0x1_0000, 16), (0, 0)):
        data = bytearray(300_000)
        for at in chance.sample(range(0, len(data) - 8, 8), 500):
            pack_into("<Q", data, at, max(0, start + at - back + chance.choice((0, 0, 8, 1 << 16))))
        for at in (0, len(data) - 8, *(-start & 0xFFFF, back - start & 0xFFFF)):
            pack_into("<Q", data, at & -8, max(0, start + (at & -8) - back))
        pack_into("<Q", data, 12345, start + 12345 - back)  # no word
        expected = [
            at
            for at in range(0, len(data) - 7, 8)
            if unpack_from("<Q", data, at)[0] == start + at - back
        ]
        assert list(own_words(data, start, back)) == expected
        assert len(expected) > 200


def test_no_data_has_none() -> None:
    assert not list(own_words(b"", 0x1000))
    assert not list(own_words(bytes(7), 0x1000, 16))
