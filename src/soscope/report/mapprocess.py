# SPDX-License-Identifier: Apache-2.0
"""The graph of calls between the images of a process, behind the pictures."""

from __future__ import annotations

from soscope.inspect.map.processmap import ProcessMap
from soscope.live.slots.bindings import BOUND, HOOKED, INTERPOSED, UNBOUND
from soscope.report.graph.boxes import Arrow, Box, Boxes, arrange

COLOURS = {BOUND: "#4c6a92", UNBOUND: "#9aa5b1", INTERPOSED: "#c77700", HOOKED: "#c0241c"}
_WORST = (UNBOUND, BOUND, INTERPOSED, HOOKED)  # ascending; the last one decides the colour


class Node(Box):
    """An image, or memory that hooks lead to."""

    __slots__ = ("is_image", "slots")

    def __init__(self, index: int, name: str, *, is_image: bool, is_main: bool) -> None:
        super().__init__(index, name, is_main=is_main)
        self.is_image = is_image
        self.slots = 0


class Edge(Arrow):
    """The slots of `start` that lead to `end`: how many of each state, and the first names.

    `by_state` are the first names of each state.
    """

    __slots__ = ("by_state", "counts", "names")

    start: Node
    end: Node

    def __init__(self, start: Node, end: Node) -> None:
        super().__init__(start, end)
        self.counts: dict[str, int] = {}
        self.names: list[str] = []
        self.by_state: dict[str, list[str]] = {}

    @property
    def special_names(self) -> list[str]:
        """Return the first names of its most remarkable state."""
        return self.by_state[self.state]

    @property
    def special_total(self) -> int:
        """Return the number of slots of its most remarkable state."""
        return self.counts[self.state]

    @property
    def total(self) -> int:
        """Return the number of slots."""
        return sum(self.counts.values())

    @property
    def state(self) -> str:
        """Return the most remarkable state of its slots."""
        return max(self.counts, key=_WORST.index)

    @property
    def label(self) -> str:
        """Return a description in words."""
        said = ", ".join(
            f"{self.counts[state]:,} {state}" for state in _WORST if state in self.counts
        )
        return f"{self.start.name} → {self.end.name}: {said}"


class Graph(Boxes):
    """Nodes in the loader's order, and an edge for each pair of them with slots."""

    __slots__ = ("edges", "nodes")

    def __init__(self, title: str) -> None:
        super().__init__(title)
        self.nodes: list[Node] = []
        self.edges: list[Edge] = []


_MOST_NAMES = 12


def graph_of(process_map: ProcessMap) -> Graph:
    """Make the graph of a map's slots. Images without any edge are left out."""
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
            if binding.state == HOOKED and binding.expected is not None:  # where it belongs
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
