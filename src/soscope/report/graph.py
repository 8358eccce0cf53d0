# SPDX-License-Identifier: Apache-2.0
"""Place the boxes and lines of a graph in a picture, and draw the lines."""

from __future__ import annotations

from itertools import pairwise

from soscope.report.words import shortened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence


# Boxes and lines between them, and the order of the boxes in a picture.


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


# The layout of a graph: boxes in rows, and the points of the lines.
#
# The method is Sugiyama's. A line that crosses rows gets a gate in each of them, so that it passes
# between the boxes (unless there are far too many). Boxes and gates are put in an order with few
# crossings, and then as near to their neighbours as there is room. Lines of the same kind to the
# same box share their gates, so they run together to their end.

BOX = 40  # height of a box
MARGIN = 24
CHAR = 7.2  # approximate width of a letter of the font
_GAP = 20  # gap between boxes
_LANE = 9  # gap between lines, and from a line to a box
_ROW = 104  # distance between rows
_WIDEST = 1400  # width at which a layer is broken into rows
_SWEEPS = 12
_PORT = 12  # gap between the ends of lines at a box
LONGEST = 28  # letters of a name, at most
_MOST_CROSSED = 20_000  # rows that all lines cross; if there are more, lines are drawn behind boxes


class Spot:
    """A box, or a gap through which lines pass a row. `x` and `y` are its middle.

    `node` is the box, None for a gap.
    """

    __slots__ = ("above", "below", "node", "row", "width", "x", "y")

    def __init__(self, node: Box | None, row: int, width: float) -> None:
        self.node = node
        self.row = row
        self.width = width
        self.x = self.y = 0.0
        self.above: dict[Spot, None] = {}  # in the order in which they were found
        self.below: dict[Spot, None] = {}


class GraphLayout:
    """The places of the boxes, and the points of the line of each edge.

    A line has a point at its start, a point for the middle of each gate, and a point at its end.
    """

    __slots__ = ("boxes", "height", "ways", "width")

    def __init__(self, graph: Boxes, top: float, least: float) -> None:
        """Place everything below `top`, in a picture that is at least `least` wide."""
        rows = _rows(graph)
        self.boxes: dict[Box, Spot] = {spot.node: spot for row in rows for spot in row if spot.node}
        chains = _chains(graph, self.boxes, rows)
        _order(rows)
        _straighten(rows)
        low = min(spot.x - spot.width / 2 for row in rows for spot in row)
        high = max(spot.x + spot.width / 2 for row in rows for spot in row)
        self.width = max(high - low + 2 * MARGIN, least)
        shift = (self.width - high - low) / 2
        for row in rows:
            for spot in row:
                spot.x += shift
                spot.y = top + BOX / 2 + spot.row * _ROW
        self.height = top + (len(rows) - 1) * _ROW + BOX + MARGIN
        self.ways = _ways(chains)


def _width(node: Box) -> float:
    return max(len(shortened(node.name, LONGEST)), 8) * CHAR + 24


