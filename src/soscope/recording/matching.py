# SPDX-License-Identifier: Apache-2.0
"""The rules of `pairing` for the events of one stack in one window, as array operations.

An entry and its exit that are neighbours on their stack are a pair. Without the pair, the events
around it are neighbours. Some rounds of that leave irregular events: calls that were unwound,
tail calls, exits without entry, and calls from earlier windows or into later ones. These are
processed one by one.
"""

from __future__ import annotations

import numpy as np

from soscope.recording.arrays import SLOT, Booleans, Events, Integers
from soscope.recording.pairing import OpenCall, PairedThread
from soscope.wire import layout

_RETURNS = (layout.UNIT_EXIT - layout.UNIT_ENTRY) << 28  # difference of the commit words of a pair
_MOST_ROUNDS = 1000
_FEW = 64  # stop after a round that removes less than one in so many

AnyCall = int | OpenCall  # a call of this window by the index of its entry, or one from before


class Matching:
    """The results for the events of one thread or one of its stacks. Indices are of events.

    `entries` and `exits` are lists of arrays of pairs. `late` are the exits of calls of earlier
    windows. `over` are calls that ended without an exit, each with the event that showed it;
    `revived` are those of them that returned later. `again` are exits that return once more, each
    with its call. `orphans` are exits without entry. `open` are the calls that are open at the
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
    """Find orphans that return once more, and those of calls that were taken for unwound."""
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
