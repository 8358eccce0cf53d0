# SPDX-License-Identifier: Apache-2.0
"""Which objects of a process refer to which, as the agent has told it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from soscope.wire import objectlayout as layout

Words = NDArray[np.uint64]
Places = NDArray[np.intp]

_BITS = np.uint64(layout.REF_BITS)
_HOLDERS = (layout.REF_HOLDER, layout.REF_FRAME, layout.REF_THREAD, layout.REF_ROOT)


class RefGraph:
    """References, sorted by the object that they lead to, as parallel columns.

    `targets` are addresses of objects (u64), `kinds` words of `wire` (REF_OBJECT, …), and
    `holders` places in the columns of those who hold: `addrs` (of a root, its text's) and
    `holder_kinds`. Holders are in the order in which they were told.
    """

    def __init__(self, parts: list[Words]) -> None:
        """`parts` are the agent's words, in its order."""
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
        """Return the rows that lead to any of some objects."""
        first = np.searchsorted(self.targets, addrs, "left")
        counts = np.searchsorted(self.targets, addrs, "right") - first
        starts = np.repeat(first - (np.cumsum(counts) - counts), counts)
        rows: Places = starts + np.arange(len(starts))
        return rows

    def references(self, addrs: Words) -> NDArray[np.int64]:
        """Return how many references to each object are known.

        A key of a dictionary counts only where that does not say so as of any object.
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
