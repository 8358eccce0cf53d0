# SPDX-License-Identifier: Apache-2.0
"""The shortest way from an object up to what holds it for good, against the references."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from soscope.instruments.mem.refs.graph import Places, RefGraph, Words
from soscope.wire import objectlayout as layout

_MOST = 1 << 22  # holders that are looked at for one object
_LONGEST = 100_000  # references in a row
_SURE = (layout.REF_OBJECT, layout.REF_KEY)


class SearchEnd(Exception):
    """The way is longer, or there are more holders, than is looked for."""


@dataclass(slots=True)
class Link:
    """One reference of a way: a row of the graph's, and who holds (a place in its columns)."""

    row: int
    holder: int


class Search:
    """Ways up from one object after the other; `ranks` says of holders how good a root each is.

    0 is none; of two that are equally far the higher one is taken.
    """

    def __init__(self, graph: RefGraph, ranks: NDArray[np.int64]) -> None:
        self._graph = graph
        self._ranks = ranks
        self._order = np.argsort(graph.addrs, kind="stable")
        self._sorted = graph.addrs[self._order]
        self._seen = np.zeros(len(graph.addrs), np.bool_)

    def up(self, addr: int, kinds: tuple[int, ...] = _SURE) -> list[Link] | None:
        """Return the links from a root, the first, to the object, the last; None: there is no root.

        Raises SearchEnd where that is not known.
        """
        levels = self._levels(addr, kinds, is_all=False)
        if levels and (found := self._best(levels[-1])) is not None:
            return self.way(levels, found)
        return None

    def holders(self, addr: int) -> list[Places]:
        """Return the rows by which an object is held, level by level, however far.

        Each holder is there once, in the row by which it was met. Raises SearchEnd.
        """
        return self._levels(addr, (*_SURE, layout.REF_TYPE), is_all=True)

    def way(self, levels: list[Places], row: int) -> list[Link]:
        """Return the links from the holder of a row of the last level down to the object."""
        graph = self._graph
        links = [Link(row, int(graph.holders[row]))]
        for level in reversed(levels[:-1]):
            below = level[graph.addrs[graph.holders[level]] == graph.targets[links[-1].row]]
            links.append(Link(int(below[0]), int(graph.holders[below[0]])))
        return links

    def _levels(self, addr: int, kinds: tuple[int, ...], *, is_all: bool) -> list[Places]:
        graph, seen = self._graph, self._seen
        levels: list[Places] = []
        frontier: Words = np.array([addr], np.uint64)
        met: list[NDArray[np.int32]] = []
        count = 0
        try:
            while len(frontier):
                rows = graph.rows_to(frontier)
                rows = rows[np.isin(graph.kinds[rows], kinds)]
                rows = rows[~seen[graph.holders[rows]]]
                holders, first = np.unique(graph.holders[rows], return_index=True)
                if not len(holders):
                    break
                rows = rows[first]
                levels.append(rows)
                if not is_all and self._ranks[holders].any():
                    break
                seen[holders] = True
                met.append(holders)
                count += len(holders)
                if count > _MOST or len(levels) > _LONGEST:
                    raise SearchEnd
                is_object = graph.holder_kinds[holders] == layout.REF_HOLDER
                frontier = graph.addrs[holders[is_object]]
                frontier.sort()
        finally:
            for holders in met:
                seen[holders] = False
        return levels

    def _best(self, rows: Places) -> int | None:
        """Return the row whose holder is the best root; of several, who was told last."""
        holders = self._graph.holders[rows]
        ranks = self._ranks[holders]
        if not ranks.any():
            return None
        best = np.flatnonzero(ranks == ranks.max())
        return int(rows[best[-1]])
