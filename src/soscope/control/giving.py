# SPDX-License-Identifier: Apache-2.0
"""Descriptors that work in a child of soscope gives to who waits for it (see `shield`)."""

from __future__ import annotations

from _collections_abc import Callable

# while such work is done: the way to who waits for it
givers: list[Callable[[list[int]], object]] = []


def give(descriptors: list[int]) -> None:
    """Have who waits for this work take descriptors, before the work goes on.

    Nothing happens where nobody waits. Raises OSError where soscope is gone.
    """
    if givers:
        givers[-1](descriptors)
