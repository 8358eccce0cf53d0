# SPDX-License-Identifier: Apache-2.0
"""Name the steps of paths from roots to objects, for CPython and Ruby."""

from __future__ import annotations

import numpy as np

from soscope.binfmt.source import ByteSource
from soscope.instruments.mem.refs.graph import Link, RefGraph, RefSearch, Words
from soscope.instruments.mem.refs.model import (
    CLASS,
    FRAME,
    GARBAGE,
    INTERPRETER,
    MODULE,
    NATIVE,
    THREAD,
    HolderPath,
    HolderRoot,
    HolderStep,
)
from soscope.instruments.mem.rubyobjects import RubyNames
from soscope.live.python.objects import gather
from soscope.live.python.offsets import PythonLayout
from soscope.live.python.referents import DICT, TYPE, UNNAMED, Hold, Referents, dict_items
from soscope.live.python.types import PythonTypes
from soscope.live.python.values import c_string, read_str
from soscope.wire import headers as layout

# Paths from roots of CPython to its objects, with names.

_RANKS = {layout.REF_THREAD: 1, layout.REF_FRAME: 2}
_MODULE_RANK = 3
_MODULE_DICT = 16  # offset of the dictionary in a module object
_LOW = np.uint64(0xFFFF_FFFF)
_IMMORTAL = 1 << 30  # reference counts of immortal objects, from 3.12 on
_INTERPRETER_SIZE = 1 << 16  # bytes of the interpreter's state that are searched
_AT_ONCE = 4096
_FRAMES = (".gi_frame", ".cr_frame", ".ag_frame")  # generators' attributes with frames, up to 3.10
_UNKNOWN = "?"  # a type that cannot be read


class _Paths:
    """The memory of a process, and the references between its objects."""

    def __init__(self, memory: ByteSource, graph: RefGraph) -> None:
        self._memory = memory
        self._graph = graph

    def _held(self, link: Link) -> int:
        return int(self._graph.targets[link.row])

    def _word(self, addr: int) -> int:
        data = self._memory.read(addr, 8)
        return int.from_bytes(data, "little") if len(data) == 8 else 0


