# SPDX-License-Identifier: Apache-2.0
"""The picture of who calls whom between the images of a process, as SVG.

Images stand in layers, each below those that call it; a line is as wide as there are slots.
The file holds everything it shows: nothing is loaded, and no script runs.
"""

from __future__ import annotations

from math import log2

from soscope.process.slots.bindings import BOUND, HOOKED, INTERPOSED, UNBOUND
from soscope.report.callgraph import COLOURS, Edge, Graph, Node

_BOX = 34  # height
_CHAR = 7.2  # width of a letter of the font, about
_GAP = 18  # between boxes of a row
_ROW = 84  # from row to row of one layer
_LAYER = 110  # from layer to layer
_WIDTH = 1500  # where a layer is broken into rows
_MARGIN = 24
_HEAD = 64
_LONGEST = 34  # letters of a name
_FEW = 24  # images: with more of them, lines behind boxes cannot be helped
_SIDE = 70
_CLEAR = 12  # from a line to a box that it goes round
_FARTHEST = 300


class _Box:
    """Where a node stands: the middle of its box, and its width."""

    __slots__ = ("width", "x", "y")

    def __init__(self, x: float, y: float, width: float) -> None:
        self.x = x
        self.y = y
        self.width = width


def document(graph: Graph) -> str:
    """Return the text of the picture."""
    boxes, width, height = _place(graph)
    size = f'width="{width:.0f}" height="{height:.0f}"'
    view = f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="sans-serif" font-size="12"'
    title = _escaped(_shortened(graph.title, 90))
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {view}>',
        f"<title>{_escaped(graph.title)}</title>",
        f'<rect {size} fill="#ffffff"/>',
        f'<text x="{_MARGIN}" y="26" font-size="15" font-weight="bold">{title}</text>',
        *_legend(),
    ]
    # what is remarkable is drawn over the rest
    ordered = sorted(graph.edges, key=lambda one: (list(_SHOWN).index(one.state), one.total))
    lines += [_line(edge, boxes) for edge in ordered]
    lines += [_box(node, boxes[node]) for node in graph.nodes]
    return "\n".join([*lines, "</svg>"]) + "\n"


_SHOWN = {
    UNBOUND: "unbound: bound at the first call",
    BOUND: "bound",
    INTERPOSED: "interposed",
    HOOKED: "hooked",
}


def _legend() -> list[str]:
    lines = []
    x: float = _MARGIN
    for state, words in _SHOWN.items():
        dash = ' stroke-dasharray="5 4"' if state == UNBOUND else ""
        lines.append(
            f'<path d="M{x:.0f} 44 h28" stroke="{COLOURS[state]}" stroke-width="3"{dash}/>'
            f'<text x="{x + 34:.0f}" y="48" fill="#333333">{words}</text>'
        )
        x += 34 + _CHAR * len(words) + 24
    return lines


def _place(graph: Graph) -> tuple[dict[Node, _Box], float, float]:
    """Return where every node stands, and the size of the picture."""
    rows: list[tuple[list[Node], float]] = []
    y: float = _HEAD + _BOX
    for layer in graph.layers():
        row: list[Node] = []
        used = 0.0
        for node in layer:
            if row and used + _width(node) > _WIDTH:
                rows.append((row, y))
                y += _ROW
                row, used = [], 0.0
            row.append(node)
            used += _width(node) + _GAP
        rows.append((row, y))
        y += _LAYER
    widest = max(sum(_width(node) + _GAP for node in row) for row, _ in rows)
    width = max(widest - _GAP + 2 * _MARGIN, 640.0)
    width += 2 * _SIDE  # for lines that go round
    boxes: dict[Node, _Box] = {}
    for row, at in rows:
        x = (width - sum(_width(node) + _GAP for node in row) + _GAP) / 2
        for node in row:
            boxes[node] = _Box(x + _width(node) / 2, at, _width(node))
            x += _width(node) + _GAP
    return boxes, width, rows[-1][1] + _BOX / 2 + _MARGIN


def _width(node: Node) -> float:
    return max(len(_shortened(node.name, _LONGEST)), 8) * _CHAR + 20


