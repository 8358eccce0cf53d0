# SPDX-License-Identifier: Apache-2.0
"""What is put back, in which order, and where return addresses are found."""

from __future__ import annotations

import random

from soscope.process.agent.resident import _grouped
from soscope.process.agent.stacks import words_between


def test_words_are_found_by_their_upper_bytes() -> None:
    chance = random.Random(1)
    low, high = 0x7F12_33F0_0000, 0x7F12_3420_0000  # of two different upper halves
    words = [chance.randrange(1 << 64) for _ in range(2000)]
    for at in range(0, 2000, 37):
        words[at] = chance.randrange(low, high)
    words[5], words[6], words[7], words[8] = low, high - 1, high, low - 1
    data = b"".join(word.to_bytes(8, "little") for word in words)
    found = dict(words_between(data, low, high))
    assert found == {8 * at: word for at, word in enumerate(words) if low <= word < high}


def test_words_that_are_not_aligned_are_none() -> None:
    word = 0x7F12_3400_1234
    data = bytes(3) + word.to_bytes(8, "little") + bytes(5)
    assert list(words_between(data, word, word + 1)) == []


def test_changes_of_a_word_go_back_newest_first() -> None:
    changes = [(0x1000, 1, 2, 8), (0x1008, 7, 8, 8), (0x1000, 2, 3, 8)]
    [(start, end, group)] = _grouped(changes)
    assert (start, end) == (0x1000, 0x1010)
    assert [one for one in group if one[0] == 0x1000] == [(0x1000, 2, 3, 8), (0x1000, 1, 2, 8)]


def test_no_group_crosses_a_page() -> None:
    changes = [(0x1FF8, 1, 2, 8), (0x2000, 1, 2, 8), (0x2FFE, 1, 2, 4), (0x8000, 1, 2, 8)]
    spans = [(start, end) for start, end, _ in _grouped(changes)]
    assert spans == [(0x1FF8, 0x2000), (0x2000, 0x2008), (0x2FFE, 0x3002), (0x8000, 0x8008)]
