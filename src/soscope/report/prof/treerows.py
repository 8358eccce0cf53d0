# SPDX-License-Identifier: Apache-2.0
"""The rows of a tree: each function below its caller, heaviest first."""

from __future__ import annotations

from soscope.instruments.prof.views import CALLS, Context, View, added, image_name
from soscope.model.call import importance
from soscope.model.image import Record


class TreeRow(Record):
    """A function on a call path. `above` is the index of the row around it, None if none.

    `weight` is its part of the whole, in nanoseconds, or in calls or samples if nothing was
    timed. `doubt` is the possible error of that, None if it is not known or the weight is exact.
    """

    __slots__ = ("above", "context", "depth", "doubt", "weight")

    def __init__(
        self, context: Context, above: int | None, depth: int, weight: int, doubt: int | None
    ) -> None:
        self.context = context
        self.above = above
        self.depth = depth
        self.weight = weight
        self.doubt = doubt


class TreeRows:
    """All rows of a tree. `whole` is the weight of everything recorded.

    `timed` means that weights are nanoseconds. Rows that are not heavier than their possible
    error come last among their siblings, unless they matter.
    """

    def __init__(self, view: View) -> None:
        root = view.root
        self.view = view
        self.timed = root.self_ns is not None or root.total_ns is not None
        self.whole = root.count or 0
        if self.timed:  # calls around other calls may have no time
            self.whole = max(root.total_ns or 0, root.self_ns or 0)
        weights, doubts = self._weights(root)
        self.rows: list[TreeRow] = []
        rest: list[tuple[Context, int | None, int]] = [(root, None, -1)]
        while rest:
            context, above, depth = rest.pop()
            if context is root:
                place = None
            else:
                place = len(self.rows)
                at = id(context)
                self.rows.append(TreeRow(context, above, depth, weights[at], doubts[at]))
            children = list(context.children.values())
            if len(children) > 1:
                children.sort(
                    key=lambda child: (
                        importance(weights[id(child)], doubts[id(child)], self.whole),
                        *_rank(child, weights[id(child)]),
                    )
                )
            rest += [(child, place, depth + 1) for child in reversed(children)]

    def _weights(self, root: Context) -> tuple[dict[int, int], dict[int, int | None]]:
        """Return the weights of the contexts and their possible errors, by id()."""
        order = [root]
        for context in order:
            order += context.children.values()
        weights: dict[int, int] = {}
        doubts: dict[int, int | None] = {}
        for context in reversed(order):
            children = [id(child) for child in context.children.values()]
            below = sum(weights[child] for child in children)
            doubt_below: int | None = None
            for child in children:
                doubt_below = added(doubt_below, doubts[child])
            weights[id(context)] = self._weight(context, below)
            doubts[id(context)] = self._doubt(context, doubt_below)
        return weights, doubts

    def _doubt(self, context: Context, below: int | None) -> int | None:
        """Return the possible error of a function's weight from `_weight`."""
        if not self.timed:
            return None
        if self.view.is_whole:
            return below if context.total_ns is None else context.total_doubt_ns
        return added(context.doubt_ns, None if self.view.is_inverted else below)

    def _weight(self, context: Context, below: int) -> int:
        """Return the weight of a function whose children have `below` together.

        In a tree of callers, these only have their part of what is above them. Calls whose paths
        are not known may contain each other. Then own times can be added, and total times cannot.
        """
        view = self.view
        adds_up = not view.is_inverted and (view.what == CALLS or not view.is_whole)
        if self.timed and view.is_whole:
            return below if context.total_ns is None else context.total_ns
        own = context.self_ns if self.timed else context.count
        return (own or 0) + (below if adds_up else 0)

    def chosen(self, percent: float, most: int | None) -> list[int]:
        """Return the indices of rows of at least `percent` of the tree, at most `most` of them.

        If `most` is None, there is no such limit. The heaviest rows are chosen, with all rows
        around them. A tree may consist of functions that are a small part of the whole.
        """
        least = sum(row.weight for row in self.rows if row.above is None) * percent / 100
        is_in: list[bool] = []
        for row in self.rows:
            is_in.append(row.weight >= least and (row.above is None or is_in[row.above]))
        heavy = [at for at, is_heavy in enumerate(is_in) if is_heavy]
        if most is None or len(heavy) <= most:
            return heavy
        chosen: set[int] = set()
        for number in sorted(heavy, key=self._importance):
            way: list[int] = []
            at: int | None = number
            while at is not None and at not in chosen:
                way.append(at)
                at = self.rows[at].above
            if chosen and len(chosen) + len(way) > most:
                break
            chosen.update(way)
        return sorted(chosen)

    def _importance(self, at: int) -> tuple[int, int]:
        row = self.rows[at]
        return importance(row.weight, row.doubt, self.whole), -row.weight


def _rank(context: Context, weight: int) -> tuple[int, int, str, str]:
    frame = context.frame
    return -weight, -(context.count or 0), image_name(frame), frame.symbol or ""
