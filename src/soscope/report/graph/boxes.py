# SPDX-License-Identifier: Apache-2.0
"""Boxes and lines between them, and the order of the boxes in a picture."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class Box:
    """A node of the graph, with a name.

    `index` is its place in the loader's order. `layer` is 0 for boxes without incoming lines.
    """

    __slots__ = ("index", "is_main", "layer", "name", "order")

    def __init__(self, index: int, name: str, *, is_main: bool) -> None:
        self.index = index
        self.name = name
        self.is_main = is_main
        self.layer = 0
        self.order = 0.0


class Arrow:
    """A line from one box to another. Lines of one `state` to the same box are joined."""

    __slots__ = ("end", "start")

    start: Box
    end: Box

    def __init__(self, start: Box, end: Box) -> None:
        self.start = start
        self.end = end

    @property
    def state(self) -> str:
        """Return the kind of line."""
        return ""


class Boxes:
    """Boxes in the loader's order, and the lines between them.

    `ranks` are pairs of boxes of which the first has to be above the second.
    """

    __slots__ = ("ranks", "title")

    nodes: Sequence[Box]
    edges: Sequence[Arrow]

    def __init__(self, title: str) -> None:
        self.title = title
        self.ranks: set[tuple[Box, Box]] = set()

    def layers(self) -> list[list[Box]]:
        """Return the boxes by layers, each in its order."""
        layers: list[list[Box]] = [[] for _ in range(1 + max(box.layer for box in self.nodes))]
        for box in sorted(self.nodes, key=lambda box: (box.order, box.index)):
            layers[box.layer].append(box)
        return [layer for layer in layers if layer]


def arrange(graph: Boxes) -> None:
    """Give each box its layer, below all boxes that call it, and a place in the layer.

    The program is above all. If images call each other in a cycle, the loader's order decides.
    """
    below: dict[Box, list[Box]] = {box: [] for box in graph.nodes}
    ranks = [rank for rank in graph.ranks if rank[0] in below and rank[1] in below]
    for start, end in sorted(ranks, key=lambda rank: (rank[0].index, rank[1].index)):
        is_mutual = (end, start) in graph.ranks
        if start is end or end.is_main or (is_mutual and start.index > end.index):
            continue
        below[start].append(end)
    done: set[Box] = set()
    path: set[Box] = set()
    order: list[Box] = []

    for root in graph.nodes:  # depth first; an edge that closes a cycle is ignored
        stack = [(root, iter(below[root]))] if root not in done else []
        done.add(root)
        path.add(root)
        while stack:
            box, rest = stack[-1]
            step = next(rest, None)
            if step is None:
                order.append(box)
                path.discard(box)
                stack.pop()
            elif step in path:
                below[box] = [other for other in below[box] if other is not step]
            elif step not in done:
                done.add(step)
                path.add(step)
                stack.append((step, iter(below[step])))
        path.discard(root)
    for box in reversed(order):
        for other in below[box]:
            other.layer = max(other.layer, box.layer + 1)
    _order_layers(graph)


def _order_layers(graph: Boxes) -> None:
    """Move boxes near the boxes that they have edges with, by a few rounds of averages."""
    near: dict[Box, list[Box]] = {box: [] for box in graph.nodes}
    for edge in graph.edges:
        near[edge.start].append(edge.end)
        near[edge.end].append(edge.start)
    for layer in graph.layers():
        for place, box in enumerate(layer):
            box.order = (place + 0.5) / len(layer)
    for _ in range(8):
        for layer in graph.layers():
            wish = {
                box: sum(other.order for other in near[box]) / len(near[box])
                if near[box]
                else box.order
                for box in layer
            }
            for place, box in enumerate(sorted(layer, key=lambda n: (wish[n], n.index))):
                box.order = (place + 0.5) / len(layer)
