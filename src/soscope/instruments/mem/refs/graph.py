# SPDX-License-Identifier: Apache-2.0
"""The references between objects of a process, and shortest paths up to their roots."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from soscope.model.record import Record
from soscope.wire import headers as layout

# References between the objects of a process, as the agent has reported them.

Words = NDArray[np.uint64]
Places = NDArray[np.intp]

_BITS = np.uint64(layout.REF_BITS)
_HOLDERS = (layout.REF_HOLDER, layout.REF_FRAME, layout.REF_THREAD, layout.REF_ROOT)


class RefGraph:
    """References as parallel columns, sorted by the object that they lead to.

    `targets` are addresses of objects (u64), and `kinds` are numbers of `wire` (REF_OBJECT, …).
    `holders` are indices into the columns of the holders, `addrs` and `holder_kinds`. The address
    of a root is the address of its text. Holders are in the order in which the agent reported them.
    """

    def __init__(self, parts: list[Words]) -> None:
        """Read the references. `parts` are the agent's words, in its order."""
        words = np.concatenate([np.empty(0, np.uint64), *parts])
        kinds = (words & _BITS).astype(np.uint8)
        is_holder = np.isin(kinds, _HOLDERS)
        own = words[is_holder]
        self.holder_kinds: NDArray[np.uint8] = kinds[is_holder]
        is_text = self.holder_kinds == layout.REF_ROOT
        self.addrs: Words = np.where(is_text, own >> np.uint64(3), own & ~_BITS)
        holders = (np.cumsum(is_holder) - 1)[~is_holder].astype(np.int32)
        targets = words[~is_holder] & ~_BITS
        order = np.argsort(targets, kind="stable")
        self.targets: Words = targets[order]
        self.kinds: NDArray[np.uint8] = kinds[~is_holder][order]
        self.holders: NDArray[np.int32] = holders[order]

    def rows_to(self, addrs: Words) -> Places:
        """Return the rows that lead to any of the given objects."""
        first = np.searchsorted(self.targets, addrs, "left")
        counts = np.searchsorted(self.targets, addrs, "right") - first
        starts = np.repeat(first - (np.cumsum(counts) - counts), counts)
        rows: Places = starts + np.arange(len(starts))
        return rows

    def references(self, addrs: Words) -> NDArray[np.int64]:
        """Return how many references to each object are known.

        A reference as a key of a dictionary is not counted if the dictionary also reports it as
        an object.
        """
        first = np.searchsorted(self.targets, addrs, "left")
        last = np.searchsorted(self.targets, addrs, "right")
        counts = np.zeros(len(addrs), np.int64)
        for at, (start, end) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
            kinds, holders = self.kinds[start:end], self.holders[start:end]
            plain = (kinds == layout.REF_OBJECT) | (kinds == layout.REF_TYPE)
            keys = kinds == layout.REF_KEY
            counts[at] = np.count_nonzero(plain)
            if keys.any():
                counts[at] += np.count_nonzero(keys & ~np.isin(holders, holders[plain]))
        return counts


# The shortest path from an object up to its root, searched against the references.

_MOST = 1 << 22  # holders that are examined for one object
_LONGEST = 10_000  # references in a path
_SURE = (layout.REF_OBJECT, layout.REF_KEY)


class SearchLimitError(Exception):
    """The search exceeds a limit of path length, holders or time."""


class Link(Record, eq=True):
    """One reference of a path: a row of the graph, and the index of the holder."""

    row: int
    holder: int


class RefSearch:
    """Searches paths up from objects. `ranks` has for each holder its rank as a root.

    Rank 0 means that the holder is no root. If two roots are equally far, the one with the
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

        If roots are equal, the one that was reported last is chosen.
        """
        holders = self._graph.holders[rows]
        ranks = self._ranks[holders]
        if not ranks.any():
            return None
        best = np.flatnonzero(ranks == ranks.max())
        return int(rows[best[-1]])
