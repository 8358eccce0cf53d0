# SPDX-License-Identifier: Apache-2.0
"""The map of a process for people, and the calls between its images, also for graphviz."""

from __future__ import annotations

from soscope.inspect.map.processmap import ProcessMap
from soscope.live.images.image import LoadedImage
from soscope.live.slots.bindings import BOUND, HOOKED, INTERPOSED, UNBOUND, SlotRow
from soscope.model.call import printable
from soscope.proc.maps import Mapping
from soscope.report.graph import Arrow, Box, Boxes, arrange
from soscope.report.words import plural

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# The graph of calls between the images of a process, behind the pictures.

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
    """The slots of `start` that lead to `end`.

    `counts` has their number by state, `names` their first symbols, and `by_state` the first
    symbols of each state.
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


# The graph of a process's images in the language of Graphviz.


def document(graph: Graph) -> str:
    """Return the text of the graph."""
    lines = [
        f"digraph {_quoted(graph.title)} {{",
        "  rankdir=TB;",
        '  node [shape=box, style="rounded,filled", fillcolor="#f4f6f8", fontname="sans-serif"];',
        '  edge [fontname="sans-serif", fontsize=10];',
    ]
    for node in graph.nodes:
        more = ""
        if not node.is_image:
            more = ', style="filled", fillcolor="#fbe3e1"'
        elif node.is_main:
            more = ', fillcolor="#dfe9f5"'
        lines.append(f"  n{node.index} [label={_quoted(node.name)}{more}];")
    for edge in graph.edges:
        style = ", style=dashed" if edge.state == UNBOUND else ""
        lines.append(
            f"  n{edge.start.index} -> n{edge.end.index} [label={_quoted(str(edge.total))},"
            f' color="{COLOURS[edge.state]}", tooltip={_quoted(edge.label)}{style}];'
        )
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    """Return a string of Graphviz, in which only quotes and backslashes are special."""
    plain = "".join(letter if letter.isprintable() else "?" for letter in text)
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'


# The map of a process, for people.

_SYMBOL = 40  # columns of a symbol's name


def lines_of(process_map: ProcessMap, *, only_slots: bool) -> Iterator[str]:
    """Yield the lines. `only_slots` leaves out images without slots, and mappings."""
    images = [image for image in process_map.images if process_map.rows[image]]
    shown = images if only_slots else process_map.images
    counts = process_map.counts()
    said = ", ".join(f"{number:,} {state}" for state, number in counts.items() if number)
    total = sum(counts.values())
    of = "" if total == process_map.total else f" of {process_map.total:,}"
    count = plural(len(process_map.images), "image")
    yield (
        f"process {process_map.pid} ({printable(process_map.path)}): {count},"
        f" {plural(total, 'slot')}{of}{': ' if said else ''}{said}"
    )
    for image in shown:
        yield ""
        yield _head(image, process_map.mappings[image])
        if not only_slots:
            for mapping in process_map.mappings[image]:
                place = f"{mapping.start:012x}-{mapping.end:012x}"
                yield f"  {place} {mapping.flags} {mapping.offset:8x}"
        for row in process_map.rows[image]:
            yield _slot(row)
    for name, why in process_map.damaged:
        yield f"\n{printable(name)}: not all of its slots could be read: {printable(why)}"


def _head(image: LoadedImage, mappings: Sequence[Mapping]) -> str:
    """Return the address of an image in words. An image linked for a fixed address has bias 0."""
    start = min((mapping.start for mapping in mappings), default=image.load_bias)
    where = f"{image.name} at {start:#x}"
    if start != image.load_bias:
        where += f" (load bias {image.load_bias:#x})"
    if image.namespace:
        where += f", namespace {image.namespace}"
    if image.path and image.path != image.name:
        where += f": {image.path}"
    return printable(where)


def _slot(row: SlotRow) -> str:
    binding = row.binding
    name = binding.symbol if binding.version is None else f"{binding.symbol}@{binding.version}"
    line = f"  {binding.addr:012x} {binding.state:10} {name:{_SYMBOL}} {_leads(row)}"
    return printable(line.rstrip())


def _leads(row: SlotRow) -> str:
    binding = row.binding
    if binding.state == HOOKED:
        symbol = f" {row.to_symbol}" if row.to_symbol is not None else ""
        where = f"{row.to_image}{symbol} ({binding.target:#x})"
        if binding.sites:
            where += f" through {plural(len(binding.sites), 're-aimed instruction')}"
        return f"{where}, not {row.expected_image}" if row.expected_image else where
    if binding.state == INTERPOSED:
        return f"{row.to_image}, not {row.expected_image}"
    if row.to_image is not None:
        return row.to_image
    return f"will be {row.expected_image}" if row.expected_image else "nothing"