def _line(edge: Edge, boxes: dict[Node, _Box]) -> str:
    start, end = boxes[edge.start], boxes[edge.end]
    down = start.y <= end.y
    y1 = start.y + (_BOX / 2 if down else -_BOX / 2)
    y2 = end.y - (_BOX / 2 if down else -_BOX / 2)
    bend = abs(y2 - y1) / 2
    if start.y == end.y:  # neighbours: below both of them
        y2, bend = end.y + _BOX / 2, _ROW / 2 - 6
        curve = f"C{start.x:.1f} {y1 + bend:.1f} {end.x:.1f} {y2 + bend:.1f} {end.x:.1f} {y2:.1f}"
    else:
        one, two = (y1 + bend, y2 - bend) if down else (y1 - bend, y2 + bend)
        aside = 0.0
        if len(boxes) <= _FEW or edge.state in (INTERPOSED, HOOKED):
            aside = _aside(start, end, boxes)
        curve = (
            f"C{start.x + aside:.1f} {one:.1f} {end.x + aside:.1f} {two:.1f} {end.x:.1f} {y2:.1f}"
        )
    dash = ' stroke-dasharray="5 4"' if edge.state == UNBOUND else ""
    faint = "0.9" if edge.state in (INTERPOSED, HOOKED) else "0.45"
    names = ", ".join(edge.names) + (", …" if edge.total > len(edge.names) else "")
    return (
        f'<path d="M{start.x:.1f} {y1:.1f}{curve}" fill="none" stroke="{COLOURS[edge.state]}"'
        f' stroke-width="{1 + log2(edge.total) / 3:.1f}" stroke-opacity="{faint}"{dash}>'
        f"<title>{_escaped(edge.label)}\n{_escaped(names)}</title></path>"
        f'<circle cx="{end.x:.1f}" cy="{y2:.1f}" r="3" fill="{COLOURS[edge.state]}"/>'
    )


def _aside(start: _Box, end: _Box, boxes: dict[Node, _Box]) -> float:
    """Return how far a line has to be bent aside, to go round the boxes in its way."""
    low, high = sorted((start.y, end.y))
    aside = 0.0
    for box in boxes.values():
        if not low + _BOX < box.y < high - _BOX:
            continue
        part = (box.y - start.y) / (end.y - start.y)
        at = start.x + (end.x - start.x) * part * part * (3 - 2 * part)
        room = box.width / 2 + _CLEAR - abs(at - box.x)
        if room > 0:  # the curve goes three times part * (1 - part) of what its handles do
            side = 1 if at >= box.x else -1
            need = room / (3 * part * (1 - part))
            aside = side * max(abs(aside), need)
    return max(-_FARTHEST, min(_FARTHEST, aside))


def _box(node: Node, box: _Box) -> str:
    fill, line = "#f4f6f8", "#8794a3"
    if not node.is_image:
        fill, line = "#fbe3e1", COLOURS[HOOKED]
    elif node.is_main:
        fill, line = "#dfe9f5", COLOURS[BOUND]
    x, y = box.x - box.width / 2, box.y - _BOX / 2
    slots = f"{node.slots:,} slots" if node.slots else "no slots"
    return (
        f'<g><title>{_escaped(node.name)}: {slots}</title><rect x="{x:.1f}" y="{y:.1f}"'
        f' width="{box.width:.1f}" height="{_BOX}" rx="6" fill="{fill}" stroke="{line}"/>'
        f'<text x="{box.x:.1f}" y="{box.y + 4:.1f}" text-anchor="middle">'
        f"{_escaped(_shortened(node.name, _LONGEST))}</text></g>"
    )


def _shortened(name: str, most: int) -> str:
    return name if len(name) <= most else f"{name[: most // 2 - 1]}…{name[-most // 2 :]}"


def _escaped(text: str) -> str:
    """Return text that XML takes: no markup, no control characters, no lone surrogates."""
    plain = "".join(one if one.isprintable() or one == "\n" else "?" for one in text)
    for sign, name in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")):
        plain = plain.replace(sign, name)
    return plain.encode("utf-8", "replace").decode()
