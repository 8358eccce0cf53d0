# SPDX-License-Identifier: Apache-2.0
"""Ranges that may lie upon one another, against looking at each of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from soscope.binfmt.search import Spans

RANGES = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=12)


@given(RANGES)
def test_the_first_range_that_holds_an_address_is_found(ranges: list[tuple[int, int]]) -> None:
    spans = Spans(ranges)
    for vaddr in range(-1, 42):
        holding = [at for at, (start, end) in enumerate(ranges) if start <= vaddr < end]
        assert spans.at(vaddr) == (holding[0] if holding else None)
