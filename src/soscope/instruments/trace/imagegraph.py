# SPDX-License-Identifier: Apache-2.0
"""The graph of images that call each other, with sums over all functions between two."""

from __future__ import annotations

from soscope.instruments.trace.summary import SummaryRow, by_function, in_order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

UNKNOWN = "?"


class ImageEdge:
    """The calls that one image makes of another's functions.

    `sums` is for all of them, and `functions` for each function, with most own time first.
    """

    __slots__ = ("functions", "sums")

    def __init__(self, sums: SummaryRow, functions: list[SummaryRow]) -> None:
        self.sums = sums
        self.functions = functions

    @property
    def caller(self) -> str:
        """Return the name of the calling image."""
        return self.sums.caller or UNKNOWN

    @property
    def callee(self) -> str:
        """Return the name of the called image."""
        return self.sums.callee or UNKNOWN


def edges_of(rows: Iterable[SummaryRow]) -> list[ImageEdge]:
    """Return an edge for each pair of images with calls, most own time first."""
    pairs: dict[tuple[str, str], list[SummaryRow]] = {}
    for row in rows:
        pairs.setdefault((row.caller, row.callee), []).append(row)
    edges: dict[int, ImageEdge] = {}
    sums = []
    for (caller, callee), some in pairs.items():
        whole = SummaryRow(caller, callee, "", "")
        for row in some:
            whole.add(row)
        sums.append(whole)
        edges[id(whole)] = ImageEdge(whole, by_function(some))
    return [edges[id(whole)] for whole in in_order(sums)]


def inside(edges: Iterable[ImageEdge]) -> dict[str, SummaryRow]:
    """Return the sums of all calls into each image, by name. Images that only call are included."""
    images: dict[str, SummaryRow] = {}
    for edge in edges:
        images.setdefault(edge.caller, SummaryRow("", edge.caller, "", ""))
        images.setdefault(edge.callee, SummaryRow("", edge.callee, "", "")).add(edge.sums)
    return images
