# SPDX-License-Identifier: Apache-2.0
"""Times of calls that instrumented code reported, without what reporting them has cost.

An empty call appears to take `inner` ticks, and costs its caller `outer` in all: the rest of those
is in the time of whatever is around it.
"""

from __future__ import annotations

from soscope.instruments.prof.tree import CallNode, ReportedCalls, ThreadCalls
from soscope.model.record import Record


class NodeTimes(Record):
    """Ticks of a node's calls: what they took with the calls inside them, and without.

    `total` and `self_` are without `overhead`, which the hooks have cost within `total`. Where one
    call in several was timed, all are what that says of all calls. None: no call was timed.
    """

    __slots__ = ("overhead", "self_", "total")

    def __init__(self, total: int | None, self_: int | None, overhead: int | None) -> None:
        self.total = total
        self.self_ = self_
        self.overhead = overhead


def node_times(calls: ReportedCalls, thread: ThreadCalls) -> list[NodeTimes]:
    """Return the times of a thread's nodes, in their order."""
    if calls.period > 1:
        return _estimated(calls, thread.nodes)
    return _measured(calls, thread.nodes)


def _measured(calls: ReportedCalls, nodes: list[CallNode]) -> list[NodeTimes]:
    inside = [0] * len(nodes)  # what calls below have cost, in the node's total
    around = [0] * len(nodes)  # in its self time
    times = [NodeTimes(None, None, None)] * len(nodes)
    for index in range(len(nodes) - 1, -1, -1):
        node = nodes[index]
        inner, outer = calls.costs[node.hook]
        own = node.timed * inner + around[index]
        all_ = inside[index] + own
        if node.timed:
            self_ = max(0, node.self_ticks - own)
            total = max(self_, node.total_ticks - all_)
            times[index] = NodeTimes(total, self_, max(0, node.total_ticks - total))
        if node.parent >= 0:
            outside = node.timed * max(0, outer - inner)
            around[node.parent] += outside
            inside[node.parent] += all_
    return times


def _estimated(calls: ReportedCalls, nodes: list[CallNode]) -> list[NodeTimes]:
    below = [0.0] * len(nodes)  # what all calls below have cost
    callees = [0.0] * len(nodes)  # totals of the nodes right below
    times = [NodeTimes(None, None, None)] * len(nodes)
    for index in range(len(nodes) - 1, -1, -1):
        node = nodes[index]
        inner, outer = calls.costs[node.hook]
        total = callees[index]
        if node.timed:
            scale = node.calls / node.timed
            cost = node.calls * inner + below[index]
            total = max(0.0, node.total_ticks * scale - cost)
            self_ = max(0.0, total - callees[index])
            overhead = node.total_ticks * scale - total
            times[index] = NodeTimes(round(total), round(self_), round(overhead))
        if node.parent >= 0:
            below[node.parent] += below[index] + node.calls * outer
            callees[node.parent] += total
    return times
