# SPDX-License-Identifier: Apache-2.0
"""Who calls whom between the images of a process: the graph behind the pictures."""

from __future__ import annotations

from soscope.inspect.processmap import ProcessMap
from soscope.process.slots.bindings import BOUND, HOOKED, INTERPOSED, UNBOUND

COLOURS = {BOUND: "#4c6a92", UNBOUND: "#9aa5b1", INTERPOSED: "#c77700", HOOKED: "#c0241c"}
_WORST = (UNBOUND, BOUND, INTERPOSED, HOOKED)  # the last one gives an edge its colour


class Node:
    """An image, or memory that hooks lead to. `layer` is 0 for those that nobody calls."""

    __slots__ = ("index", "is_image", "is_main", "layer", "name", "order", "slots")

    def __init__(self, index: int, name: str, *, is_image: bool, is_main: bool) -> None:
        self.index = index
        self.name = name
        self.is_image = is_image
        self.is_main = is_main
        self.slots = 0
        self.layer = 0
        self.order = 0.0


class Edge:
    """Slots of `start` that lead to `end`: how many of each state, and the first names.

    `by_state` are the first names of each state.
    """

    __slots__ = ("by_state", "counts", "end", "names", "start")

    def __init__(self, start: Node, end: Node) -> None:
        self.start = start
        self.end = end
        self.counts: dict[str, int] = {}
        self.names: list[str] = []
        self.by_state: dict[str, list[str]] = {}

    @property
    def special_names(self) -> list[str]:
        """The first names of its most remarkable state."""
        return self.by_state[self.state]

    @property
    def special_total(self) -> int:
        """The number of slots of its most remarkable state."""
        return self.counts[self.state]

    @property
    def total(self) -> int:
        """The number of slots."""
        return sum(self.counts.values())

    @property
    def state(self) -> str:
        """The most remarkable state that one of its slots has."""
        return max(self.counts, key=_WORST.index)

    @property
    def label(self) -> str:
        """What it is in words."""
        said = ", ".join(f"{self.counts[one]:,} {one}" for one in _WORST if one in self.counts)
        return f"{self.start.name} → {self.end.name}: {said}"


class Graph:
    """Nodes in the loader's order, and an edge for each pair of them that has slots.

    `ranks` are the pairs of which the first is to stand above the second.
    """

    __slots__ = ("edges", "nodes", "ranks", "title")

    def __init__(self, title: str) -> None:
        self.title = title
        self.nodes: list[Node] = []
        self.edges: list[Edge] = []
        self.ranks: set[tuple[Node, Node]] = set()

    def layers(self) -> list[list[Node]]:
        """Return the nodes by layers, in the order in which they are to stand."""
        found: list[list[Node]] = [[] for _ in range(1 + max(n.layer for n in self.nodes))]
        for node in sorted(self.nodes, key=lambda one: (one.order, one.index)):
            found[node.layer].append(node)
        return [layer for layer in found if layer]


_MOST_NAMES = 12


def graph_of(found: ProcessMap) -> Graph:
    """Make the graph of a map's slots; images without any edge are left out."""
    graph = Graph(f"process {found.pid}: {found.path}")
    by_key: dict[object, Node] = {}

    def node(key: object, name: str, *, is_image: bool, is_main: bool = False) -> Node:
        if key not in by_key:
            by_key[key] = Node(len(by_key), name, is_image=is_image, is_main=is_main)
        return by_key[key]

    for image in found.images:
        node(image, image.name, is_image=True, is_main=image.is_main)
    edges: dict[tuple[Node, Node], Edge] = {}
    for image in found.images:
        start = by_key[image]
        for row in found.rows[image]:
            one = row.binding
            callee = one.to_image if one.state == HOOKED else one.to_image or one.expected
            if callee is not None:
                end = node(callee, callee.name, is_image=True)
            elif row.to_image is not None:
                end = node(row.to_image, row.to_image, is_image=False)
            else:
                continue
            edge = edges.setdefault((start, end), Edge(start, end))
            graph.ranks.add((start, end))
            if one.state == HOOKED and one.expected is not None:  # where it would stand
                graph.ranks.add((start, node(one.expected, one.expected.name, is_image=True)))
            edge.counts[one.state] = edge.counts.get(one.state, 0) + 1
            start.slots += 1
            for names in (edge.names, edge.by_state.setdefault(one.state, [])):
                if len(names) < _MOST_NAMES:
                    names.append(one.symbol)
    graph.edges = [edge for edge in edges.values() if edge.start is not edge.end]
    used = {end for edge in graph.edges for end in (edge.start, edge.end)}
    graph.nodes = [one for one in by_key.values() if one in used or one.is_main]
    if not graph.nodes:
        graph.nodes = list(by_key.values())[:1]
    arrange(graph)
    return graph


def arrange(graph: Graph) -> None:
    """Give every node its layer, below all that call it, and a place in it.

    The program stands above all. Where images call each other in a circle, the loader's order
    decides.
    """
    below: dict[Node, list[Node]] = {one: [] for one in graph.nodes}
    ranks = [one for one in graph.ranks if one[0] in below and one[1] in below]
    for start, end in sorted(ranks, key=lambda one: (one[0].index, one[1].index)):
        is_mutual = (end, start) in graph.ranks
        if start is end or end.is_main or (is_mutual and start.index > end.index):
            continue
        below[start].append(end)
    done: set[Node] = set()
    path: set[Node] = set()
    order: list[Node] = []

    for root in graph.nodes:  # depth first without recursion; an edge that closes a circle is cut
        stack = [(root, iter(below[root]))] if root not in done else []
        done.add(root)
        path.add(root)
        while stack:
            one, rest = stack[-1]
            step = next(rest, None)
            if step is None:
                order.append(one)
                path.discard(one)
                stack.pop()
            elif step in path:
                below[one] = [other for other in below[one] if other is not step]
            elif step not in done:
                done.add(step)
                path.add(step)
                stack.append((step, iter(below[step])))
        path.discard(root)
    for one in reversed(order):
        for other in below[one]:
            other.layer = max(other.layer, one.layer + 1)
    _order_layers(graph)


def _order_layers(graph: Graph) -> None:
    """Put nodes near those that they have edges with: a few rounds of averages."""
    near: dict[Node, list[Node]] = {one: [] for one in graph.nodes}
    for edge in graph.edges:
        near[edge.start].append(edge.end)
        near[edge.end].append(edge.start)
    for layer in graph.layers():
        for place, one in enumerate(layer):
            one.order = (place + 0.5) / len(layer)
    for _ in range(8):
        for layer in graph.layers():
            wish = {
                one: sum(other.order for other in near[one]) / len(near[one])
                if near[one]
                else one.order
                for one in layer
            }
            for place, one in enumerate(sorted(layer, key=lambda n: (wish[n], n.index))):
                one.order = (place + 0.5) / len(layer)