def _rows(graph: Boxes) -> list[list[Spot]]:
    rows: list[list[Spot]] = []
    for layer in graph.layers():
        wide = sum(_width(node) + _GAP for node in layer)
        parts = -(-wide // _WIDEST)
        row: list[Spot] = []
        used = 0.0
        rows.append(row)
        for node in layer:
            if row and used + _width(node) / 2 > wide / parts:
                row, used = [], 0.0
                rows.append(row)
            row.append(Spot(node, len(rows) - 1, _width(node)))
            used += _width(node) + _GAP
    return rows


def _chains(
    graph: Boxes, boxes: dict[Box, Spot], rows: list[list[Spot]]
) -> dict[Arrow, list[Spot]]:
    """Return the boxes and gates of each line, and add the gates to the rows."""
    gates: dict[tuple[Box, str, int, bool], Spot] = {}
    chains = {}
    crossed = sum(abs(boxes[edge.start].row - boxes[edge.end].row) for edge in graph.edges)
    has_gates = crossed <= _MOST_CROSSED
    for edge in graph.edges:
        start, end = boxes[edge.start], boxes[edge.end]
        step = 1 if start.row < end.row else -1
        chain = [start]
        between = range(start.row + step, end.row, step) if start.row != end.row else ()
        for row in between if has_gates else ():
            key = edge.end, edge.state, row, step > 0
            if key not in gates:
                gates[key] = Spot(None, row, 0.0)
                rows[row].append(gates[key])
            chain.append(gates[key])
        chain.append(end)
        chains[edge] = chain
        for spot, other in pairwise(chain):
            upper, lower = (spot, other) if spot.row <= other.row else (other, spot)
            if upper.row != lower.row:
                upper.below[lower] = None
                lower.above[upper] = None
    return chains


def _order(rows: list[list[Spot]]) -> None:
    """Sort each row by the places of neighbours, downwards and upwards alternately."""
    for row in rows:
        for place, spot in enumerate(row):
            spot.x = (place + 0.5) / len(row)
    for sweep in range(_SWEEPS):
        is_down = sweep % 2 == 0
        for row in rows if is_down else reversed(rows):
            wish = {spot: _mean(spot.above if is_down else spot.below, spot.x) for spot in row}
            row.sort(key=wish.__getitem__)
            for place, spot in enumerate(row):
                spot.x = (place + 0.5) / len(row)


def _mean(spots: Collection[Spot], otherwise: float) -> float:
    return sum(spot.x for spot in spots) / len(spots) if spots else otherwise


def _straighten(rows: list[list[Spot]]) -> None:
    """Move everything as near to its neighbours as the order allows."""
    for row in rows:
        _put(row, lambda _: 0.0)
    for sweep in range(_SWEEPS):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            _put(row, lambda spot: _mean([*spot.above, *spot.below], spot.x))


def _put(row: list[Spot], wish: Callable[[Spot], float]) -> None:
    """Place a row in order, with least squares of the distances from the wished places.

    Without the gaps between them this is an isotonic regression: neighbours that would overlap
    are pooled.
    """
    offsets = []
    at = 0.0
    for place, spot in enumerate(row):
        if place:
            before = row[place - 1]
            gap = _GAP if before.node and spot.node else _LANE
            at += (before.width + spot.width) / 2 + gap
        offsets.append(at)
    pools: list[tuple[float, int]] = []  # (mean, number)
    for spot, offset in zip(row, offsets, strict=True):
        mean, count = wish(spot) - offset, 1
        while pools and pools[-1][0] > mean:
            other, more = pools.pop()
            mean, count = (mean * count + other * more) / (count + more), count + more
        pools.append((mean, count))
    place = 0
    for mean, count in pools:
        for _ in range(count):
            row[place].x = mean + offsets[place]
            place += 1


def _ways(chains: dict[Arrow, list[Spot]]) -> dict[Arrow, list[tuple[float, float]]]:
    """Return the points of each line. At a box, the ends of lines are side by side."""
    # (box, below it) -> (neighbour, whether the line ends here) -> x
    ports: dict[tuple[Spot, bool], dict[tuple[Spot, bool], float]] = {}

    def ends(chain: list[Spot]) -> list[tuple[Spot, Spot, bool]]:
        return [(chain[0], chain[1], False), (chain[-1], chain[-2], True)]

    def side(box: Spot, other: Spot) -> tuple[Spot, bool]:
        return box, other.row >= box.row

    for chain in chains.values():
        for box, other, is_end in ends(chain):
            ports.setdefault(side(box, other), {})[other, is_end] = 0.0
    for (box, _), places in ports.items():
        step = min(_PORT, (box.width - 20) / max(len(places) - 1, 1))
        # So that two boxes have the lines between them in the same order.
        ordered = sorted(places, key=lambda end: (end[0].x, end[1] == (end[0].row > box.row)))
        for place, key in enumerate(ordered):
            places[key] = box.x + (place - (len(ordered) - 1) / 2) * step
    ways = {}
    for edge, chain in chains.items():
        first, last = (
            (
                ports[side(box, other)][other, is_end],
                box.y + (BOX if side(box, other)[1] else -BOX) / 2,
            )
            for box, other, is_end in ends(chain)
        )
        ways[edge] = [first, *((spot.x, spot.y) for spot in chain[1:-1]), last]
    return ways


# Parts that pictures of boxes and lines share: the paths of lines, and room for labels.

TIP = 7  # length of an arrow's head

Point = tuple[float, float]
Area = tuple[float, float, float, float]  # left, top, right, bottom


def path_of(way: list[Point]) -> str:
    """Return the path of a line through its points, up to the head of its arrow."""
    (x, y), *middle, (end_x, end_y) = way
    path = f"M{x:.1f} {y:.1f}"
    down = 1 if end_y > y or (end_y == y and not middle) else -1
    if end_y == y:  # neighbours in a row: a curve below both
        path += f"C{x:.1f} {y + 34:.1f} {end_x:.1f} {y + 34:.1f} {end_x:.1f} {y + TIP:.1f}"
    else:
        for at_x, at_y in middle:
            path += _curve(x, y, at_x, at_y - down * BOX / 2)
            x, y = at_x, at_y + down * BOX / 2
            path += f"V{y:.1f}"
        path += _curve(x, y, end_x, end_y - down * TIP)
    return path


def _curve(x: float, y: float, end_x: float, end_y: float) -> str:
    bend = (end_y - y) / 2
    return f"C{x:.1f} {y + bend:.1f} {end_x:.1f} {end_y - bend:.1f} {end_x:.1f} {end_y:.1f}"


def taken_by(layout: GraphLayout) -> list[Area]:
    """Return the areas of the boxes."""
    return [
        (spot.x - spot.width / 2, spot.y - BOX / 2, spot.x + spot.width / 2, spot.y + BOX / 2)
        for spot in layout.boxes.values()
    ]


def free_place(way: list[Point], width: float, taken: list[Area]) -> Point | None:
    """Find room for a label on a line's first segment, and occupy it; None if there is none."""
    (x, y), (end_x, end_y), *rest = way
    if end_y == y:
        end_y = y + 50
    elif rest:
        end_y -= BOX / 2 if end_y > y else -BOX / 2
    for part in (0.5, 0.4, 0.6, 0.3, 0.7, 0.8, 0.2):
        at_x = x + (end_x - x) * part * part * (3 - 2 * part)
        at_y = y + (end_y - y) * part
        if (end_y - y) and abs(at_y - y) < 9:
            continue
        box = at_x - width / 2, at_y - 6, at_x + width / 2, at_y + 6
        if any(
            box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3]
            for other in taken
        ):
            continue
        taken.append(box)
        return at_x, at_y
    return None
