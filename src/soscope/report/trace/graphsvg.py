# SPDX-License-Identifier: Apache-2.0
"""The picture of calls between images, as SVG.

A line is wider the more time its calls take, and a box darker the more time is spent in its
image. The colours suit light and dark pages. The file contains everything it shows: nothing is
loaded, and no script runs.
"""

from __future__ import annotations

from math import sqrt

from soscope.instruments.trace.summary import ImageEdge, SummaryRow, inside
from soscope.report.graph.boxes import Arrow, Box, Boxes, arrange
from soscope.report.graph.drawing import TIP, Point, free_place, path_of, taken_by
from soscope.report.graph.layout import BOX, CHAR, LONGEST, MARGIN, GraphLayout, Spot
from soscope.report.picture import escaped, shortened
from soscope.report.words import marked, plural

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_HEAD = 76
_FEW = 16  # number of images; if there are more, numbers at all lines are too many
_MOST_LABELS = 40
_NAMES = 12  # functions in the tooltip of a line
_WIDEST = 7.0  # width of a line
_LETTER = 0.8 * CHAR  # width of a letter of a label

_PLAIN, _FAILING = "plain", "failing"  # kinds of lines, the second drawn over the first
_LIGHT = """\
.page{fill:#ffffff}.word{fill:#1f2933}.faint{fill:#5b6672}.box{fill:#f4f6f8;stroke:#8794a3}
.main{fill:#dfe9f5;stroke:#4c6a92}
.heat{fill:#e8a33d}.plain{stroke:#4c6a92}.failing{stroke:#c0241c}
.plaintip,.plainword{fill:#4c6a92}.failingtip,.failingword{fill:#c0241c}
.halo{stroke:#ffffff}.line{fill:none}.line:hover{stroke-opacity:1}"""
_DARK = """\
.page{fill:#15191e}.word{fill:#e6eaee}.faint{fill:#a3aeb9}.box{fill:#232a32;stroke:#6b7a89}
.main{fill:#22364f;stroke:#7fa6dc}
.heat{fill:#c77700}.plain{stroke:#7fa6dc}.failing{stroke:#ff7a70}
.plaintip,.plainword{fill:#9dbde8}.failingtip,.failingword{fill:#ff938a}.halo{stroke:#15191e}"""


class _Node(Box):
    """An image, with the sums of the calls into it."""

    __slots__ = ("sums",)

    def __init__(self, index: int, name: str, sums: SummaryRow, *, is_main: bool) -> None:
        super().__init__(index, name, is_main=is_main)
        self.sums = sums


class _Edge(Arrow):
    """The calls from one image to another."""

    __slots__ = ("calls",)

    def __init__(self, start: Box, end: Box, calls: ImageEdge) -> None:
        super().__init__(start, end)
        self.calls = calls

    @property
    def state(self) -> str:
        """Return whether any of the calls failed."""
        return _FAILING if self.calls.sums.errors else _PLAIN


class _Graph(Boxes):
    """Images and their calls. Calls within one image only count for its box."""

    __slots__ = ("edges", "nodes")

    def __init__(self, title: str, calls: list[ImageEdge], mains: set[str]) -> None:
        super().__init__(title)
        images = sorted(inside(calls).items(), key=lambda image: image[0] not in mains)
        self.nodes: list[_Node] = [
            _Node(number, name, sums, is_main=name in mains)
            for number, (name, sums) in enumerate(images)
        ]
        by_name = {node.name: node for node in self.nodes}
        self.edges: list[_Edge] = [
            _Edge(by_name[edge.caller], by_name[edge.callee], edge)
            for edge in calls
            if edge.caller != edge.callee
        ]
        self.ranks = {(edge.start, edge.end) for edge in self.edges}
        arrange(self)


def picture(
    title: str, calls: list[ImageEdge], mains: set[str], name_of: Callable[[str], str]
) -> str:
    """Return the text of the picture. `mains` are names of programs.

    `name_of` returns a function's name as it is shown.
    """
    shown = escaped(shortened(" ".join(title.split()), 90))
    head = (
        f'<text class="word" x="{MARGIN}" y="28" font-size="16" font-weight="bold">{shown}</text>'
    )
    legend = (
        "from the image that calls to the one that is called; wider: more time; red: some fail;"
        " box: time in the image itself; blue: the program"
    )
    least = max(len(shown) * 10.0, len(legend) * 0.9 * CHAR) + 2 * MARGIN
    if not calls:
        size = f'width="{least:.0f}" height="{_HEAD}"'
        text = f'<text class="faint" x="{MARGIN}" y="54">no calls were seen</text>'
        return _page(size, title, [head, text])
    graph = _Graph(title, calls, mains)
    layout = GraphLayout(graph, _HEAD, least)
    size = f'width="{layout.width:.0f}" height="{layout.height:.0f}"'
    longest = max([_weight(edge.calls.sums) for edge in graph.edges], default=0) or 1
    hottest = max(_weight(node.sums) for node in graph.nodes) or 1
    lines = [
        f"<defs>{_marker(_PLAIN)}{_marker(_FAILING)}</defs>",
        head,
        f'<text class="faint" x="{MARGIN}" y="50">{escaped(legend)}</text>',
    ]
    ordered = sorted(
        graph.edges, key=lambda edge: (edge.state == _FAILING, _weight(edge.calls.sums))
    )
    is_dense = len(graph.edges) > 60
    for edge in ordered:
        part = _weight(edge.calls.sums) / longest
        lines.append(_line(edge, layout.ways[edge], part, name_of, is_dense=is_dense))
    lines += [_box(node, layout.boxes[node], hottest) for node in graph.nodes]
    return _page(size, title, lines + _labels(graph, layout))


