# SPDX-License-Identifier: Apache-2.0
"""The shortest path from an object up to its root, searched against the references."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from soscope.instruments.mem.refs.graph import Places, RefGraph, Words
from soscope.wire import headers as layout

_MOST = 1 << 22  # holders that are examined for one object
_LONGEST = 10_000  # references in a path
_SURE = (layout.REF_OBJECT, layout.REF_KEY)


class SearchLimitError(Exception):
    """The search exceeds a limit of path length, holders or time."""


@dataclass(slots=True)
class Link:
    """One reference of a path: a row of the graph, and the index of the holder."""

    row: int
    holder: int


class RefSearch:
    """Searches paths up from objects. `ranks` has for each holder its rank as a root.

    Rank 0 means that the holder is no root. Of two roots that are equally far, the one with the
    higher rank is chosen. `end` is the time of the monotonic clock at which the search gives up.
    """

    def __init__(self, graph: RefGraph, ranks: NDArray[np.int64], end: float) -> None:
        self._graph = graph
        self._ranks = ranks
        self._end = end
        self._seen = np.zeros(len(graph.addrs), np.bool_)

    def up(self, addr: int, kinds: tuple[int, ...] = _SURE) -> list[Link] | None:
        """Return the links from a root (first) to the object (last), None if there is no root.

        Raises SearchLimitError if the search exceeds a limit.
        """
        levels = self._levels(addr, kinds, is_all=False)
        if levels and (nearest := self._best(levels[-1])) is not None:
            return self.way(levels, nearest)
        return None

    def check(self, steps: int) -> None:
        """Raise SearchLimitError if `steps` references in a path are too many, or time is up."""
        if steps > _LONGEST or time.monotonic() > self._end:
            raise SearchLimitError

    def cycle(self, addr: int) -> list[int]:
        """Return a chain of objects that ends at this one, beginning with a cycle if there is one.

        For each object the first reported holder is followed. Raises SearchLimitError.
        """
        graph = self._graph
        objects, seen = [addr], {addr}
        while True:
            self.check(len(objects))
            rows = graph.rows_to(np.array(objects[-1:], np.uint64))
            is_sure = np.isin(graph.kinds[rows], _SURE)
            is_object = graph.holder_kinds[graph.holders[rows]] == layout.REF_HOLDER
            rows = rows[is_sure & is_object]
            holder = int(graph.addrs[graph.holders[rows[0]]]) if len(rows) else addr
            if holder != addr:
                objects.append(holder)
            if holder in seen:
                return objects[::-1]
            seen.add(holder)

    def holders(self, addr: int) -> list[Places]:
        """Return the rows by which an object is held, level by level, without end.

        Each holder occurs once, in the row by which it was first found. Raises SearchLimitError.
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
                if count > _MOST:
                    raise SearchLimitError
                self.check(len(levels))
                is_object = graph.holder_kinds[holders] == layout.REF_HOLDER
                frontier = graph.addrs[holders[is_object]]
                frontier.sort()
        finally:
            for holders in met:
                seen[holders] = False
        return levels

    def _best(self, rows: Places) -> int | None:
        """Return the row whose holder is the best root, None if none is a root.

        Of equal ones, the root that was reported last is chosen.
        """
        holders = self._graph.holders[rows]
        ranks = self._ranks[holders]
        if not ranks.any():
            return None
        best = np.flatnonzero(ranks == ranks.max())
        return int(rows[best[-1]])
