# SPDX-License-Identifier: Apache-2.0
"""Which image calls which, how often and for how long: sums over all functions between two."""

from __future__ import annotations

from soscope.instruments.trace.summary import SummaryRow, by_function, in_order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

UNKNOWN = "?"


class ImageEdge:
    """The calls that one image makes of another's functions.

    `sums` has all of them; `functions` are those of each function, the most time of its own first.
    """

    __slots__ = ("functions", "sums")

    def __init__(self, sums: SummaryRow, functions: list[SummaryRow]) -> None:
        self.sums = sums
        self.functions = functions

    @property
    def caller(self) -> str:
        """The name of the image that calls."""
        return self.sums.caller or UNKNOWN

    @property
    def callee(self) -> str:
        """The name of the image that is called."""
        return self.sums.callee or UNKNOWN


def edges_of(rows: Iterable[SummaryRow]) -> list[ImageEdge]:
    """Return an edge for each pair of images with calls, the most time of its own first."""
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
    """Return the sums of all calls into each image, by its name; callers are there, too."""
    images: dict[str, SummaryRow] = {}
    for edge in edges:
        images.setdefault(edge.caller, SummaryRow("", edge.caller, "", ""))
        images.setdefault(edge.callee, SummaryRow("", edge.callee, "", "")).add(edge.sums)
    return images
