# SPDX-License-Identifier: Apache-2.0
"""The picture of calls between the images of a process, as SVG.

Images are in rows, each below its callers. The width of a line depends on the number of
slots. Interposed or hooked slots are drawn on top, with names. The file contains everything it
shows: nothing is loaded, and no script runs.
"""

from __future__ import annotations

from math import log2

from soscope.live.slots.bindings import BOUND, HOOKED, INTERPOSED, UNBOUND
from soscope.report.graph import (
    BOX,
    CHAR,
    LONGEST,
    MARGIN,
    TIP,
    GraphLayout,
    Point,
    Spot,
    free_place,
    path_of,
    taken_by,
)
from soscope.report.mapprocess import COLOURS, Edge, Graph, Node
from soscope.report.words import escaped, shortened

_HEAD = 92
_FEW = 16  # number of images; if there are more, numbers at all lines are too many
_MOST_LABELS = 40
_NAMES = 2  # names shown at one line

_LONG = 14  # letters of a single name

# The text of the legend for each state, from the plainest to the most remarkable.
_WORDS = {
    UNBOUND: "unbound: bound at the first call",
    BOUND: "bound",
    INTERPOSED: "interposed: an earlier image has it, too",
    HOOKED: "hooked: changed since",
}
_SPECIAL = (INTERPOSED, HOOKED)


def document(graph: Graph) -> str:
    """Return the text of the picture."""
    title = escaped(shortened(graph.title, 90))
    legend, least = _legend(graph)
    layout = GraphLayout(graph, _HEAD, max(least, len(title) * 10.0 + 2 * MARGIN))
    size = f'width="{layout.width:.0f}" height="{layout.height:.0f}"'
    view = f'viewBox="0 0 {layout.width:.0f} {layout.height:.0f}"'
    font = 'font-family="sans-serif" font-size="12"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {view} {font}>',
        f"<title>{escaped(graph.title)}</title>",
        "<style>path:hover{stroke-opacity:1}</style>",
        f"<defs>{''.join(map(_marker, COLOURS))}</defs>",
        f'<rect {size} fill="#ffffff"/>',
        f'<text x="{MARGIN}" y="28" font-size="16" font-weight="bold">{title}</text>',
        *legend,
    ]
    # Remarkable edges are drawn on top.
    ordered = sorted(graph.edges, key=lambda edge: (list(_WORDS).index(edge.state), edge.total))
    is_dense = len(graph.edges) > 60
    lines += [_line(edge, layout.ways[edge], is_dense=is_dense) for edge in ordered]
    lines += [_box(node, layout.boxes[node]) for node in graph.nodes]
    lines += _labels(graph, layout)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _marker(state: str) -> str:
    return (
        f'<marker id="{state}" viewBox="0 0 8 8" refX="1" refY="4" markerWidth="{TIP}"'
        f' markerHeight="{TIP}" markerUnits="userSpaceOnUse" orient="auto">'
        f'<path d="M0 0L8 4L0 8z" fill="{COLOURS[state]}"/></marker>'
    )


def _legend(graph: Graph) -> tuple[list[str], float]:
    """Return the lines of the legend, and their width."""
    counts = dict.fromkeys(_WORDS, 0)
    for edge in graph.edges:
        for state, number in edge.counts.items():
            counts[state] += number
    lines = []
    x: float = MARGIN
    for state, words in _WORDS.items():
        if not counts[state] and state != BOUND:
            continue
        said = f"{counts[state]:,} {words}"
        lines.append(
            f'<path d="M{x:.0f} 52h28" stroke="{COLOURS[state]}" stroke-width="3"{_dash(state)}/>'
            f'<text x="{x + 34:.0f}" y="56" fill="#333333">{said}</text>'
        )
        x += 34 + 0.94 * CHAR * len(said) + 20
    lines.append(
        f'<text x="{MARGIN}" y="76" fill="#6b7682" font-size="11">slots between images: from the'
        " one that calls to the one that is called; wider: more of them</text>"
    )
    return lines, x


def _dash(state: str) -> str:
    return ' stroke-dasharray="5 4"' if state == UNBOUND else ""


def _line(edge: Edge, way: list[Point], *, is_dense: bool) -> str:
    is_special = edge.state in _SPECIAL
    width = 1 + log2(edge.total) / 3
    opacity = 0.9 if is_special else 0.4 if is_dense else 0.6
    names = ", ".join(edge.names) + (", …" if edge.total > len(edge.names) else "")
    return (
        f'<path d="{path_of(way)}" fill="none" stroke="{COLOURS[edge.state]}"'
        f' stroke-width="{width:.1f}" stroke-opacity="{opacity}"'
        f' marker-end="url(#{edge.state})"{_dash(edge.state)}>'
        f"<title>{escaped(edge.label)}\n{escaped(names)}</title></path>"
    )


def _labels(graph: Graph, layout: GraphLayout) -> list[str]:
    """Write names at remarkable lines, and numbers at the others if there is room.

    A label is on the first segment of its line, which no other line shares.
    """
    taken = taken_by(layout)
    lines: list[str] = []
    is_small = len(graph.nodes) <= _FEW
    for edge in sorted(graph.edges, key=lambda edge: (edge.state not in _SPECIAL, -edge.total)):
        is_special = edge.state in _SPECIAL
        if len(lines) >= _MOST_LABELS or not (is_special or is_small):
            break
        text = f"{edge.total:,}"
        if is_special:
            names = [shortened(name, LONGEST) for name in edge.special_names[:_NAMES]]
            if sum(map(len, names)) > _LONG * _NAMES:
                names = names[:1]
            more = edge.special_total - len(names)
            text = ", ".join(names) + (f" +{more:,}" if more else "")
        place = free_place(layout.ways[edge], len(text) * CHAR * 0.8 + 6, taken)
        if place is None:
            continue
        x, y = place
        colour = COLOURS[edge.state] if is_special else "#56616d"
        at = f'<text x="{x:.1f}" y="{y + 3.5:.1f}" text-anchor="middle" font-size="10"'
        # Twice, first as a white edge, as not every viewer knows paint-order.
        lines.append(
            f'{at} stroke="#ffffff" stroke-width="4" stroke-linejoin="round">{escaped(text)}</text>'
            f'{at} fill="{colour}">{escaped(text)}</text>'
        )
    return lines


def _box(node: Node, spot: Spot) -> str:
    fill, line = "#f4f6f8", "#8794a3"
    if not node.is_image:
        fill, line = "#fbe3e1", COLOURS[HOOKED]
    elif node.is_main:
        fill, line = "#dfe9f5", COLOURS[BOUND]
    x, y = spot.x - spot.width / 2, spot.y - BOX / 2
    slots = f"{node.slots:,} slots" if node.slots else "no slots"
    if not node.is_image:
        slots = "not an image"
    return (
        f'<g><title>{escaped(node.name)}: {slots}</title><rect x="{x:.1f}" y="{y:.1f}"'
        f' width="{spot.width:.1f}" height="{BOX}" rx="6" fill="{fill}" stroke="{line}"/>'
        f'<text x="{spot.x:.1f}" y="{spot.y - 1:.1f}" text-anchor="middle">'
        f"{escaped(shortened(node.name, LONGEST))}</text>"
        f'<text x="{spot.x:.1f}" y="{spot.y + 13:.1f}" text-anchor="middle" font-size="9"'
        f' fill="#6b7682">{slots}</text></g>'
    )
