# SPDX-License-Identifier: Apache-2.0
"""The rows of a tree: each function below the one that it is reached by, the heaviest first."""

from __future__ import annotations

from soscope.instruments.prof.contexts import Context, View
from soscope.instruments.prof.flat import CALLS, image_name
from soscope.model.record import Record


class TreeRow(Record):
    """A function on a way: `above` is the place of the row around it, None: there is none.

    `weight` is its part of the whole: nanoseconds, or calls or samples where nothing was timed.
    """

    __slots__ = ("above", "context", "depth", "weight")

    def __init__(self, context: Context, above: int | None, depth: int, weight: int) -> None:
        self.context = context
        self.above = above
        self.depth = depth
        self.weight = weight


class TreeRows:
    """All rows of a tree; `whole` is the weight of all that was recorded.

    `timed`: weights are nanoseconds.
    """

    def __init__(self, view: View) -> None:
        root = view.root
        self.view = view
        self.timed = root.self_ns is not None or root.total_ns is not None
        self.whole = (root.total_ns if self.timed else root.count) or 0
        weights = self._weights(root)
        self.rows: list[TreeRow] = []
        rest: list[tuple[Context, int | None, int]] = [(root, None, -1)]
        while rest:
            context, above, depth = rest.pop()
            if context is root:
                place = None
            else:
                place = len(self.rows)
                self.rows.append(TreeRow(context, above, depth, weights[id(context)]))
            children = list(context.children.values())
            if len(children) > 1:
                children.sort(key=lambda child: _rank(child, weights[id(child)]))
            rest += [(child, place, depth + 1) for child in reversed(children)]

    def _weights(self, root: Context) -> dict[int, int]:
        """Return weights by the contexts' ids."""
        order = [root]
        for context in order:
            order += context.children.values()
        weights: dict[int, int] = {}
        for context in reversed(order):
            below = sum(weights[id(child)] for child in context.children.values())
            weights[id(context)] = self._weight(context, below)
        return weights

    def _weight(self, context: Context, below: int) -> int:
        """Return the weight of a function whose children have `below` together.

        Callers have had their parts of what stands above them in the tree, and not more. Calls
        whose ways are not known may contain each other: their own times add up, the others do not.
        """
        view = self.view
        adds_up = not view.is_inverted and (view.what == CALLS or not view.is_whole)
        if self.timed and view.is_whole:
            return below if context.total_ns is None else context.total_ns
        own = context.self_ns if self.timed else context.count
        return (own or 0) + (below if adds_up else 0)

    def chosen(self, percent: float, most: int | None) -> list[int]:
        """Return the places of rows of at least `percent` of the tree; at most `most`, None: all.

        The heaviest are chosen, with all that they are inside of. A tree may be of functions that
        are a small part of the whole.
        """
        least = sum(row.weight for row in self.rows if row.above is None) * percent / 100
        is_in: list[bool] = []
        for row in self.rows:
            is_in.append(row.weight >= least and (row.above is None or is_in[row.above]))
        heavy = [at for at, is_heavy in enumerate(is_in) if is_heavy]
        if most is None or len(heavy) <= most:
            return heavy
        chosen: set[int] = set()
        for number in sorted(heavy, key=lambda at: -self.rows[at].weight):
            way: list[int] = []
            at: int | None = number
            while at is not None and at not in chosen:
                way.append(at)
                at = self.rows[at].above
            if chosen and len(chosen) + len(way) > most:
                break
            chosen.update(way)
        return sorted(chosen)


def _rank(context: Context, weight: int) -> tuple[int, int, str, str]:
    frame = context.frame
    return -weight, -(context.count or 0), image_name(frame), frame.symbol or ""