class PythonPaths(_Paths):
    """Finds and names paths in the references of one CPython, which stands still meanwhile."""

    def __init__(
        self,
        memory: ByteSource,
        python: PythonLayout,
        graph: RefGraph,
        modules: int,
        end: float,
    ) -> None:
        """Prepare the search. `modules` is the address of sys.modules; for `end` see RefSearch."""
        super().__init__(memory, graph)
        self._layout = python
        self._referents = Referents(memory, python, PythonTypes(memory, python))
        self._modules: dict[int, str] = {}  # module objects
        self._namespaces: dict[int, str] = {}  # dictionaries of modules
        self._find_modules(modules)
        ranks = np.zeros(len(graph.addrs), np.int64)
        for kind, rank in _RANKS.items():
            ranks[graph.holder_kinds == kind] = rank
        known = np.array([*self._modules, *self._namespaces], np.uint64)
        is_object = graph.holder_kinds == layout.REF_HOLDER
        ranks[is_object & np.isin(graph.addrs, known)] = _MODULE_RANK
        self._search = RefSearch(graph, ranks, end)

    def _find_modules(self, modules: int) -> None:
        keys, values = dict_items(self._memory, self._layout, modules)
        for key, value in zip(keys.tolist(), values.tolist(), strict=True):
            name = read_str(self._memory, self._layout, key) if key else None
            if name is None or value in self._modules:
                continue
            self._modules[value] = name
            namespace = self._word(value + _MODULE_DICT)
            info = self._referents.type_of(namespace) if namespace else None
            if info is None or not info.flags & DICT:
                namespace = self._referents.namespace(value)
            if namespace:
                self._namespaces.setdefault(namespace, name)

    def path(self, addr: int) -> HolderPath:
        """Return the shortest path to an object. Raises SearchLimitError at a limit."""
        links = self._search.up(addr)
        if links is None:
            links = self._search.up(addr, (layout.REF_OBJECT, layout.REF_KEY, layout.REF_TYPE))
        if links is not None:
            return self._cut_at_class(*self._rooted(links))
        return self._without_root(addr)

    # ---- a path from a root ----

    def _rooted(self, links: list[Link]) -> tuple[HolderRoot, list[tuple[int, Hold]]]:
        """Return the root, and each object below it with how it is held."""
        first = links[0]
        holder, held = self._holder(first), self._held(first)
        kind = self._graph.holder_kinds[first.holder]
        if kind == layout.REF_FRAME:
            return self._in_frame(holder, [held, *map(self._held, links[1:])])
        if kind == layout.REF_THREAD:
            return self._in_thread(holder), self._holds([held, *map(self._held, links[1:])])
        objects = [holder, *map(self._held, links)]
        root = HolderRoot(MODULE, self._modules.get(holder) or self._namespaces.get(holder))
        if holder in self._modules and held in self._namespaces and len(links) > 1:
            objects = objects[1:]
        holds = self._holds(objects)[1:]
        holds[0] = holds[0][0], _bare(holds[0][1])
        return root, holds

    def _in_frame(
        self, frame: int, objects: list[int], name: str | None = None
    ) -> tuple[HolderRoot, list[tuple[int, Hold]]]:
        function, file, line = self._referents.frames.function(frame)
        by = name or self._referents.frames.variable(frame, objects[0])
        if len(objects) > 1 and self._is_a(objects[0], "builtins.cell"):
            objects = objects[1:]
        holds = self._holds(objects)
        by = None if by is None else by.removeprefix("local ")
        holds[0] = objects[0], Hold(by, by)
        return HolderRoot(FRAME, function, file, line), holds

    def _in_thread(self, state: int) -> HolderRoot:
        ident = self._word(state + self._layout.tstate_thread_id)
        return HolderRoot(THREAD, f"{ident:#x}" if ident else None)

    def _cut_at_class(self, root: HolderRoot, holds: list[tuple[int, Hold]]) -> HolderPath:
        """Return the path from the last class in it that holds the next object by an attribute."""
        for at in reversed(range(len(holds) - 1)):
            info = self._referents.type_of(holds[at][0])
            by = holds[at + 1][1].by
            if info is not None and info.flags & TYPE and by is not None and by.startswith("."):
                kind = self._referents.class_name(holds[at][0])
                rest = holds[at + 1 :]
                rest[0] = rest[0][0], _bare(rest[0][1])
                return self._named(HolderRoot(CLASS, kind), rest)
        return self._named(root, holds)

    def _holds(self, objects: list[int]) -> list[tuple[int, Hold]]:
        """Return the objects with how each holds the next one.

        An object that only belongs to the one before it, as the dictionary of a module does, is
        left out.
        """
        holds: list[tuple[int, Hold]] = [(objects[0], UNNAMED)]
        at = 0
        while at + 1 < len(objects):
            holder, held = objects[at], objects[at + 1]
            hold = self._referents.hold(holder, held)
            rest = objects[at + 1 :]
            if hold.by == ".__dict__" and len(rest) > 1:
                inner = self._referents.hold(held, rest[1])
                hold, at = _attribute(inner), at + 1
            elif hold.by == ".__closure__" and len(rest) > 2:
                hold, at = self._closure(holder, held, rest[1]), at + 2
            elif len(rest) > 1 and hold.by in _FRAMES:
                hold, at = self._referents.hold(held, rest[1]), at + 1
            holds.append((objects[at + 1], hold))
            at += 1
        return holds

    def _closure(self, function: int, closure: int, cell: int) -> Hold:
        name = self._referents.free_variable(function, closure, cell)
        by = "closure" if name is None else f"closure {name}"
        return Hold(by, by)

    # ---- no root is known ----

    def _without_root(self, addr: int) -> HolderPath:
        levels = self._search.holders(addr)
        graph = self._graph
        unseen_by = self._unaccounted(np.array([addr], np.uint64))
        if unseen_by is not None:
            return self._held_unseen(unseen_by, [addr])
        for number, level in enumerate(levels):
            holders = graph.holders[level]
            rows = level[graph.holder_kinds[holders] == layout.REF_HOLDER]
            unseen_by = self._unaccounted(graph.addrs[graph.holders[rows]])
            if unseen_by is not None:
                row = rows[graph.addrs[graph.holders[rows]] == np.uint64(unseen_by)][0]
                links = self._search.way(levels[: number + 1], int(row))
                return self._held_unseen(unseen_by, [unseen_by, *map(self._held, links)])
        return self._named(HolderRoot(GARBAGE), self._holds(self._search.cycle(addr)))

    def _unaccounted(self, addrs: Words) -> int | None:
        """Return the first object whose reference count is higher than its known references."""
        for start in range(0, len(addrs), _AT_ONCE):
            self._search.check(0)
            part = addrs[start : start + _AT_ONCE]
            words, _ = gather(self._memory, part, 1)
            counts = (words[:, 0] & _LOW).astype(np.int64)
            more = np.flatnonzero(counts > self._graph.references(part))
            if len(more):
                return int(part[more[0]])
        return None

    def _held_unseen(self, addr: int, objects: list[int]) -> HolderPath:
        """Return the path from an object that is held by something that is no object.

        The holder is a frame, a thread, the interpreter itself, or native code.
        """
        rows = self._graph.rows_to(np.array([addr], np.uint64))
        rows = rows[self._graph.kinds[rows] == layout.REF_MAYBE]
        for holder in self._graph.holders[rows].tolist():
            place = int(self._graph.addrs[holder])
            if self._graph.holder_kinds[holder] == layout.REF_FRAME:
                return self._named(*self._in_frame(place, objects, "temporary value"))
            return self._named(self._in_thread(place), self._holds(objects))
        count = self._word(addr) & int(_LOW)
        if self._layout.has_immortals and count >= _IMMORTAL:
            return self._named(HolderRoot(INTERPRETER, "immortal"), self._holds(objects))
        kind = INTERPRETER if self._is_in_interpreter(addr) else NATIVE
        return self._named(HolderRoot(kind), self._holds(objects))

    def _is_in_interpreter(self, addr: int) -> bool:
        """Return whether the interpreter's state contains the address."""
        threads = self._graph.addrs[self._graph.holder_kinds == layout.REF_THREAD]
        if not len(threads):
            return False
        state = self._word(int(threads[0]) + self._layout.tstate_interp)
        data = self._memory.read(state, _INTERPRETER_SIZE)
        words = np.frombuffer(data[: len(data) // 8 * 8], np.uint64)
        return bool((words == np.uint64(addr)).any())

    # ---- text ----

    def _named(self, root: HolderRoot, holds: list[tuple[int, Hold]]) -> HolderPath:
        steps = []
        for addr, hold in holds:
            info = self._referents.type_of(addr)
            steps.append(HolderStep(_UNKNOWN if info is None else info.name, hold.by, hold.shape))
        return HolderPath(root, tuple(steps))

    def _is_a(self, addr: int, qualified: str) -> bool:
        info = self._referents.type_of(addr)
        return info is not None and info.qualified == qualified

    def _holder(self, link: Link) -> int:
        return int(self._graph.addrs[link.holder])


def _attribute(hold: Hold) -> Hold:
    """Return how an attribute is held, from how its dictionary holds the value."""
    if hold.by is None or not hold.by.startswith("['"):
        return hold
    by = f".{hold.by[2:-2]}"
    return Hold(by, by)


def _bare(hold: Hold) -> Hold:
    """Return the bare name by which a module or a class holds an object."""
    by = _attribute(hold).by
    by = None if by is None else by.removeprefix(".")
    return Hold(by, by)


# Paths from roots of Ruby to its objects, as ObjectSpace knows them.

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


class RubyPaths(_Paths):
    """Finds and names paths in the references of one Ruby, which stands still meanwhile."""

    def __init__(self, memory: ByteSource, graph: RefGraph, names: RubyNames, end: float) -> None:
        """Prepare the search. For `end` see RefSearch."""
        super().__init__(memory, graph)
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

    def _flags(self, addr: int) -> int:
        return self._word(addr)
