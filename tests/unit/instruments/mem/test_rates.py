# SPDX-License-Identifier: Apache-2.0
"""Sums by time keep all that is added, in a few hundred rows, whatever the times are."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from soscope.instruments.mem.lifetimes import Rates

TICKS = st.integers(0, (1 << 62) - 1)


@given(times=st.lists(st.lists(TICKS, min_size=1, max_size=5), min_size=1, max_size=6))
def test_nothing_is_lost(times: list[list[int]]) -> None:
    rates = Rates()
    for number, some in enumerate(times):
        ones = np.ones(len(some))
        (rates.freed if number % 2 else rates.made)(np.array(some, np.int64), ones, 2 * ones)
    made, freed = sum(map(len, times[::2])), sum(map(len, times[1::2]))
    assert rates.sums.sum(0).tolist() == [made, 2 * made, freed, 2 * freed]
    assert len(rates.sums) <= 240
