# SPDX-License-Identifier: Apache-2.0
"""The distribution of durations, in classes whose width is a sixteenth of their size."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from soscope.recording.arrays import Integers

_BITS = 4  # bits behind the highest bit of a duration that are part of its class
_FINE = 1 << _BITS
CLASSES = (64 - _BITS) * _FINE


def classes_of(ns: Integers) -> npt.NDArray[np.int64]:
    """Return the class of each duration, none of which is negative."""
    high = np.frexp(ns.astype(np.float64))[1].astype(np.int64) - 1  # the highest bit
    shift = np.maximum(high - _BITS, 0)
    return np.asarray((shift << _BITS) + (ns >> shift), np.int64)


def class_of(ns: int) -> int:
    """Return the class of a duration, which is not negative."""
    shift = max(ns.bit_length() - 1 - _BITS, 0)
    return (shift << _BITS) + (ns >> shift)


def bounds_of(index: int) -> tuple[int, int]:
    """Return the shortest duration of a class, and the shortest of the next, in ns."""
    shift = max((index >> _BITS) - 1, 0)
    first = index - (shift << _BITS)
    return first << shift, (first + 1) << shift


class Durations:
    """The durations of the calls of one program, by slot."""

    def __init__(self) -> None:
        self._rows: dict[int, npt.NDArray[np.int64]] = {}

    def add(self, slots: Integers, ns: Integers) -> None:
        """Add calls with these durations. Negative durations count as 0."""
        keys, counts = np.unique(
            slots * CLASSES + classes_of(np.maximum(ns, 0)), return_counts=True
        )
        for slot in np.unique(keys // CLASSES).tolist():
            first, last = np.searchsorted(keys, (slot * CLASSES, (slot + 1) * CLASSES))
            row = self._rows.get(slot)
            if row is None:
                row = self._rows[slot] = np.zeros(CLASSES, np.int64)
            row[keys[first:last] - slot * CLASSES] += counts[first:last]

    def rows(self) -> dict[int, dict[int, int]]:
        """Return the number of calls in each class, by slot. Empty classes are left out."""
        return {
            slot: {at: int(row[at]) for at in np.flatnonzero(row).tolist()}
            for slot, row in self._rows.items()
        }
