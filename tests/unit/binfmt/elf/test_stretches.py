# SPDX-License-Identifier: Apache-2.0
"""Stretches of numbers, against sets of numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from soscope.binfmt.elf.sections import Stretches

PAIRS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 12)).map(lambda one: (one[0], sum(one)))
)


@given(PAIRS)
def test_what_is_new(pairs: list[tuple[int, int]]) -> None:
    have: set[int] = set()
    stretches = Stretches()
    for start, end in pairs:
        fresh = stretches.add(start, end)
        assert all(first < last for first, last in fresh)
        numbers = [number for first, last in fresh for number in range(first, last)]
        assert numbers == sorted(set(range(start, end)) - have)
        have |= set(range(start, end))
