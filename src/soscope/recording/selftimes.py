# SPDX-License-Identifier: Apache-2.0
"""Own times of calls, without the calls inside of them in the same thread.

The rule is the same as in the agent. A thread has a sum of the time of all calls, in which each
nanosecond counts once. The growth of the sum during a call belongs to other calls. The rest is
the call's own time, and is added to the sum. So no call has a negative time, and no thread more
than has passed, even if calls are not nested, as in coroutines.
"""

from __future__ import annotations

import numpy as np

from soscope.recording.arrays import Integers
from soscope.recording.matched import Matched
from soscope.recording.pairing import OpenCall


def self_times(
    matched: Matched, spent: Integers, late_spent: Integers
) -> tuple[Integers, Integers]:
    """Return the own ns of the pairs of a window, and of the late calls.

    `spent` and `late_spent` are their total ns, none of which is negative. Call this once for
    each window of a thread, in their order.
    """
    thread, late = matched.run.thread, matched.matching.late
    before = thread.done
    entries, exits = matched.matching.pairs()
    late_exits = np.array([event for event, _ in late], np.int64)
    own = _without_nested(entries, exits, spent, late_exits)
    if own is None:
        own, late_own = _in_turn(entries, exits, spent, late, late_spent, before)
    else:
        late_own = _late(_ThreadSum(before, exits, own), late, late_spent)
    ends, owns = np.concatenate((exits, late_exits)), np.concatenate((own, late_own))
    thread.done += int(owns.sum())
    _begin(matched, before, ends, owns)
    return own, late_own


class _ThreadSum:
    """The sum of a thread in one window, which grows by `owns` at each of `exits`."""

    def __init__(self, before: int, exits: Integers, owns: Integers) -> None:
        order = np.argsort(exits, kind="stable")
        self._exits = exits[order]
        self._sums = np.concatenate((np.zeros(1, np.int64), np.cumsum(owns[order])))
        self._before = before

    def at(self, event: int) -> int:
        """Return the thread's sum before an event."""
        return self._before + int(self._sums[np.searchsorted(self._exits, event)])


def _own(spent: int, grown: int) -> int:
    """Return a call's own time, if the sum has grown by `grown` during the call."""
    return min(max(spent - grown, 0), spent)


def _without_nested(
    entries: Integers, exits: Integers, spent: Integers, others: Integers
) -> Integers | None:
    """Return the own times of pairs, which no pair inside of them has taken.

    Return None if that does not suffice, because pairs, and exits of `others`, are not nested.
    """
    if not len(entries):
        return spent
    size = int(exits.max()) + 1
    steps = np.zeros(size + 1, np.int32)
    steps[entries] = 1
    steps[exits] = -1
    depth = np.cumsum(steps)
    if depth[np.minimum(others, size)].any():
        return None
    if int(depth.max()) == 1:
        return spent
    level = depth[entries]
    if (depth[exits] + 1 != level).any():
        return None
    order = np.lexsort((exits, level))
    begun, ended, level_of = entries[order], exits[order], level[order]
    if ((begun[1:] < ended[:-1]) & (level_of[1:] == level_of[:-1])).any():
        return None
    # The pairs one level deeper that end inside of a pair are consecutive.
    sums = np.concatenate((np.zeros(1, np.int64), np.cumsum(spent[order])))
    places = level_of * size + ended
    outer = np.flatnonzero(exits - entries > 1)
    deeper = (level[outer] + 1) * size
    first = np.searchsorted(places, deeper + entries[outer])
    last = np.searchsorted(places, deeper + exits[outer])
    own = spent.copy()
    own[outer] -= sums[last] - sums[first]
    return own if own.min() >= 0 else None


def _late(total: _ThreadSum, late: list[tuple[int, OpenCall]], spent: Integers) -> Integers:
    """Return the own time of calls of earlier windows, which end outside of all pairs."""
    own = np.zeros(len(late), np.int64)
    added = 0
    for at in sorted(range(len(late)), key=lambda at: late[at][0]):
        event, call = late[at]
        now = total.at(event) + added
        own[at] = _own(int(spent[at]), now - (now if call.done is None else call.done))
        added += int(own[at])
    return own


def _in_turn(
    entries: Integers,
    exits: Integers,
    spent: Integers,
    late: list[tuple[int, OpenCall]],
    late_spent: Integers,
    done: int,
) -> tuple[Integers, Integers]:
    """Compute own times by applying the rule to one event after the other."""
    own, late_own = np.zeros(len(entries), np.int64), np.zeros(len(late), np.int64)
    pairs = range(len(entries))
    turns = [(event, pair, False) for event, pair in zip(entries.tolist(), pairs, strict=True)]
    turns += [(event, pair, True) for event, pair in zip(exits.tolist(), pairs, strict=True)]
    turns += [(event, -1 - at, True) for at, (event, _) in enumerate(late)]
    begun = [0] * len(entries)
    times, late_times = spent.tolist(), late_spent.tolist()
    for _, which, is_exit in sorted(turns):
        if not is_exit:
            begun[which] = done
        elif which >= 0:
            own[which] = mine = _own(times[which], done - begun[which])
            done += mine
        else:
            start = late[-1 - which][1].done
            grown = done - (done if start is None else start)
            late_own[-1 - which] = mine = _own(late_times[-1 - which], grown)
            done += mine
    return own, late_own


def _begin(matched: Matched, before: int, exits: Integers, owns: Integers) -> None:
    """Keep the sum at the entry of each call that may return in a later window."""
    state = matched.run.thread.state
    calls = [*state.open(), *state.again.values()]
    for some in state.unwound.values():
        calls += some
    calls = [call for call in calls if call.done is None]
    if calls:
        total = _ThreadSum(before, exits, owns)
        numbers = matched.run.numbers(slice(None))
        for call in calls:
            call.done = total.at(int(np.searchsorted(numbers, call.payload[0])))
