# SPDX-License-Identifier: Apache-2.0
"""Match the entries and exits of one thread in one window: by arrays, or one after the other.

The rules are the same as in `pairing`.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise

import numpy as np

from soscope.recording import pairing
from soscope.recording.arrays import SLOT, Booleans, Events, Integers, SlotArrays, Words
from soscope.recording.gather import Run, Thread
from soscope.recording.pairing import REACH, OpenCall, PairedThread, Pairing
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# The rules of `pairing` for the events of one stack in one window, as array operations.
#
# An entry and its exit that are neighbours on their stack are a pair. Without the pair, the events
# around it are neighbours. Some rounds of that leave irregular events: calls that were unwound,
# tail calls, exits without entry, and calls from earlier windows or into later ones. These are
# processed one by one.

_RETURNS = (layout.UNIT_EXIT - layout.UNIT_ENTRY) << 28  # difference of the commit words of a pair
_MOST_ROUNDS = 1000
_FEW = 64  # stop after a round that removes less than one in so many

AnyCall = int | OpenCall  # a call of this window by the index of its entry, or one from before


class Matching:
    """The results for the events of one thread or one of its stacks. Indices are of events.

    `entries` and `exits` are lists of arrays of pairs. `late` are the exits of calls of earlier
    windows. `over` are calls that ended without an exit, each with the event that showed it;
    `revived` are the calls among them that returned later. `again` are exits that return once more,
    each with its call. `orphans` are exits without entry. `open` are the calls that are open at the
    end, outermost first.
    """

    def __init__(self) -> None:
        self.entries: list[Integers] = []
        self.exits: list[Integers] = []
        self.late: list[tuple[int, OpenCall]] = []
        self.over: list[tuple[AnyCall, int]] = []
        self.revived: set[AnyCall] = set()
        self.again: list[tuple[int, AnyCall]] = []
        self.orphans: list[int] = []
        self.open: list[AnyCall] = []
        self.depth: Integers | None = None
        self.before: dict[int, AnyCall] = {}  # callers that tail-called entries, as far as known

    def pairs(self) -> tuple[Integers, Integers]:
        """Return all entries and all exits of pairs, as one array each."""
        if len(self.entries) == 1:
            return self.entries[0], self.exits[0]
        nothing = np.zeros(0, np.int64)
        return np.concatenate((nothing, *self.entries)), np.concatenate((nothing, *self.exits))

    def add_pairs(self, pairs: list[tuple[int, int]]) -> None:
        """Add pairs of an entry and its exit."""
        if pairs:
            entries, exits = zip(*pairs, strict=True)
            self.entries.append(np.array(entries, np.int64))
            self.exits.append(np.array(exits, np.int64))


def match(events: Events, tail: Booleans | None, calls: list[OpenCall], *, deep: bool) -> Matching:
    """Match the events of one stack, on which `calls` are open at the beginning.

    `tail` marks entries that were tail-called, None if no entry was. With `deep`, also find
    `depth`, the number of open calls around each entry.
    """
    matching = Matching()
    commit = events.commit
    kind = events.kind()
    # An event ends the open calls whose doubled sp is smaller than this: calls below it and, at an
    # entry that was not tail-called, calls at the same address.
    reach = events.sp.astype(np.int64) * 2
    reach += kind != layout.UNIT_EXIT
    if tail is not None:
        reach -= tail
    only = kind == layout.UNIT_ENTRY_ONLY
    rest, between, head = _cancel(matching, commit, events.sp, reach, only)
    closed = _one_by_one(matching, events, reach, rest, between, head, calls)
    if deep:
        opened = kind == layout.UNIT_ENTRY
        gone = np.concatenate((matching.pairs()[1], np.array(closed, np.int64)))
        level = np.cumsum(opened) - opened + len(calls)
        matching.depth = level - np.cumsum(np.bincount(gone, minlength=len(commit)))
    return matching


def _cancel(
    matching: Matching,
    commit: np.ndarray,
    sp: np.ndarray,
    reach: Integers,
    only: Booleans,
) -> tuple[Integers, Integers, int]:
    """Match neighbours until hardly any are left.

    Return the remaining events, the highest `reach` of the removed events behind each, and the
    highest `reach` of those before the first.
    """
    rest = np.arange(len(commit))
    between = np.full(len(commit), -1, np.int64)
    head = -1
    inner = reach  # of the remaining events
    if only.any():
        rest, between, head = _without(rest, between, inner, ~only, head)
        commit, sp, inner = commit[rest], sp[rest], inner[rest]
    for _ in range(_MOST_ROUNDS):
        if len(rest) < 2:
            break
        pair = (commit[1:] - commit[:-1] == _RETURNS) & (sp[1:] == sp[:-1])
        pair &= between[:-1] <= inner[1:]
        first = np.flatnonzero(pair)
        if not len(first):
            break
        matching.entries.append(rest[first])
        matching.exits.append(rest[first + 1])
        keep = np.ones(len(rest), np.bool_)
        keep[first] = keep[first + 1] = False
        many = len(first) * _FEW > len(rest)
        rest, between, head = _without(rest, between, inner, keep, head)
        kept = np.flatnonzero(keep)
        commit, sp, inner = commit[kept], sp[kept], inner[kept]
        if not many:
            break
    return rest, between, head


def _without(
    rest: Integers, between: Integers, reach: Integers, keep: Booleans, head: int
) -> tuple[Integers, Integers, int]:
    """Remove events from `rest`, and move their reach to `between` and `head`."""
    kept = np.flatnonzero(keep)
    highest = np.where(keep, between, np.maximum(reach, between))
    front = highest[: kept[0]] if len(kept) else highest
    if len(front):
        head = max(head, int(front.max()))
    if len(kept):
        between = np.maximum.reduceat(highest, kept)
    return rest[kept], between[: len(kept)], head


def _one_by_one(
    matching: Matching,
    events: Events,
    reach: Integers,
    rest: Integers,
    between: Integers,
    head: int,
    calls: list[OpenCall],
) -> list[int]:
    """Apply the rules to the remaining events. Return the event that closed each open call."""
    pairs: list[tuple[int, int]] = []
    closed: list[int] = []
    # The open calls, as three lists of numbers: a deep recursion makes them long, and the garbage
    # collector does not traverse numbers. Calls from earlier windows have the indices -1, -2 and
    # so on.
    which = list(range(-1, -len(calls) - 1, -1))
    sps = [call.sp for call in calls]
    slots = [call.slot for call in calls]

    def pop(event: int) -> None:
        """Close the innermost call, which has no exit of its own, by `event`."""
        number = which.pop()
        del sps[-1], slots[-1]
        matching.over.append((calls[-number - 1] if number < 0 else number, event))
        closed.append(event)

    while sps and 2 * sps[-1] < head:
        pop(_first_above(reach, 0, 2 * sps[-1]))
    rows = zip(
        rest.tolist(),
        events.commit[rest].tolist(),
        events.sp[rest].tolist(),
        reach[rest].tolist(),
        between.tolist(),
        strict=True,
    )
    for event, word, at, reaching, later in rows:
        function = word & SLOT
        while sps and 2 * sps[-1] < reaching:
            pop(event)
        if word >> 28 == layout.UNIT_ENTRY:
            which.append(event)
            sps.append(at)
            slots.append(function)
        else:
            place = len(sps) - 1
            while place >= 0 and sps[place] == at and slots[place] != function:
                place -= 1
            if place >= 0 and sps[place] == at:
                while len(sps) > place + 1:
                    pop(event)
                number = which.pop()
                del sps[-1], slots[-1]
                if number < 0:
                    matching.late.append((event, calls[-number - 1]))
                    closed.append(event)
                else:
                    pairs.append((number, event))
            else:
                matching.orphans.append(event)
        while sps and 2 * sps[-1] < later:
            pop(_first_above(reach, event + 1, 2 * sps[-1]))
    matching.add_pairs(pairs)
    before = sum(number < 0 for number in which)
    matching.open = [*calls[:before], *which[before:]]
    return closed


def _first_above(values: Integers, start: int, limit: int) -> int:
    """Return the first index from `start` on whose value is above `limit`, which exists."""
    width = 16
    while True:
        above = values[start : start + width] > limit
        at = int(above.argmax())
        if above[at]:
            return start + at
        start += width
        width = min(width * 2, 1 << 16)


def look_again(matching: Matching, events: Events, twice: Booleans, thread: PairedThread) -> None:
    """Find orphans that are repeated returns, or returns of calls that were taken for unwound."""
    sps = np.unique(events.sp[matching.orphans])
    here = np.flatnonzero(np.isin(events.sp, sps))
    partner = np.full(len(events), -1, np.int64)
    entries, exits = matching.pairs()
    partner[exits] = entries
    late = dict(matching.late)
    orphans = set(matching.orphans)
    unwound: dict[int, list[AnyCall]] = {
        sp: list(thread.unwound.get(sp, ())) for sp in sps.tolist()
    }
    over = [pair for pair in matching.over if _sp(events, pair[0]) in unwound]
    coming = sorted(over, key=lambda pair: pair[1])
    coming.reverse()  # so that pop() returns the next one
    returned: dict[tuple[int, int], AnyCall] = dict(thread.again)
    matching.orphans = []
    pairs: list[tuple[int, int]] = []
    rows = zip(here.tolist(), events.commit[here].tolist(), events.sp[here].tolist(), strict=True)
    for event, word, sp in rows:
        slot = word & SLOT
        is_exit = word >> 28 == layout.UNIT_EXIT
        while coming and coming[-1][1] <= event:
            call = coming.pop()[0]
            unwound[_sp(events, call)].append(call)
        if not is_exit:
            unwound[sp] = []
        elif event not in orphans:
            if twice[event]:
                before = int(partner[event])
                returned[sp, slot] = before if before >= 0 else late[event]
        elif twice[event] and (sp, slot) in returned:
            matching.again.append((event, returned[sp, slot]))
        else:
            for call in unwound[sp]:
                if _slot(events, call) == slot:
                    unwound[sp].remove(call)
                    matching.revived.add(call)
                    if isinstance(call, OpenCall):
                        matching.late.append((event, call))
                    else:
                        pairs.append((call, event))
                    break
            else:
                matching.orphans.append(event)
    matching.add_pairs(pairs)


def _sp(events: Events, call: AnyCall) -> int:
    return call.sp if isinstance(call, OpenCall) else int(events.sp[call])


def _slot(events: Events, call: AnyCall) -> int:
    return call.slot if isinstance(call, OpenCall) else int(events.commit[call]) & SLOT


# The events of one thread in one window, with the results of matching.


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


# Pairing of the events of one program and process in one window, one after the other.


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


# The events of one stack of a thread in one window, matched by arrays.


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
        """Add the results to the results of the whole run."""
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
