# SPDX-License-Identifier: Apache-2.0
"""The events of one thread in one window, with the results of matching."""

from __future__ import annotations

import numpy as np

from soscope.recording.arrays import Booleans, SlotArrays, Words
from soscope.recording.gather import Run
from soscope.recording.matching import Matching
from soscope.recording.pairing import OpenCall
from soscope.wire import layout


class Matched:
    """The events of one thread in one window, and the results of matching.

    `tail` marks entries that were tail-called (None if no entry was). `moved` are exits of calls
    that were open in other threads of the process. For calls, `payload` is (number of the entry's
    unit in the file, return address).
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
        """Return the return address of each entry, 0 if it is not known."""
        addrs = np.asarray(self.run.events.first(slice(None)))
        if self.tail is not None:
            addrs = np.where(self.tail, np.uint64(0), addrs)
            for event, caller in sorted(self.matching.before.items()):  # callers come first
                addrs[event] = caller.payload[1] if isinstance(caller, OpenCall) else addrs[caller]
        return addrs
