# SPDX-License-Identifier: Apache-2.0
"""The rules of `pairing` for whole arrays of events at once.

An entry whose exit is the next event of its stack is a pair; without it, the events around
are next to each other. Some rounds of that leave what is irregular: calls that were unwound,
tail calls, exits without entry. Those are looked at one by one.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np  # noqa: TID253  only `columns` imports this
import numpy.typing as npt  # noqa: TID253

from soscope.wire import layout

Integers = npt.NDArray[np.signedinteger[Any]]
Booleans = npt.NDArray[np.bool_]

_STACK_START = 0  # the kind of a mark in front of each stack's events
_MOST_ROUNDS = 1000
_FEW = 64  # a round that removes fewer than one in so many is not worth another


def index_type(size: int) -> type[np.signedinteger[Any]]:
    """Return the smallest type for indices of arrays of `size` elements."""
    return np.int32 if size < 1 << 31 else np.int64


class Matching:
    """What became of the events of many stacks.

    All arrays have one element per event (and per mark, see `match`). `partner`: of an exit
    its entry, of an entry its exit, -1 = none. `over`: where a call without exit was found
    to be over, -1 = not at all. `depth`: open calls of its stack around an entry. `orphans`:
    exits without entry, as indices; `again`: those of them that only return once more.
    """

    def __init__(self, size: int) -> None:
        self.partner: Integers = np.full(size, -1, index_type(size))
        self.over: Integers = np.full(size, -1, index_type(size))
        self.depth: Integers = np.zeros(size, np.int32)
        self.orphans: list[int] = []
        self.again: list[int] = []


def match(
    kind: Integers, sp: Integers, slot: Integers, tail: Booleans, twice: Booleans
) -> Matching:
    """Match the events of stacks that stand one behind the other, each behind a mark.

    `kind` is a unit type, 0 for the mark; `tail` marks entries that were tail-called, `twice`
    exits of functions that may return again.
    """
    matching = Matching(len(kind))
    if not len(kind):
        return matching
    enters = (kind == layout.UNIT_ENTRY) | (kind == layout.UNIT_ENTRY_ONLY)
    # An event ends the open calls whose sp doubled is smaller than this: those below it and,
    # at an entry that was not tail-called, those at the same address.
    reach = np.where(kind == _STACK_START, -1, 2 * sp + (enters & ~tail))
    rest, between = _cancel(matching, kind, sp, slot, reach)
    _one_by_one(matching, kind, sp, slot, reach, rest, between)
    opened = kind == layout.UNIT_ENTRY
    closed = np.concatenate(
        (
            np.flatnonzero((kind == layout.UNIT_EXIT) & (matching.partner >= 0)),
            matching.over[matching.over >= 0],
        )
    )
    level = np.cumsum(opened, dtype=np.int32) - opened
    level -= np.cumsum(np.bincount(closed, minlength=len(kind)), dtype=np.int32)
    starts = np.flatnonzero(kind == _STACK_START)
    matching.depth = level - np.repeat(level[starts], np.diff([*starts, len(kind)]))
    _look_again(matching, kind, sp, slot, twice)
    return matching


def _cancel(
    matching: Matching, kind: Integers, sp: Integers, slot: Integers, reach: Integers
) -> tuple[Integers, Integers]:
    """Match neighbours until hardly any are left.

    Returns the events that are left, and behind each the highest `reach` of those that are
    gone.
    """
    rest = np.flatnonzero(kind != layout.UNIT_ENTRY_ONLY)
    gone = np.where(kind == layout.UNIT_ENTRY_ONLY, reach, -1)
    between = np.maximum.reduceat(gone, rest)
    for _ in range(_MOST_ROUNDS):
        here, behind = rest[:-1], rest[1:]
        pair = (
            (kind[here] == layout.UNIT_ENTRY)
            & (kind[behind] == layout.UNIT_EXIT)
            & (sp[here] == sp[behind])
            & (slot[here] == slot[behind])
            & (between[:-1] <= 2 * sp[here])
        )
        first = np.flatnonzero(pair)
        if not len(first):
            break
        matching.partner[rest[first]] = rest[first + 1]
        matching.partner[rest[first + 1]] = rest[first]
        keep = np.ones(len(rest), np.bool_)
        keep[first] = keep[first + 1] = False
        highest = np.where(keep, between, np.maximum(reach[rest], between))
        kept = np.flatnonzero(keep)
        many = len(first) * _FEW > len(rest)
        rest, between = rest[kept], np.maximum.reduceat(highest, kept)
        if not many:
            break
    return rest, between


def _one_by_one(
    matching: Matching,
    kind: Integers,
    sp: Integers,
    slot: Integers,
    reach: Integers,
    rest: Integers,
    between: Integers,
) -> None:
    """Apply the rules to the events that are left."""
    partner, over = matching.partner, matching.over
    stack: list[tuple[int, int, int]] = []  # event, sp, slot
    rows = zip(
        rest.tolist(),
        kind[rest].tolist(),
        sp[rest].tolist(),
        slot[rest].tolist(),
        reach[rest].tolist(),
        between.tolist(),
        strict=True,
    )
    for event, this, at, function, reaching, later in rows:
        if this == _STACK_START:
            stack.clear()
            continue
        while stack and 2 * stack[-1][1] < reaching:
            over[stack.pop()[0]] = event
        if this == layout.UNIT_ENTRY:
            stack.append((event, at, function))
        else:
            found = len(stack) - 1
            while found >= 0 and stack[found][1] == at and stack[found][2] != function:
                found -= 1
            if found >= 0 and stack[found][1] == at:
                for inner, _, _ in stack[found + 1 :]:
                    over[inner] = event
                partner[event] = stack[found][0]
                partner[stack[found][0]] = event
                del stack[found:]
            else:
                matching.orphans.append(event)
        while stack and 2 * stack[-1][1] < later:
            gone, where, _ = stack.pop()
            over[gone] = _first_above(reach, event + 1, 2 * where)


def _first_above(values: Integers, start: int, limit: int) -> int:
    """Return the first index from `start` on whose value is above `limit`; there is one."""
    width = 16
    while True:
        above = values[start : start + width] > limit
        at = int(above.argmax())
        if above[at]:
            return start + at
        start += width
        width = min(width * 2, 1 << 16)


def _look_again(
    matching: Matching, kind: Integers, sp: Integers, slot: Integers, twice: Booleans
) -> None:
    """Find the orphans that return once more, and those of calls taken for unwound."""
    if not matching.orphans:
        return
    stacks = np.cumsum(kind == _STACK_START)
    place = stacks << 32 | sp
    places = np.unique(place[matching.orphans])
    events = np.flatnonzero(np.isin(place, places) & (kind != _STACK_START))
    unwound: dict[int, list[int]] = defaultdict(list)  # place -> entries without exit
    returned: set[tuple[int, int]] = set()
    orphans = []
    for event in events.tolist():
        here, function = int(place[event]), int(slot[event])
        if kind[event] != layout.UNIT_EXIT:
            unwound[here] = [one for one in unwound[here] if matching.over[one] > event]
            if kind[event] == layout.UNIT_ENTRY and matching.over[event] >= 0:
                unwound[here].append(event)
        elif matching.partner[event] >= 0:
            if twice[event]:
                returned.add((here, function))
        elif twice[event] and (here, function) in returned:
            matching.again.append(event)
        else:
            for one in reversed(unwound[here]):
                if slot[one] == function and matching.over[one] < event:
                    unwound[here].remove(one)
                    matching.partner[event] = one
                    matching.partner[one] = event
                    break
            else:
                orphans.append(event)
    matching.orphans = orphans + matching.again
