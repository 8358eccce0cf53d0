# SPDX-License-Identifier: Apache-2.0
"""Pairing of the events of one program and process in one window, one after the other."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

import numpy as np

from soscope.recording import pairing
from soscope.recording.arrays import SLOT, Words
from soscope.recording.gather import Thread
from soscope.recording.matched import Matched
from soscope.recording.matching import AnyCall, Matching
from soscope.recording.pairing import OpenCall
from soscope.wire import layout


class OneByOne:
    """The events of one program and process in one window, through `pairing`."""

    def __init__(
        self,
        pairs: pairing.Pairing,
        group: list[Matched],
        ends: list[Thread],
        close: Callable[[pairing.Pairing, Thread], None],
    ) -> None:
        """Prepare. `close` is called for each thread of `ends` in its turn."""
        self._close = close
        self._pairs = pairs
        self._group = group
        self._ends = ends
        self._made: list[OpenCall] = []
        self._threads = [_Each(matched) for matched in group]

    def run(self) -> None:
        """Find the results for all events."""
        place = np.concatenate([matched.run.place for matched in self._group])
        numbers = np.concatenate([matched.run.numbers(slice(None)) for matched in self._group])
        of = np.repeat(np.arange(len(self._group)), [len(matched.run) for matched in self._group])
        at = np.concatenate([np.arange(len(matched.run)) for matched in self._group])
        order = np.lexsort((numbers, place))
        keys = list(zip(place[order].tolist(), numbers[order].tolist(), strict=True))
        ends = [(bisect_left(keys, thread.end), thread) for thread in self._ends]
        ends.reverse()
        for count, (group, event) in enumerate(
            zip(of[order].tolist(), at[order].tolist(), strict=True)
        ):
            while ends and ends[-1][0] <= count:
                self._close(self._pairs, ends.pop()[1])
            self._event(self._threads[group], event)
        while ends:
            self._close(self._pairs, ends.pop()[1])
        for each in self._threads:
            each.finish()
        for call in self._made:
            each, at_entry, number = call.payload
            call.payload = number, int(each.addrs[at_entry])

    def _event(self, each: _Each, event: int) -> None:
        word, sp = each.words[event], each.sps[event]
        slot = word & SLOT
        matching = each.matched.matching
        if word >> 28 == layout.UNIT_EXIT:
            twice = each.twice is not None and bool(each.twice[event])
            call, how, over = self._pairs.leave(each.state, slot, sp, twice=twice)
            if call is None or how == pairing.INHERITED:
                matching.orphans.append(event)
            elif how == pairing.AGAIN:
                matching.again.append((event, each.here(call)))
            elif how == pairing.MOVED:
                each.matched.moved.append((event, call))
            else:
                place = each.here(call)
                if how == pairing.REVIVED:
                    matching.revived.add(place)
                if isinstance(place, OpenCall):
                    matching.late.append((event, place))
                else:
                    each.pairs.append((place, event))
        else:
            tail = each.matched.tail is not None and bool(each.matched.tail[event])
            returns = word >> 28 == layout.UNIT_ENTRY
            call, each.depth[event], over, before = self._pairs.enter(
                each.state, slot, sp, each.tscs[event], tail=tail, returns=returns
            )
            call.holes = each.holes[event]
            call.payload = each, event, each.numbers[event]
            self._made.append(call)
            if tail and before is not None:
                matching.before[event] = each.here(before)
        for gone in over:
            matching.over.append((each.here(gone), event))


class _Each:
    """The events of one thread as lists."""

    def __init__(self, matched: Matched) -> None:
        run = matched.run
        self.matched = matched
        self.state = run.thread.state
        everything = np.arange(len(run))
        self.words: list[int] = run.events.commit.tolist()
        self.sps: list[int] = run.events.sp.tolist()
        self.tscs: list[int] = run.events.tsc.tolist()
        self.numbers: list[int] = run.numbers(everything).tolist()
        self.holes: list[int] = run.holes_at(everything).tolist()
        self.depth = [0] * len(run)
        self.pairs: list[tuple[int, int]] = []
        self.twice = matched.slots.twice(run.events.slot()) if matched.slots.has_twice else None
        self.addrs: Words = np.zeros(0, np.uint64)
        matched.matching = Matching()

    def here(self, call: OpenCall) -> AnyCall:
        """Return the index of a call's entry if it is in this run, else the call."""
        payload = call.payload
        return payload[1] if len(payload) == 3 and payload[0] is self else call

    def finish(self) -> None:
        """Store the results of matching as arrays."""
        self.matched.matching.add_pairs(self.pairs)
        self.matched.matching.depth = np.array(self.depth, np.int64)
        self.addrs = self.matched.return_addrs()
