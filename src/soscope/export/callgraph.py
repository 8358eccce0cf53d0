# SPDX-License-Identifier: Apache-2.0
"""A profile as functions and the calls between them, for formats without stacks.

Stacks of samples are converted to such calls, too. If a function is in a stack twice, the
outermost one gets the time.
"""

from __future__ import annotations

from soscope.export.profiles import ROOT, SAMPLES, forest_of, frame_of
from soscope.frames.names import frame_label
from soscope.instruments.prof.model import NOBODY, ProfFunction
from soscope.model.image import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.export.profiles import ExportFrame, Forest, StackTree
    from soscope.instruments.prof.model import Profile


class GraphNode(Record):
    """A function: its calls, the self time, and the samples in the function itself."""

    __slots__ = ("calls", "function", "sampled_ns", "samples", "self_ns")

    def __init__(self, function: ProfFunction) -> None:
        self.function = function
        self.calls = 0
        self.self_ns = 0
        self.samples = 0
        self.sampled_ns = 0


class GraphEdge(Record):
    """Calls of the node `callee` by the node `caller`, which may be NOBODY.

    `total_ns` is their time including nested calls. `samples` is the number of samples in them,
    and `sampled_ns` the time that these samples stand for.
    """

    __slots__ = ("callee", "caller", "calls", "sampled_ns", "samples", "total_ns")

    def __init__(self, caller: int, callee: int) -> None:
        self.caller = caller
        self.callee = callee
        self.calls = 0
        self.total_ns = 0
        self.samples = 0
        self.sampled_ns = 0


class CallGraph(Record):
    """All functions, and the calls between them by the functions' indices.

    `is_timed` tells that the time of calls is known. `uncounted` is how many arcs are left out,
    because their number of calls is not known.
    """

    __slots__ = ("edges", "has_calls", "has_samples", "is_timed", "nodes", "pid", "uncounted")

    def __init__(self) -> None:
        self.nodes: list[GraphNode] = []
        self.edges: dict[tuple[int, int], GraphEdge] = {}
        self.has_calls = False
        self.has_samples = False
        self.is_timed = False
        self.uncounted = 0
        self.pid = 0

    def edge(self, caller: int, callee: int) -> GraphEdge:
        """Return the edge between two nodes; add it if it is new."""
        key = caller, callee
        edge = self.edges.get(key)
        if edge is None:
            edge = self.edges[key] = GraphEdge(caller, callee)
        return edge

    def notes(self) -> list[str]:
        """Return notes on what the graph lacks."""
        if not self.uncounted:
            return []
        return [f"{self.uncounted:,} arcs are left out: their calls are not counted"]


def label(function: ProfFunction) -> str:
    """Return the name of a function; if that is not known, its offset in the image."""
    return frame_label(frame_of(function).where)


def call_graph_of(profile: Profile) -> CallGraph:
    """Return the functions and calls of a profile, over all threads."""
    graph = CallGraph()
    graph.nodes = [GraphNode(function) for function in profile.functions]
    _add_arcs(graph, profile)
    for place, (node, sums) in enumerate(zip(graph.nodes, profile.sums, strict=True)):
        if sums.self_ns is not None:
            node.self_ns = max(0, sums.self_ns)
            graph.is_timed = True
        if sums.calls is not None and sums.calls > node.calls:
            graph.edge(NOBODY, place).calls += sums.calls - node.calls
            node.calls = sums.calls
    graph.has_calls = any(node.calls for node in graph.nodes)
    forest = forest_of(profile)
    graph.pid = forest.pid
    _add_samples(graph, forest)
    return graph


def _add_arcs(graph: CallGraph, profile: Profile) -> None:
    for arc in profile.arcs:
        if arc.calls is None:
            graph.uncounted += 1
            continue
        edge = graph.edge(arc.caller, arc.callee)
        node = graph.nodes[arc.callee]
        edge.calls += arc.calls
        node.calls += arc.calls
        if arc.total_ns is not None:
            edge.total_ns += max(0, arc.total_ns)
            graph.is_timed = True
        if arc.self_ns is not None:
            node.self_ns += max(0, arc.self_ns)
            graph.is_timed = True


def _add_samples(graph: CallGraph, forest: Forest) -> None:
    places: dict[tuple[str, str, str | None], int] = {
        (node.function.image, node.function.symbol, None): place
        for place, node in reversed(list(enumerate(graph.nodes)))
    }
    known: dict[int, int] = {}  # by frames

    def place_of(number: int) -> int:
        place = known.get(number)
        if place is None:
            function, key = _function(forest.frames[number])
            place = places.setdefault(key, len(graph.nodes))
            if place == len(graph.nodes):
                graph.nodes.append(GraphNode(function))
            known[number] = place
        return place

    for tree in forest.trees:
        if tree.kind == SAMPLES:
            graph.has_samples = True
            _add_tree(graph, tree, [place_of(number) for number in tree.frames])


def _function(frame: ExportFrame) -> tuple[ProfFunction, tuple[str, str, str | None]]:
    """Return the function of a sampled frame, and a key that identifies it."""
    where, label = frame.where, frame.label()
    if where.image is None:
        return ProfFunction("", label, file=where.file), ("", label, where.file)
    function = ProfFunction(where.image, label, frame.addr, path=frame.path, file=where.file)
    return function, (where.image, label, None)


def _add_tree(graph: CallGraph, tree: StackTree, places: list[int]) -> None:
    """Add the samples of a thread; `places` are the nodes of its frames."""
    samples, times = list(tree.counts), list(tree.self_ns)
    for number in range(len(places) - 1, -1, -1):  # children come behind their parents
        node, parent = graph.nodes[places[number]], tree.parents[number]
        node.samples += tree.counts[number]
        node.sampled_ns += tree.self_ns[number]
        if parent != ROOT:
            samples[parent] += samples[number]
            times[parent] += times[number]
    above: list[frozenset[int]] = []  # for each node, the functions around it in its stack
    for number, place in enumerate(places):
        parent = tree.parents[number]
        around = frozenset() if parent == ROOT else above[parent] | {places[parent]}
        above.append(around)
        edge = graph.edge(NOBODY if parent == ROOT else places[parent], place)
        edge.samples += samples[number]
        if place not in around:
            edge.sampled_ns += times[number]
