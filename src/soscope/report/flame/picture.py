# SPDX-License-Identifier: Apache-2.0
"""Flame graphs in SVG.

The outermost frame is on top. The width of a frame stands for its own weight and that of the
frames below it. The picture contains everything it shows: nothing is loaded, and no script runs.
"""

from __future__ import annotations

import colorsys
import zlib

from soscope.model.call import printable
from soscope.report.flame.tree import FlameGraph, FlameNode
from soscope.report.picture import escaped, shortened
from soscope.report.words import plural

LARGEST = 4_900_000  # bytes of a picture, at most

ROOM, MARGIN = 1180, 10  # width for frames, and margin beside them
_HEAD, _FOOT = 44, 20
_WIDTH = ROOM + 2 * MARGIN
ROW, _BAR = 18, 17
LETTER = 6.7  # width of a letter
_LEAST_LETTERS = 3
_MOST = 8000  # frames
_LONGEST = 300  # letters of a line in a tooltip
_GREY = "#d8d8d8"
_STYLE = "text{font:11px monospace}.f text{pointer-events:none}.f:hover rect{stroke:#000000}"


class _Bar:
    """A frame in the picture: `depth` rows down, with `before` weight to its left."""

    __slots__ = ("before", "depth", "node")

    def __init__(self, node: FlameNode, depth: int, before: int) -> None:
        self.node = node
        self.depth = depth
        self.before = before


class _Bars:
    """The bars of one graph. Frames of less weight than `least` are joined, or left out.

    `merged` is the number of these frames, and `merged_weight` their weight.
    """

    def __init__(self, graph: FlameGraph, least: float) -> None:
        self.graph = graph
        root = graph.root
        self.bars: list[_Bar] = []
        self.merged = self.merged_weight = 0
        self._least = least
        rest = [_Bar(root, 0, 0)] if root.weight else []
        while rest:
            bar = rest.pop()
            self.bars.append(bar)
            rest += self._below(bar)

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return 1 + max((bar.depth for bar in self.bars), default=0)

    def _below(self, bar: _Bar) -> list[_Bar]:
        """Return the bars of a frame's children, widest first. Narrow children become one bar."""
        below: list[_Bar] = []
        before, depth = bar.before, bar.depth + 1
        children = sorted(bar.node.children.values(), key=lambda child: -child.weight)
        wide = [child for child in children if child.weight >= self._least]
        for child in wide:
            below.append(_Bar(child, depth, before))
            before += child.weight
        narrow = children[len(wide) :]
        count = sum(1 for child in narrow for _ in child.all())
        rest = FlameNode(f"… {plural(count, 'narrow frame')}")
        rest.add([], sum(child.count for child in narrow), sum(child.weight for child in narrow))
        self.merged += count
        self.merged_weight += rest.weight
        if rest.weight and rest.weight >= self._least:
            rest.family = ""
            below.append(_Bar(rest, depth, before))
        return below


def document(title: str, graphs: list[FlameGraph], notes: list[str]) -> str:
    """Return the text of the picture, of at most LARGEST bytes, one graph below the other."""
    most = _MOST
    while True:
        text = _document(title, [_fitted(graph, most) for graph in graphs], notes)
        if len(text.encode()) <= LARGEST or most < 2:
            return text
        most //= 2


def _fitted(graph: FlameGraph, most: int) -> _Bars:
    """Return at most `most` bars that are at least a pixel wide."""
    weights = sorted((node.weight for node in graph.root.all()), reverse=True)
    least = max(graph.root.weight / ROOM, 1)
    if len(weights) > most:
        least = max(least, weights[most] + 1)
    return _Bars(graph, least)


def _document(title: str, graphs: list[_Bars], notes: list[str]) -> str:
    lines: list[str] = []
    y = _HEAD
    for bars in graphs:
        lines += _section(bars, y)
        y += ROW + bars.rows * ROW + _FOOT + ROW
    lines += [_text(MARGIN, y + ROW * at, note) for at, note in enumerate(notes)]
    height = y + ROW * len(notes)
    size = f'width="{_WIDTH}" height="{height}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {_WIDTH} {height}">',
            f"<title>{_line(title)}</title>",
            f"<style>{_STYLE}</style>",
            f'<rect {size} fill="#ffffff"/>',
            _text(MARGIN, 22, title, ' style="font:bold 16px sans-serif"'),
            *lines,
            "</svg>\n",
        ]
    )


def _section(bars: _Bars, y: int) -> list[str]:
    """Return the lines of one graph, from `y` on."""
    graph = bars.graph
    lines = [_text(MARGIN, y + 12, graph.head)]
    lines.append('<g class="tree">')
    lines += [_bar(bar, graph, y + ROW) for bar in bars.bars]
    lines.append("</g>")
    if bars.merged:
        frames = plural(bars.merged, "frame")
        amount = graph.amount(bars.merged_weight)
        said = f"{frames} of {amount} are too narrow to be seen: drawn together, in grey"
        lines.append(_text(MARGIN, y + ROW + bars.rows * ROW + 14, said))
    return lines


def _bar(bar: _Bar, graph: FlameGraph, top: int) -> str:
    node, whole = bar.node, graph.root.weight
    x = MARGIN + ROOM * bar.before / whole
    wide = ROOM * node.weight / whole
    y = top + bar.depth * ROW
    about = "\n".join(map(_line, node.about.split("\n")))
    share = f"{graph.amount(node.weight)} ({100 * node.weight / whole:.1f} %)"
    if graph.things and node.count:  # a caller may have calls that were not counted
        share += f" in {plural(node.count, graph.things)}"
    letters = int((wide - 6) / LETTER)
    text = ""
    if letters >= _LEAST_LETTERS:
        name = printable(node.label)
        shown = name if len(name) <= letters else f"{name[: letters - 1]}…"
        text = f'<text x="{x + 3:.1f}" y="{y + 13}">{escaped(shown)}</text>'
    return (
        f'<g class="f"><title>{about}\n{share}</title>'
        f'<rect x="{x:.1f}" y="{y}" width="{max(wide - 0.5, 0.5):.1f}" height="{_BAR}"'
        f' fill="{_colour(node.family)}"/>{text}</g>'
    )


def _colour(family: str) -> str:
    """Return a light colour, the same for all frames of one image or file."""
    if not family:
        return _GREY
    hue = zlib.crc32(family.encode("utf-8", "replace")) % 360 / 360
    parts = colorsys.hls_to_rgb(hue, 0.78, 0.65)
    return "#" + "".join(f"{round(part * 255):02x}" for part in parts)


def _text(x: float, y: float, text: str, style: str = "") -> str:
    shown = escaped(shortened(printable(text), 110 if style else 170))
    return f'<text x="{x}" y="{y}"{style}>{shown}</text>'


def _line(text: str) -> str:
    return escaped(shortened(printable(text), _LONGEST))
