# SPDX-License-Identifier: Apache-2.0
"""`--graph`: the calls between images as text, as JSON or as a picture in SVG."""

from __future__ import annotations

from math import sqrt

from soscope.instruments.trace.listener import Listener
from soscope.instruments.trace.summary import ImageEdge, SummaryRow, edges_of, inside, rows_of
from soscope.model.call import printable
from soscope.report.graph import (
    BOX,
    CHAR,
    LONGEST,
    MARGIN,
    TIP,
    Arrow,
    Box,
    Boxes,
    GraphLayout,
    Point,
    Spot,
    arrange,
    free_place,
    path_of,
    taken_by,
)
from soscope.report.output import Form, Output, json_document, members
from soscope.report.trace import display as names
from soscope.report.trace.display import Display, FunctionNames, TableSettings
from soscope.report.trace.table import column, head_of, text_of, totals_of
from soscope.report.words import TableText, escaped, marked, plural, shortened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from soscope.instruments.trace.outcome import TraceOutcome


SCHEMA = "soscope/trace-graph/1"
FUNCTIONS = 3  # functions of an edge in the text
_TIMED = (names.TIME, names.SECONDS, names.CALLS, names.ERRORS, names.TOTAL, names.NAME)


class GraphListener(Listener):
    """Writes the graph at the end of a trace: to `output` and, as SVG, to `picture`.

    Each of them may be None. `settings.top` is the number of edges in the text, or None for all.
    """

    def __init__(
        self,
        output: Output | None,
        settings: TableSettings,
        display: Display,
        *,
        form: Form,
        picture: Output | None = None,
    ) -> None:
        self._output = output
        self._picture = picture
        self._top = settings.top
        self._form = form
        self._names = FunctionNames(display)

    def end(self, outcome: TraceOutcome) -> None:
        """Write the graph."""
        rows = rows_of(outcome.programs)
        edges = edges_of(rows)
        timed = any(program.stats is not None for program in outcome.programs)
        if self._output is not None:
            if self._form:
                said = json_document(self._document(outcome, edges))
                self._output.write(self._form.shaped(said))
            else:
                text = self._text(edges, timed=timed)
                outcome.has_marks = text.has_marks
                self._output.write(text)
        if self._picture is not None:
            if not all(row.is_told() for row in rows):
                outcome.has_marks = True  # each function of a line has its time there

            title = " ".join(outcome.command) or "calls between images"
            mains = {
                image.name
                for program in outcome.programs
                for image in program.images
                if image.is_main
            }
            self._picture.write(picture(title, edges, mains, self._names.shown))

    def _text(self, edges: list[ImageEdge], *, timed: bool) -> TableText:
        total = SummaryRow("", "", "total", "")
        for edge in edges:
            total.add(edge.sums)
        rows: list[SummaryRow] = []
        shown = edges if self._top is None else edges[: self._top]
        for edge in shown:
            edge.sums.symbol = printable(f"{edge.caller} -> {edge.callee}")
            rows.append(edge.sums)
            few = edge.functions[:FUNCTIONS]
            rows += [
                _row(f"  {printable(self._names.shown(function.symbol))}", [function])
                for function in few
            ]
            rows += _rest("  ", edge.functions[FUNCTIONS:])
        rows += _rest("", [edge.sums for edge in edges[len(shown) :]])
        usual = _TIMED if timed else (names.CALLS, names.NAME)
        # A recording of an older soscope has only one of the two times.
        inclusive = total.total_ns is not None and total.self_ns is None
        columns = [column(name, total, inclusive=inclusive, base=None) for name in usual]
        columns[-1].title = "caller -> callee, and its functions"
        return text_of(columns, rows, total)

    def _document(self, outcome: TraceOutcome, edges: list[ImageEdge]) -> dict[str, object]:
        return {
            "schema": SCHEMA,
            **head_of(outcome),
            "images": [
                {"name": name, **members(row, "calls self_ns doubt_ns")}
                for name, row in inside(edges).items()
            ],
            "edges": [
                {
                    **members(edge.sums, "caller callee"),
                    **_sums(edge.sums),
                    "functions": [
                        {
                            "symbol": function.symbol,
                            **self._demangled(function.symbol),
                            **_sums(function),
                        }
                        for function in edge.functions
                    ],
                }
                for edge in edges
            ],
            "totals": totals_of(outcome, sum(edge.sums.calls for edge in edges)),
        }

    def _demangled(self, symbol: str) -> dict[str, object]:
        full = self._names.full(symbol)
        return {} if full is None else {"demangled": full}


def _sums(row: SummaryRow) -> dict[str, object]:
    return {
        **members(row, "calls errors self_ns total_ns doubt_ns"),
        "lower_bound": row.is_lower_bound,
    }


def _row(name: str, rows: list[SummaryRow]) -> SummaryRow:
    row = SummaryRow("", "", name, "")
    for function in rows:
        row.add(function)
    return row


def _rest(indent: str, rows: list[SummaryRow]) -> list[SummaryRow]:
    """Return a row for hidden functions, if there are any."""
    return [_row(f"{indent}({len(rows):,} more)", rows)] if rows else []


# The picture of calls between images, as SVG.
#
# A line is wider the more time its calls take, and a box darker the more time is spent in its
# image. The colours suit light and dark pages. The file contains everything it shows: nothing is
# loaded, and no script runs.

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
