# SPDX-License-Identifier: Apache-2.0
"""Makes trees of call paths from logged calls, like those that the agent keeps in other modes.

Times are the same as with `--mode time`: no tick is the own time of two calls, whatever stack the
calls run on.
"""

from __future__ import annotations

import numpy as np

from soscope.instruments.prof.log import Booleans, Integers, ThreadLog
from soscope.instruments.prof.tree import ROOT, CallNode, LoggedThread
from soscope.wire import layout

_FOLD = 64  # depth from which on a recursive function gets no new node; as in the agent
_NONE = -1


def tree_of(log: ThreadLog) -> LoggedThread:
    """Return the calls of a thread, added up."""
    thread = LoggedThread(log)
    places = _Places(log, thread.nodes)
    start, end = _without_waits(log)
    seen = log.is_seen()
    ticks = np.where(seen, end - start, 0)
    count = len(thread.nodes)
    sums = [
        np.bincount(places.nodes, weights, count).astype(np.int64).tolist()
        for weights in (
            np.ones(len(log)),
            seen,
            np.where(places.is_folded, 0, ticks),
            _own_ticks(start, end, ticks, seen),
        )
    ]
    for node, calls, timed, total, own in zip(thread.nodes, *sums, strict=True):
        node.calls, node.timed, node.total_ticks, node.self_ticks = calls, timed, total, own
        node.unseen = not timed
    return thread


class _Places:
    """Finds the node of each call, and whether a call of the same node is around it."""

    def __init__(self, log: ThreadLog, nodes: list[CallNode]) -> None:
        self.nodes: Integers = np.zeros(len(log), np.int64)
        self.is_folded = np.zeros(len(log), np.bool_)
        self._made = nodes
        self._known: dict[tuple[int, ...], tuple[int, bool]] = {}
        parents = _parents(log)
        is_root = (log.flags & layout.REPORTED_ROOT) != 0
        keys = np.stack(
            [
                np.full(len(log), ROOT),
                log.function,
                np.where(is_root, log.around, 0),
                (log.flags & layout.REPORTED_HOOK).astype(np.int64),
            ],
            axis=1,
        )
        depths = _depths(parents)
        order = np.argsort(depths, kind="stable")
        ends = np.searchsorted(depths[order], np.arange(depths.max(initial=-1) + 2))
        for first, last in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
            level = order[first:last]
            above = parents[level]
            keys[level, 0] = np.where(above == _NONE, ROOT, self.nodes[above])
            self._place(level, keys[level])

    def _place(self, level: Integers, keys: Integers) -> None:
        """Find the nodes of the calls of one level, after the calls around them."""
        distinct, which = np.unique(keys, axis=0, return_inverse=True)
        placed = [self._node((parent, *key)) for parent, *key in distinct.tolist()]
        which = which.reshape(-1)
        self.nodes[level] = np.array([node for node, _ in placed])[which]
        self.is_folded[level] = np.array([folded for _, folded in placed])[which]

    def _node(self, key: tuple[int, ...]) -> tuple[int, bool]:
        known = self._known.get(key)
        if known is None:
            parent, function, caller, hook = key
            around = self._around(parent, function)
            if around == ROOT:
                known = len(self._made), False
                self._made.append(CallNode(parent, function, caller, function, hook))
            else:
                known = around, True
            self._known[key] = known
        return known

    def _around(self, parent: int, function: int) -> int:
        """Return the node of the same function around a new deep node, else ROOT."""
        same = ROOT
        for _ in range(_FOLD + 1):
            if parent == ROOT:
                return ROOT
            node = self._made[parent]
            if same == ROOT and node.function == function:
                same = parent
            parent = node.parent
        return same


def _parents(log: ThreadLog) -> Integers:
    """Return the index of the call around each call, -1 if there is none in the log."""
    places = np.arange(len(log))
    around = np.searchsorted(log.start, log.around)
    around[around == len(log)] = 0
    is_inside = (log.flags & layout.REPORTED_ROOT) == 0
    is_there = (log.start[around] == log.around) & (around < places)
    return np.asarray(np.where(is_inside & is_there, around, _NONE), np.int64)


def _depths(parents: Integers) -> Integers:
    """Return how many calls are around each call. Each round doubles the distance covered."""
    above = parents.copy()
    depths: Integers = np.asarray(above != _NONE, np.int64)
    while True:
        on = np.flatnonzero(above != _NONE)
        if not len(on):
            return depths
        depths[on] += depths[above[on]]
        above[on] = above[above[on]]


def _without_waits(log: ThreadLog) -> tuple[Integers, Integers]:
    """Return begin and end of the calls by a clock that stands still while the agent works."""
    at, ticks = log.waits
    order = np.argsort(at, kind="stable")
    at = at[order]
    before = np.concatenate([[0], np.cumsum(ticks[order])])
    start, end = log.start, log.start + log.ticks
    return (
        start - before[np.searchsorted(at, start)],
        end - before[np.searchsorted(at, end)],
    )


def _own_ticks(start: Integers, end: Integers, ticks: Integers, seen: Booleans) -> Integers:
    """Return the own ticks of each call: those that no call inside it has taken."""
    timed = np.flatnonzero(seen)
    order = timed[np.lexsort((-start[timed], end[timed]))]
    before = np.searchsorted(end[order], start[order], side="right")
    # A call of zero length ends when it begins.
    before = np.minimum(before, np.arange(len(order)))
    done = [0]
    latest = 0
    for took, began in zip(ticks[order].tolist(), before.tolist(), strict=True):
        latest += max(0, took - (latest - done[began]))
        done.append(latest)
    own = np.zeros(len(start), np.int64)
    own[order] = np.diff(np.array(done))
    return own
