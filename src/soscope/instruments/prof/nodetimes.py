# SPDX-License-Identifier: Apache-2.0
"""Times of calls that instrumented code reported, corrected for the cost of reporting.

An empty call appears to take `inner` ticks, and costs its caller `outer` ticks in total. The
difference is part of the time of the call around it.
"""

from __future__ import annotations

from math import sqrt

from soscope.instruments.prof.tree import CallNode, ReportedCalls, ThreadCalls
from soscope.model.image import Record

_FEW = 30  # with fewer calls, a mean tells little


class NodeTimes(Record):
    """Ticks of a node's calls: `total` includes the calls inside them, and `self_` does not.

    Both are without the cost of hooks. `overhead` is what has been subtracted from `self_`.
    `doubt` is the possible error of `self_`, as hooks may cost twice as much or nothing, compared
    with an empty call when the session began. `total_doubt` is the possible error of `total`. If
    only one call in several was timed, all values are estimates for all calls, and the errors
    include the error of the estimate. None means that no call was timed.
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

# By function: measured ticks per timed call, and the number of timed calls.
Means = dict[int, tuple[float, int]]


def means_of(calls: ReportedCalls) -> Means:
    """Return the mean time of the timed calls of each function, over all call paths."""
    sums: dict[int, tuple[int, int]] = {}
    for thread in calls.threads:
        for node in thread.nodes:
            ticks, timed = sums.get(node.function, (0, 0))
            sums[node.function] = ticks + node.total_ticks, timed + node.timed
    return {function: (ticks / timed, timed) for function, (ticks, timed) in sums.items() if timed}


def node_times(calls: ReportedCalls, thread: ThreadCalls, means: Means) -> list[NodeTimes]:
    """Return the times of a thread's nodes, in their order. `means` come from `means_of`."""
    if calls.period > 1:
        return _estimated(calls, thread.nodes, means)
    return _measured(calls, thread.nodes)


def _measured(calls: ReportedCalls, nodes: list[CallNode]) -> list[NodeTimes]:
    below = [0] * len(nodes)  # cost of hooks of calls below, in the node's total
    around = [0] * len(nodes)  # in the node's self time
    measured = [0] * len(nodes)  # measured totals of the nodes directly below
    callees = [0] * len(nodes)  # the same totals without the cost of hooks
    hooks = [0] * len(nodes)  # cost of hooks of the node and of all calls below
    times = [_UNKNOWN] * len(nodes)
    for index in range(len(nodes) - 1, -1, -1):
        node = nodes[index]
        inner, outer = calls.costs[node.hook]
        own = node.timed * inner + around[index]
        total = callees[index]
        hooks[index] += node.timed * outer
        if node.timed:
            self_ = max(0, node.self_ticks - own)
            # Calls of coroutines may go on when the call around them has ended.
            are_inside = node.self_ticks + measured[index] <= node.total_ticks
            # The time of a call that took less than its hooks cost is 0. The rest of that cost was
            # not inside it.
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
    """Estimate all calls from the timed ones, or from the function's calls on other paths."""
    below = [0.0] * len(nodes)  # cost of hooks of all calls below
    around = [0.0] * len(nodes)  # of the calls directly below, outside of their own times
    callees = [0.0] * len(nodes)  # totals of the nodes directly below
    doubts = [0.0] * len(nodes)  # possible errors of these totals
    times = [_UNKNOWN] * len(nodes)
    for index in range(len(nodes) - 1, -1, -1):
        node = nodes[index]
        inner, outer = calls.costs[node.hook]
        total, doubt = callees[index], doubts[index]
        known = (node.total_ticks / node.timed, node.timed) if node.timed else None
        known = known or means.get(node.function)
        if known is not None and not node.unseen:
            mean, timed = known
            # At least the estimates inside, else self times would exceed totals.
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
    """Return the relative error of the total of a node's calls, if `timed` calls were timed.

    Times of calls differ by about their mean, so the error of the mean is the mean divided by the
    root of their number. Twice that is seldom exceeded. A few calls tell nothing about the
    others.
    """
    if timed and node.timed == node.calls:
        return 0.0
    return 2 / sqrt(timed) if timed >= _FEW else 1.0
