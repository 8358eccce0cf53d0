# SPDX-License-Identifier: Apache-2.0
"""References between the objects of a process, as the agent has reported them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from soscope.wire import headers as layout

Words = NDArray[np.uint64]
Places = NDArray[np.intp]

_BITS = np.uint64(layout.REF_BITS)
_HOLDERS = (layout.REF_HOLDER, layout.REF_FRAME, layout.REF_THREAD, layout.REF_ROOT)


class RefGraph:
    """References as parallel columns, sorted by the object that they lead to.

    `targets` are addresses of objects (u64), and `kinds` are numbers of `wire` (REF_OBJECT, …).
    `holders` are indices into the columns of the holders, `addrs` and `holder_kinds`. The address
    of a root is that of its text. Holders are in the order in which the agent reported them.
    """

    def __init__(self, parts: list[Words]) -> None:
        """Read the references. `parts` are the agent's words, in its order."""
        words = np.concatenate([np.empty(0, np.uint64), *parts])
        kinds = (words & _BITS).astype(np.uint8)
        is_holder = np.isin(kinds, _HOLDERS)
        own = words[is_holder]
        self.holder_kinds: NDArray[np.uint8] = kinds[is_holder]
        is_text = self.holder_kinds == layout.REF_ROOT
        self.addrs: Words = np.where(is_text, own >> np.uint64(3), own & ~_BITS)
        holders = (np.cumsum(is_holder) - 1)[~is_holder].astype(np.int32)
        targets = words[~is_holder] & ~_BITS
        order = np.argsort(targets, kind="stable")
        self.targets: Words = targets[order]
        self.kinds: NDArray[np.uint8] = kinds[~is_holder][order]
        self.holders: NDArray[np.int32] = holders[order]

    def rows_to(self, addrs: Words) -> Places:
        """Return the rows that lead to any of the given objects."""
        first = np.searchsorted(self.targets, addrs, "left")
        counts = np.searchsorted(self.targets, addrs, "right") - first
        starts = np.repeat(first - (np.cumsum(counts) - counts), counts)
        rows: Places = starts + np.arange(len(starts))
        return rows

    def references(self, addrs: Words) -> NDArray[np.int64]:
        """Return how many references to each object are known.

        A reference as a key of a dictionary is not counted if the dictionary also reports it as
        an object.
        """
        first = np.searchsorted(self.targets, addrs, "left")
        last = np.searchsorted(self.targets, addrs, "right")
        counts = np.zeros(len(addrs), np.int64)
        for at, (start, end) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
            kinds, holders = self.kinds[start:end], self.holders[start:end]
            plain = (kinds == layout.REF_OBJECT) | (kinds == layout.REF_TYPE)
            keys = kinds == layout.REF_KEY
            counts[at] = np.count_nonzero(plain)
            if keys.any():
                counts[at] += np.count_nonzero(keys & ~np.isin(holders, holders[plain]))
        return counts
