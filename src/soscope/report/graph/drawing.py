# SPDX-License-Identifier: Apache-2.0
"""Parts that pictures of boxes and lines share: the paths of lines, and room for labels."""

from __future__ import annotations

from soscope.report.graph.layout import BOX, GraphLayout

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
