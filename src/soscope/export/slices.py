# SPDX-License-Identifier: Apache-2.0
"""A tree of stacks laid out on a time line, for viewers that only know slices.

A profile does not have the time of single calls. A slice is a call path. It is as long as all its
calls together, with the call paths inside it at its start, the longest first.
"""

from __future__ import annotations

from soscope.export.profiles import CALLS, ROOT, SAMPLES
from soscope.model.image import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from soscope.export.profiles import Forest, StackTree


class SliceEnd(Record):
    """Where a node's slice begins or ends, in nanoseconds; in calls if no time is known."""

    __slots__ = ("at", "is_begin", "node")

    def __init__(self, node: int, at: int, *, is_begin: bool) -> None:
        self.node = node
        self.at = at
        self.is_begin = is_begin


def slices_of(tree: StackTree) -> Iterator[SliceEnd]:
    """Yield beginnings and ends in order, properly nested."""
    widths = list(tree.weights())
    inside: dict[int, list[int]] = {}
    for node in range(len(widths) - 1, -1, -1):  # children come behind their parents
        parent = tree.parents[node]
        inside.setdefault(parent, []).append(node)
        if parent != ROOT:
            widths[parent] += widths[node]
    for nodes in inside.values():
        nodes.sort(key=lambda node: (widths[node], -node))  # the last one is popped first
    at = 0
    left = inside.get(ROOT, [])
    todo = [(node, False) for node in left]
    begins: dict[int, int] = {}
    while todo:
        node, is_end = todo.pop()
        if is_end:
            at = begins.pop(node) + widths[node]
            yield SliceEnd(node, at, is_begin=False)
            continue
        begins[node] = at
        yield SliceEnd(node, at, is_begin=True)
        todo.append((node, True))
        todo += [(child, False) for child in inside.get(node, [])]


def said_of(tree: StackTree, node: int) -> list[tuple[str, int]]:
    """Return names and values of the known numbers of a node."""
    said = [(tree.kind, tree.counts[node])]
    if tree.is_timed:
        said.append(("self_ns", tree.self_ns[node]))
    total_ns = tree.total_ns[node]
    if total_ns is not None:
        said.append(("total_ns", total_ns))
    return said


def notes_of_slices(forest: Forest) -> list[str]:
    """Return notes on the meaning of slices."""
    notes = ["a profile has no times of single calls: a slice is all calls of one way together"]
    notes += [
        f"the time of {kind} is not known: each is shown as one nanosecond"
        for kind in (CALLS, SAMPLES)
        if any(tree.kind == kind and not tree.is_timed for tree in forest.trees)
    ]
    return notes + forest.notes()
