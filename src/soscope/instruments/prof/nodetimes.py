# SPDX-License-Identifier: Apache-2.0
"""Times of calls that instrumented code reported, without what reporting them has cost.

An empty call appears to take `inner` ticks, and costs its caller `outer` in all: the rest of those
is in the time of whatever is around it.
"""

from __future__ import annotations

from math import sqrt

from soscope.instruments.prof.tree import CallNode, ReportedCalls, ThreadCalls
from soscope.model.record import Record

_FEW = 30  # calls of which the mean says little


class NodeTimes(Record):
    """Ticks of a node's calls: what they took with the calls inside them, and without.

    Both are without what hooks have cost; `overhead` is what has been taken off `self_`, and
    `doubt` by how much `self_` may be wrong: hooks may cost as much more or less as they cost an
    empty call when the session began. `total_doubt` is the same of `total`. If only one call
    in several was timed, all values are estimates for all calls, and the doubts include the error
    of the estimate. None: no call was timed.
    """

    __slots__ = ("doubt", "overhead", "self_", "total", "total_doubt")

    def __init__(
        self,
        total: int | None,
        self_: int | None,
        overhead: int | None,
        doubt: int | None,
        total_doubt: int | None,
    ) -> None:
        self.total = total
        self.self_ = self_
        self.overhead = overhead
        self.doubt = doubt
        self.total_doubt = total_doubt


_UNKNOWN = NodeTimes(None, None, None, None, None)

# By function: ticks of a call that was timed, as they were measured, and how many were.
Means = dict[int, tuple[float, int]]


def means_of(calls: ReportedCalls) -> Means:
    """Return how long the timed calls of each function took, whatever the way to it."""
    sums: dict[int, tuple[int, int]] = {}
    for thread in calls.threads:
        for node in thread.nodes:
            ticks, timed = sums.get(node.function, (0, 0))
            sums[node.function] = ticks + node.total_ticks, timed + node.timed
    return {function: (ticks / timed, timed) for function, (ticks, timed) in sums.items() if timed}


def node_times(calls: ReportedCalls, thread: ThreadCalls, means: Means) -> list[NodeTimes]:
    """Return the times of a thread's nodes, in their order; `means` are those of `calls`."""
    if calls.period > 1:
        return _estimated(calls, thread.nodes, means)
    return _measured(calls, thread.nodes)


def _measured(calls: ReportedCalls, nodes: list[CallNode]) -> list[NodeTimes]:
    below = [0] * len(nodes)  # what calls below have cost, in the node's total
    around = [0] * len(nodes)  # in its self time
    measured = [0] * len(nodes)  # totals of the nodes right below, as they were measured
    callees = [0] * len(nodes)  # without what hooks have cost
    hooks = [0] * len(nodes)  # what the node and all calls below have cost, wherever that is
    times = [_UNKNOWN] * len(nodes)
    for index in range(len(nodes) - 1, -1, -1):
        node = nodes[index]
        inner, outer = calls.costs[node.hook]
        own = node.timed * inner + around[index]
        total = callees[index]
        hooks[index] += node.timed * outer
        if node.timed:
            self_ = max(0, node.self_ticks - own)
            # those of coroutines go on when the call around them has ended
            are_inside = node.self_ticks + measured[index] <= node.total_ticks
            # a call that took less than hooks cost has no time, and the rest was not inside it
            least = self_ + (callees[index] if are_inside else 0)
            total = max(least, node.total_ticks - below[index] - own)
            doubt = node.timed * outer + around[index]
            times[index] = NodeTimes(total, self_, node.self_ticks - self_, doubt, hooks[index])
        if node.parent >= 0:
            around[node.parent] += node.timed * max(0, outer - inner)
            below[node.parent] += below[index] + own
            measured[node.parent] += node.total_ticks if node.timed else measured[index]
            callees[node.parent] += total
            hooks[node.parent] += hooks[index]
    return times


def _estimated(calls: ReportedCalls, nodes: list[CallNode], means: Means) -> list[NodeTimes]:
    """Take the calls that were timed for all; where none was, those of the function elsewhere."""
    below = [0.0] * len(nodes)  # what all calls below have cost
    around = [0.0] * len(nodes)  # what those right below have cost, outside of their own times
    callees = [0.0] * len(nodes)  # totals of the nodes right below
    doubts = [0.0] * len(nodes)  # by how much those may be wrong
    times = [_UNKNOWN] * len(nodes)
    for index in range(len(nodes) - 1, -1, -1):
        node = nodes[index]
        inner, outer = calls.costs[node.hook]
        total, doubt = callees[index], doubts[index]
        known = (node.total_ticks / node.timed, node.timed) if node.timed else None
        known = known or means.get(node.function)
        if known is not None and not node.unseen:
            mean, timed = known
            # no less than what was estimated inside: else self times say more than totals
            total = max(callees[index], (mean - inner) * node.calls - below[index])
            self_ = total - callees[index]
            overhead = node.calls * inner + around[index]
            doubt = total * _doubt(node, timed)
            hooks = node.calls * outer + around[index]
            times[index] = NodeTimes(
                round(total),
                round(self_),
                round(overhead),
                round(hooks + doubt + doubts[index]),
                round(node.calls * outer + below[index] + doubt),
            )
        if node.parent >= 0:
            below[node.parent] += below[index] + node.calls * outer
            around[node.parent] += node.calls * max(0, outer - inner)
            callees[node.parent] += total
            doubts[node.parent] += doubt
    return times


def _doubt(node: CallNode, timed: int) -> float:
    """Return by which part the total of a node's calls may be wrong if so many calls were timed.

    Calls differ by about as much as they take, and so does their mean by as much through the root
    of their number. Twice that is seldom passed. A few calls say nothing of the others.
    """
    if timed and node.timed == node.calls:
        return 0.0
    return 2 / sqrt(timed) if timed >= _FEW else 1.0
