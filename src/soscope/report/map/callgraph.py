# SPDX-License-Identifier: Apache-2.0
"""Who calls whom between the images of a process: the graph behind the pictures."""

from __future__ import annotations

from soscope.inspect.map.processmap import ProcessMap
from soscope.live.slots.bindings import BOUND, HOOKED, INTERPOSED, UNBOUND

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
        said = ", ".join(
            f"{self.counts[state]:,} {state}" for state in _WORST if state in self.counts
        )
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
        layers: list[list[Node]] = [[] for _ in range(1 + max(n.layer for n in self.nodes))]
        for node in sorted(self.nodes, key=lambda node: (node.order, node.index)):
            layers[node.layer].append(node)
        return [layer for layer in layers if layer]


_MOST_NAMES = 12


def graph_of(process_map: ProcessMap) -> Graph:
    """Make the graph of a map's slots; images without any edge are left out."""
    graph = Graph(f"process {process_map.pid}: {process_map.path}")
    by_key: dict[object, Node] = {}

    def node(key: object, name: str, *, is_image: bool, is_main: bool = False) -> Node:
        if key not in by_key:
            by_key[key] = Node(len(by_key), name, is_image=is_image, is_main=is_main)
        return by_key[key]

    for image in process_map.images:
        node(image, image.name, is_image=True, is_main=image.is_main)
    edges: dict[tuple[Node, Node], Edge] = {}
    for image in process_map.images:
        start = by_key[image]
        for row in process_map.rows[image]:
            binding = row.binding
            callee = (
                binding.to_image
                if binding.state == HOOKED
                else binding.to_image or binding.expected
            )
            if callee is not None:
                end = node(callee, callee.name, is_image=True)
            elif row.to_image is not None:
                end = node(row.to_image, row.to_image, is_image=False)
            else:
                continue
            edge = edges.setdefault((start, end), Edge(start, end))
            graph.ranks.add((start, end))
            if binding.state == HOOKED and binding.expected is not None:  # where it would stand
                graph.ranks.add(
                    (start, node(binding.expected, binding.expected.name, is_image=True))
                )
            edge.counts[binding.state] = edge.counts.get(binding.state, 0) + 1
            start.slots += 1
            for names in (edge.names, edge.by_state.setdefault(binding.state, [])):
                if len(names) < _MOST_NAMES:
                    names.append(binding.symbol)
    graph.edges = [edge for edge in edges.values() if edge.start is not edge.end]
    used = {end for edge in graph.edges for end in (edge.start, edge.end)}
    graph.nodes = [node for node in by_key.values() if node in used or node.is_main]
    if not graph.nodes:
        graph.nodes = list(by_key.values())[:1]
    arrange(graph)
    return graph


def arrange(graph: Graph) -> None:
    """Give every node its layer, below all that call it, and a place in it.

    The program stands above all. Where images call each other in a circle, the loader's order
    decides.
    """
    below: dict[Node, list[Node]] = {node: [] for node in graph.nodes}
    ranks = [rank for rank in graph.ranks if rank[0] in below and rank[1] in below]
    for start, end in sorted(ranks, key=lambda rank: (rank[0].index, rank[1].index)):
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
            node, rest = stack[-1]
            step = next(rest, None)
            if step is None:
                order.append(node)
                path.discard(node)
                stack.pop()
            elif step in path:
                below[node] = [other for other in below[node] if other is not step]
            elif step not in done:
                done.add(step)
                path.add(step)
                stack.append((step, iter(below[step])))
        path.discard(root)
    for node in reversed(order):
        for other in below[node]:
            other.layer = max(other.layer, node.layer + 1)
    _order_layers(graph)


def _order_layers(graph: Graph) -> None:
    """Put nodes near those that they have edges with: a few rounds of averages."""
    near: dict[Node, list[Node]] = {node: [] for node in graph.nodes}
    for edge in graph.edges:
        near[edge.start].append(edge.end)
        near[edge.end].append(edge.start)
    for layer in graph.layers():
        for place, node in enumerate(layer):
            node.order = (place + 0.5) / len(layer)
    for _ in range(8):
        for layer in graph.layers():
            wish = {
                node: sum(other.order for other in near[node]) / len(near[node])
                if near[node]
                else node.order
                for node in layer
            }
            for place, node in enumerate(sorted(layer, key=lambda n: (wish[n], n.index))):
                node.order = (place + 0.5) / len(layer)
