# SPDX-License-Identifier: Apache-2.0
"""Paths from roots of Ruby to its objects, as ObjectSpace knows them."""

from __future__ import annotations

import numpy as np

from soscope.binfmt.source import ByteSource
from soscope.instruments.mem.refs.graph import RefGraph, Words
from soscope.instruments.mem.refs.model import (
    CLASS,
    GARBAGE,
    INTERPRETER,
    THREAD,
    HolderPath,
    HolderRoot,
    HolderStep,
)
from soscope.instruments.mem.refs.search import Link, RefSearch
from soscope.instruments.mem.rubyobjects import RubyNames
from soscope.live.python.values import c_string
from soscope.wire import headers as layout

_CLASS, _MODULE, _ARRAY, _DATA = 2, 3, 7, 12
_ARRAY_EMBEDS = 1 << 13  # flag of an array that holds its elements in itself
_ARRAY_COUNT, _ARRAY_COUNT_BITS = 15, 127  # bits of its flags with their number
_THREADS = {"Thread", "Fiber", "Ractor"}
# Ruby's names for its own roots (rb_objspace_reachable_objects_from_root).
_STACK = "machine_context"
_SAID = {
    "vm": None,
    "global_tbl": "global variables",
    "finalizers": "finalizers",
    "end_proc": "exit handlers",
    "global_symbols": "symbols",
}
ITEM = "item"


class RubyPaths:
    """Finds and names paths in the references of one Ruby, which stands still meanwhile."""

    def __init__(self, memory: ByteSource, graph: RefGraph, names: RubyNames, end: float) -> None:
        """Prepare the search. For `end` see RefSearch."""
        self._memory = memory
        self._graph = graph
        self._names = names
        ranks = (graph.holder_kinds == layout.REF_ROOT).astype(np.int64)
        self._search = RefSearch(graph, ranks, end)
        # Values on a C stack may look like references by chance, so that root is tried last.
        sure = ranks.copy()
        for root in np.flatnonzero(ranks).tolist():
            sure[root] = self._category(root) != _STACK
        self._sure = RefSearch(graph, sure, end)

    def path(self, addr: int) -> HolderPath:
        """Return the shortest path to an object. Raises SearchLimitError at a limit."""
        kinds = layout.REF_OBJECT, layout.REF_TYPE
        links = self._sure.up(addr) or self._search.up(addr) or self._search.up(addr, kinds)
        if links is None:
            return self._of(HolderRoot(GARBAGE), self._search.cycle(addr))
        objects = [self._held(link) for link in links]
        for at in reversed(range(len(objects) - 1)):
            root = self._root_of(objects[at])
            if root is not None:
                return self._of(root, objects[at + 1 :], objects[at])
        category = self._category(links[0].holder)
        if category == _STACK:
            return self._of(HolderRoot(THREAD, "stack of C"), objects)
        return self._of(HolderRoot(INTERPRETER, _SAID.get(category, category)), objects)

    def _category(self, root: int) -> str:
        """Return Ruby's name for one of its own roots."""
        text = c_string(self._memory, int(self._graph.addrs[root])) or b"?"
        return text.decode("utf-8", "replace")

    def _root_of(self, addr: int) -> HolderRoot | None:
        """Return an object as the root of what it holds, None if it is no root."""
        kind = self._flags(addr) & layout.RUBY_KIND
        if kind in (_CLASS, _MODULE):
            name = self._names.of_itself(addr)
            return None if name is None else HolderRoot(CLASS, name)
        if kind == _DATA and self._type(addr) in _THREADS:
            return HolderRoot(THREAD, f"{self._type(addr)} {addr:#x}")
        return None

    def _of(self, root: HolderRoot, objects: list[int], holder: int = 0) -> HolderPath:
        steps = []
        for held in objects:
            by, shape = self._hold(holder, held) if holder else (None, None)
            steps.append(HolderStep(self._type(held), by, shape))
            holder = held
        return HolderPath(root, tuple(steps))

    def _hold(self, holder: int, held: int) -> tuple[str | None, str | None]:
        """Return how an object holds another one, with and without an index."""
        flags = self._flags(holder)
        if flags & layout.RUBY_KIND != _ARRAY:
            return None, None
        indexes = np.flatnonzero(self._elements(holder, flags) == np.uint64(held))
        return (f"[{indexes[0]}]", ITEM) if len(indexes) else (None, None)

    def _elements(self, array: int, flags: int) -> Words:
        if flags & _ARRAY_EMBEDS:
            start, count = array + 16, flags >> _ARRAY_COUNT & _ARRAY_COUNT_BITS
        else:
            start, count = self._word(array + 32), self._word(array + 16)
        data = self._memory.read(start, 8 * min(count, 1 << 32))
        return np.frombuffer(data[: len(data) // 8 * 8], np.uint64)

    def _type(self, addr: int) -> str:
        kind = self._flags(addr) & layout.RUBY_KIND
        return self._names.of_class(kind, self._word(addr + 8), 1)

    def _held(self, link: Link) -> int:
        return int(self._graph.targets[link.row])

    def _flags(self, addr: int) -> int:
        return self._word(addr)

    def _word(self, addr: int) -> int:
        data = self._memory.read(addr, 8)
        return int.from_bytes(data, "little") if len(data) == 8 else 0
