# SPDX-License-Identifier: Apache-2.0
"""Durations by classes: each is in one, and none is wider than a sixteenth of what is in it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from soscope.recording.reduce import CLASSES, Durations, bounds_of, classes_of


@given(st.lists(st.integers(0, 1 << 52), min_size=1))
def test_a_duration_lies_within_its_class(durations: list[int]) -> None:
    for ns, index in zip(
        durations, classes_of(np.array(durations, np.int64)).tolist(), strict=True
    ):
        first, following = bounds_of(index)
        assert first <= ns < following
        assert following - first <= max(ns / 16, 1)
        assert 0 <= index < CLASSES


def test_classes_follow_each_other() -> None:
    bounds = [bounds_of(index) for index in range(CLASSES)]
    assert bounds[0] == (0, 1)
    assert [last for _, last in bounds[:-1]] == [first for first, _ in bounds[1:]]
    assert bounds[-1][1] == 1 << 63


def test_calls_are_counted_by_slot_and_class() -> None:
    durations = Durations()
    durations.add(np.array([3, 3, 7, 3]), np.array([5, 5, 100, -1]))
    durations.add(np.array([7]), np.array([101]))
    assert durations.rows() == {3: {0: 1, 5: 2}, 7: {57: 2}}
