# SPDX-License-Identifier: Apache-2.0
"""The events of one thread in one window, with all that is found out about them."""

from __future__ import annotations

import numpy as np

from soscope.recording.arrays import Booleans, SlotArrays, Words
from soscope.recording.gather import Run
from soscope.recording.matching import Matching
from soscope.recording.pairing import OpenCall
from soscope.wire import layout


class Matched:
    """The events of one thread in one window, and what became of them.

    `tail` marks entries that were tail-called (None: none was). `moved` are exits of calls that
    other threads of the process had open. Of calls, `payload` is (number of the entry's unit in the
    file, where it returns to).
    """

    def __init__(self, run: Run, slots: SlotArrays) -> None:
        self.run = run
        self.slots = slots
        self.matching = Matching()
        self.moved: list[tuple[int, OpenCall]] = []
        self.tail: Booleans | None = None
        low, high = slots.sites
        if high:
            entries = run.events.kind() != layout.UNIT_EXIT
            first = run.events.first(slice(None))
            tail = (first - np.uint64(low)) < np.uint64(high - low)
            tail &= entries
            self.tail = tail if tail.any() else None

    def return_addrs(self) -> Words:
        """Return where each entry returns to, 0 where that is not known."""
        addrs = np.asarray(self.run.events.first(slice(None)))
        if self.tail is not None:
            addrs = np.where(self.tail, np.uint64(0), addrs)
            for event, caller in sorted(self.matching.before.items()):  # a caller stands in front
                addrs[event] = caller.payload[1] if isinstance(caller, OpenCall) else addrs[caller]
        return addrs