def _page(size: str, title: str, lines: list[str]) -> str:
    width, height = size.replace('"', "").replace("width=", "").replace("height=", "").split()
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {width} {height}"'
    return "\n".join(
        [
            head + ' font-family="sans-serif" font-size="12">',
            f"<title>{escaped(title)}</title>",
            f"<style>{_LIGHT}\n@media (prefers-color-scheme:dark){{{_DARK}}}</style>",
            f'<rect class="page" {size}/>',
            *lines,
            "</svg>\n",
        ]
    )


def _weight(row: SummaryRow) -> float:
    """Return what the width of a line or shade of a box stands for: time, else calls."""
    return row.calls if row.self_ns is None and row.total_ns is None else row.self_ns or 0


def _marker(state: str) -> str:
    return (
        f'<marker id="{state}" viewBox="0 0 8 8" refX="1" refY="4" markerWidth="{TIP}"'
        f' markerHeight="{TIP}" markerUnits="userSpaceOnUse" orient="auto">'
        f'<path class="{state}tip" d="M0 0L8 4L0 8z"/></marker>'
    )


def _line(
    edge: _Edge, way: list[Point], part: float, name_of: Callable[[str], str], *, is_dense: bool
) -> str:
    calls = edge.calls
    functions = [_said(name_of(function.symbol), function) for function in calls.functions[:_NAMES]]
    if len(calls.functions) > _NAMES:
        functions.append(f"{len(calls.functions) - _NAMES:,} more functions")
    about = "\n".join([_said(f"{calls.caller} → {calls.callee}", calls.sums), *functions])
    opacity = 0.5 if is_dense and part < 0.1 else 0.8
    return (
        f'<path class="line {edge.state}" d="{path_of(way)}" stroke-opacity="{opacity}"'
        f' stroke-width="{1 + (_WIDEST - 1) * sqrt(part):.1f}" marker-end="url(#{edge.state})">'
        f"<title>{escaped(about)}</title></path>"
    )


def _said(name: str, row: SummaryRow) -> str:
    """Return one line about some calls."""
    failed = f", {row.errors:,} failed" if row.errors else ""
    time = "" if row.self_ns is None else f", {_of_row(row)} themselves"
    total = ""
    if row.total_ns is not None:
        total = f", {marked(_time(row.total_ns), row.total_ns, row.doubt_ns)} in all"
    return f"{name}: {plural(row.calls, 'call')}{failed}{time}{total}"


def _box(node: _Node, spot: Spot, hottest: float) -> str:
    x, y = spot.x - spot.width / 2, spot.y - BOX / 2
    place = f'x="{x:.1f}" y="{y:.1f}" width="{spot.width:.1f}" height="{BOX}" rx="6"'
    sums = node.sums
    about = "not called" if not sums.calls else _of_row(sums)
    if sums.calls and sums.self_ns is None:
        about = plural(sums.calls, "call")
    heat = 0.75 * _weight(sums) / hottest
    return (
        f"<g><title>{escaped(_said(node.name, sums))}</title>"
        f'<rect class="{"main" if node.is_main else "box"}" {place}/>'
        f'<rect class="heat" {place} fill-opacity="{heat:.2f}"/>'
        f'<text class="word" x="{spot.x:.1f}" y="{spot.y - 1:.1f}" text-anchor="middle">'
        f"{escaped(shortened(node.name, LONGEST))}</text>"
        f'<text class="word" x="{spot.x:.1f}" y="{spot.y + 13:.1f}" text-anchor="middle"'
        f' font-size="10">{about}</text></g>'
    )


def _labels(graph: _Graph, layout: GraphLayout) -> list[str]:
    """Write calls and time at the lines with most time, if there is room."""
    taken = taken_by(layout)
    lines: list[str] = []
    most = _MOST_LABELS if len(graph.nodes) <= _FEW else _MOST_LABELS // 3
    for edge in sorted(graph.edges, key=lambda edge: -_weight(edge.calls.sums)):
        if len(lines) >= most:
            break
        sums = edge.calls.sums
        text = f"{sums.calls:,}"
        if sums.self_ns is not None:
            text += f" · {_of_row(sums)}"
        place = free_place(layout.ways[edge], len(text) * _LETTER + 6, taken)
        if place is None:
            continue
        x, y = place
        at = f'x="{x:.1f}" y="{y + 3.5:.1f}" text-anchor="middle" font-size="10"'
        # Twice, first as an edge in the page's colour, as not every viewer knows paint-order.
        lines.append(
            f'<text class="halo" {at} stroke-width="4" stroke-linejoin="round">{text}</text>'
            f'<text class="{edge.state}word" {at}>{text}</text>'
        )
    return lines


def _of_row(row: SummaryRow) -> str:
    """Return the own time of calls."""
    return marked(_time(row.self_ns), row.self_ns, row.doubt_ns)


def _time(ns: int | None) -> str:
    """Return a time in about three digits."""
    if ns is None:
        return "-"
    for size, unit in ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs")):
        if ns >= size:
            return f"{ns / size:.3g} {unit}" if ns < 1000 * size else f"{ns / size:.0f} {unit}"
    return f"{ns} ns"
