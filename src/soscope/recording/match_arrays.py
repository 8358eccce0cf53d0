# SPDX-License-Identifier: Apache-2.0
"""The events of one stack of a thread in one window, matched by arrays."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from soscope.recording.arrays import SLOT, Booleans, Integers
from soscope.recording.gather import Run
from soscope.recording.matched import Matched
from soscope.recording.matching import AnyCall, Matching, look_again, match
from soscope.recording.pairing import REACH, OpenCall, Pairing
from soscope.wire import layout


class Part:
    """The events of one stack in [low, high]: the events `which` of the run, or all if None."""

    def __init__(self, of: Matched, low: int, high: int, which: Integers | None) -> None:
        self.of = of
        self.low = low
        self.high = high
        self.which = which
        self.events = of.run.events if which is None else of.run.events.some(which)
        self.tail = of.tail if which is None or of.tail is None else of.tail[which]
        self.twice: Booleans | None = None
        self.matching = Matching()

    def match(self, *, deep: bool) -> None:
        """Match the events, without changing any state."""
        thread = self.of.run.thread.state
        calls = thread.within(self.low, self.high)
        self.matching = match(self.events, self.tail, calls, deep=deep)
        if self.of.slots.has_twice:
            twice = self.of.slots.twice(self.events.slot())
            twice &= self.events.kind() == layout.UNIT_EXIT
            self.twice = twice if twice.any() else None
        if self.matching.orphans and (
            self.twice is not None or self.matching.over or thread.unwound
        ):
            twice = np.zeros(len(self.events), np.bool_) if self.twice is None else self.twice
            look_again(self.matching, self.events, twice, thread)
        if deep and self.tail is not None:
            self._find_callers(calls)

    def _find_callers(self, calls: list[OpenCall]) -> None:
        """Set `before` of tail-called entries: the open call at the same address, if any."""
        assert self.tail is not None
        matching, events = self.matching, self.events
        sps = np.unique(events.sp[np.flatnonzero(self.tail)])
        kind = events.kind()
        here = np.flatnonzero(np.isin(events.sp, sps) & (kind != layout.UNIT_EXIT))
        end: dict[AnyCall, int] = {}
        entries, exits = matching.pairs()
        inside = np.flatnonzero(np.isin(events.sp[entries], sps))
        end.update(zip(entries[inside].tolist(), exits[inside].tolist(), strict=True))
        end.update((call, event) for event, call in matching.late)
        end.update(matching.over)
        chains: dict[int, list[AnyCall]] = {sp: [] for sp in sps.tolist()}
        for call in calls:
            if call.sp in chains:
                chains[call.sp].append(call)
        for event in here.tolist():
            chain = chains[int(events.sp[event])]
            while chain and end.get(chain[-1], event + 1) <= event:
                chain.pop()
            if self.tail[event] and chain:
                matching.before[event] = chain[-1]
            if kind[event] == layout.UNIT_ENTRY:
                chain.append(event)

    def keep(self, *, deep: bool) -> None:
        """Store the results in the state of the thread and in the window."""
        thread, matching = self.of.run.thread.state, self.matching
        made: dict[int, OpenCall] = {}
        wanted = [call for call in matching.open if not isinstance(call, OpenCall)]
        over = [(call, event) for call, event in matching.over if call not in matching.revived]
        last = self._last_entries(over)
        over = [(call, event) for call, event in over if last.get(self._sp(call), -1) < event]
        wanted += [call for call, _ in over if not isinstance(call, OpenCall)]
        returned: dict[tuple[int, int], AnyCall] = {}
        if self.twice is not None:
            exits = np.flatnonzero(self.twice)
            partner = dict(
                zip(*(array.tolist() for array in reversed(matching.pairs())), strict=True)
            )
            late = dict(matching.late)
            revived = matching.revived
            for event in exits.tolist():
                returning = partner.get(event, late.get(event))
                if returning is not None and returning not in revived:
                    word = int(self.events.commit[event])
                    returned[int(self.events.sp[event]), word & SLOT] = returning
            wanted += [call for call in returned.values() if not isinstance(call, OpenCall)]
        self._join(deep=deep)
        self._make(wanted, made, deep=deep)

        def call_of(call: AnyCall) -> OpenCall:
            return call if isinstance(call, OpenCall) else made[call]

        thread.cover(self.low, self.high)[:] = [call_of(call) for call in matching.open]
        for sp in [sp for sp in thread.unwound if sp in last]:
            del thread.unwound[sp]
        for back in matching.revived:
            if isinstance(back, OpenCall) and back in thread.unwound.get(back.sp, ()):
                thread.unwound[back.sp].remove(back)
        for gone, _ in over:
            thread.unwound.setdefault(self._sp(gone), []).append(call_of(gone))
        thread.again.update((key, call_of(call)) for key, call in returned.items())

    def _sp(self, call: AnyCall) -> int:
        return call.sp if isinstance(call, OpenCall) else int(self.events.sp[call])

    def _last_entries(self, over: list[tuple[AnyCall, int]]) -> dict[int, int]:
        """Return the last entry at each address at which calls were unwound, if there is one."""
        sps = {self._sp(call) for call, _ in over} | set(self.of.run.thread.state.unwound)
        if not sps:
            return {}
        kind = self.events.kind()
        wanted = np.isin(self.events.sp, np.array(sorted(sps), np.uint32))
        entries = np.flatnonzero(wanted & (kind != layout.UNIT_EXIT))
        return dict(zip(self.events.sp[entries].tolist(), entries.tolist(), strict=True))

    def _make(self, wanted: list[int], made: dict[int, OpenCall], *, deep: bool) -> None:
        """Make calls for entries that later windows may refer to."""
        if not wanted:
            return
        run = self.of.run
        ours = np.array(sorted(set(wanted)), np.int64)
        theirs = ours if self.which is None else self.which[ours]
        addrs = self.of.return_addrs()[theirs].tolist() if deep else [0] * len(ours)
        rows = zip(
            ours.tolist(),
            self.events.commit[ours].tolist(),
            self.events.sp[ours].tolist(),
            self.events.tsc[ours].tolist(),
            run.numbers(theirs).tolist(),
            run.holes_at(theirs).tolist(),
            addrs,
            strict=True,
        )
        for at, word, sp, tsc, number, holes, addr in rows:
            call = made[at] = OpenCall(run.thread.state, word & SLOT, sp, tsc, number)
            call.holes = holes
            call.payload = number, addr

    def _join(self, *, deep: bool) -> None:
        """Add the results to those of the whole run."""
        matching, into, which = self.matching, self.of.matching, self.which
        if which is None:
            self.of.matching = matching
            return

        def there(call: AnyCall) -> AnyCall:
            return call if isinstance(call, OpenCall) else int(which[call])

        entries, exits = matching.pairs()
        into.entries.append(which[entries])
        into.exits.append(which[exits])
        into.late += [(int(which[event]), call) for event, call in matching.late]
        into.over += [(there(call), int(which[event])) for call, event in matching.over]
        into.revived |= {there(call) for call in matching.revived}
        into.again += [(int(which[event]), there(call)) for event, call in matching.again]
        into.before.update((int(which[at]), there(call)) for at, call in matching.before.items())
        if deep:
            if into.depth is None:
                into.depth = np.zeros(len(self.of.run), np.int64)
            assert matching.depth is not None
            into.depth[which] = matching.depth


def stacks_of(run: Run) -> list[tuple[int, int, Integers | None]] | None:
    """Return the stacks that events belong to: bounds, number of stacks, and their events.

    Return None if processing events one by one could find other stacks. Addresses belong to one
    stack if they are at most REACH apart.
    """
    sp = run.events.sp
    low, high = int(sp.min()), int(sp.max())
    bounds = run.thread.state.bounds()
    near = [
        (first, last) for first, last in bounds if first - REACH <= high and last + REACH >= low
    ]
    if len(near) <= 1:
        whole = min([low, *(first for first, _ in near)]), max([high, *(last for _, last in near)])
        if whole[1] - whole[0] <= REACH or whole in near:
            return [(*whole, None)]
    known = np.unique(sp).astype(np.int64)
    inside = np.zeros(len(known), np.bool_)
    for first, last in near:
        inside |= (known >= first) & (known <= last)
    # Intervals that belong together: known stacks, and addresses near them.
    parts = sorted([*((a, b, 1) for a, b in near), *((a, a, 0) for a in known[~inside].tolist())])
    joined: list[list[int]] = []  # low, high, stacks, addresses
    for first, last, is_stack in parts:
        if joined and first - joined[-1][1] <= REACH:
            group = joined[-1]
            if is_stack and group[2] and not group[3] and first > group[1]:
                joined.append([first, last, 1, 0])  # adjacent, but separate so far
                continue
            group[1] = max(group[1], last)
            group[2] += is_stack
            group[3] += 1 - is_stack
            if group[2] > 1:
                return None
        else:
            joined.append([first, last, is_stack, 1 - is_stack])
    if any(
        later[0] - group[1] <= REACH and (group[3] or later[3]) for group, later in pairwise(joined)
    ):
        return None
    highs = np.array([group[1] for group in joined], np.int64)
    of = np.searchsorted(highs, sp)
    stacks: list[tuple[int, int, Integers | None]] = []
    for number, (first, last, _, added) in enumerate(joined):
        which = np.flatnonzero(of == number)
        if not len(which):
            continue
        if added and last - first > REACH:
            start = [edges for edges in near if first <= edges[0] <= last]
            mine = sp[which].astype(np.int64)
            begin = start[0] if start else (int(mine[0]), int(mine[0]))
            lows = np.minimum.accumulate(np.concatenate(([begin[0]], mine)))[:-1]
            highest = np.maximum.accumulate(np.concatenate(([begin[1]], mine)))[:-1]
            if ((mine < lows - REACH) | (mine > highest + REACH)).any():
                return None
        stacks.append((first, last, which))
    return stacks


def may_have_moved(pairs: Pairing, parts: list[list[Part]]) -> bool:
    """Return whether an exit without entry may belong to a call of another thread."""
    for number, mine in enumerate(parts):
        for part in mine:
            for event in part.matching.orphans:
                sp, slot = int(part.events.sp[event]), int(part.events.commit[event]) & SLOT
                if pairs.has_elsewhere(part.of.run.thread.state, slot, sp):
                    return True
                entry = layout.UNIT_ENTRY << 28 | slot
                for other in parts[:number] + parts[number + 1 :]:
                    events = other[0].of.run.events
                    if ((events.commit == entry) & (events.sp == sp)).any():
                        return True
    return False
