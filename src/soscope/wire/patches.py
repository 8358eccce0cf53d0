# SPDX-License-Identifier: Apache-2.0
"""The table of patches, which are functions called in place of others. See `soscope/patches.h`.

soscope writes a whole table, and the agent fills in addresses and counts. A later run of soscope
reads the table back, and adds or removes patches. A patch keeps its index in the table for life,
because the agent's list of changes refers to it by the index.
"""

from __future__ import annotations

from soscope.model.record import Record, fresh
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class Caller(Record):
    """Images whose calls reach the patch. `kind` is a PATCH_FROM_ constant of `layout`.

    `automaton` is a packed `struct sosc_automaton`, empty if the kind needs none.
    """

    kind: int
    automaton: bytes = b""


class PatchLibrary(Record):
    """A library in a process. `handle` is its dlopen handle there, 0 if it is not loaded.

    If `is_kept` is set, the library is never closed.
    """

    path: str
    handle: int = 0
    is_kept: bool = False


class Patch(Record):
    """A patch: calls of `symbol` reach the function `name` of a library of the table.

    `library` is the library's index. `callers` are the images whose calls are redirected, or
    empty for all images. The agent fills in the rest. `function` and `original` are addresses, 0
    until they are known. `slots` is the number of slots that contain the address of the function,
    and `left` is the number of slots that do not.
    """

    symbol: str
    name: str
    library: int
    callers: list[Caller]
    function: int = 0
    original: int = 0
    slots: int = 0
    left: int = 0


class PatchTable(Record):
    """All patches of a process. Items of `patches` and `libraries` may be free (None)."""

    patches: list[Patch | None] = fresh(list)
    libraries: list[PatchLibrary | None] = fresh(list)
    state: int = layout.PATCHES_NONE
    why: int = layout.PATCHES_FINE
    failed: int = 0
    text: str = ""

    def add(self, symbol: str, name: str, path: str, callers: list[Caller]) -> Patch:
        """Add a patch that replaces a symbol with `name` of the library at `path`.

        It takes the place of an earlier patch of the symbol. Patches that are added together
        share one load of a library. Raises ValueError if the table is full.
        """
        library = next(
            (
                index
                for index, each in enumerate(self.libraries)
                if each is not None and each.path == path and not each.handle
            ),
            None,
        )
        if library is None:
            library = _place(self.libraries, PatchLibrary(path), layout.MAX_PATCH_LIBRARIES)
        patch = Patch(symbol, name, library, callers)
        index = self.index(symbol)
        if index is None:
            _place(self.patches, patch, layout.MAX_PATCHES)
        else:
            self.patches[index] = patch
        self.state = layout.PATCHES_WAITING
        return patch

    def index(self, symbol: str) -> int | None:
        """Return the index of the patch of a symbol, None if the symbol has no patch."""
        for index, patch in enumerate(self.patches):
            if patch is not None and patch.symbol == symbol:
                return index
        return None

    def standing(self) -> list[Patch]:
        """Return the patches that are in place, in the table's order."""
        return [patch for patch in self.patches if patch is not None and patch.function]

    def standing_places(self) -> list[int]:
        """Return the indices of the patches that are in place."""
        return [at for at, patch in enumerate(self.patches) if patch and patch.function]

    def unused(self) -> list[int]:
        """Return the indices of libraries that no patch needs, and that are to be closed."""
        used = {patch.library for patch in self.patches if patch is not None}
        return [
            index
            for index, library in enumerate(self.libraries)
            if library is not None and library.handle and not library.is_kept and index not in used
        ]

    def keep(self, index: int) -> list[str]:
        """Mark a library as never to be closed. Return [its path], or [] if it was marked.

        The program may have addresses of functions of the library.
        """
        library = self.libraries[index]
        if library is None or library.is_kept:
            return []
        library.is_kept = True
        return [library.path]

    def pack(self, flags: int = 0) -> bytes:
        """Return the table's bytes. Raises ValueError if the agent has no room for so many."""
        heap = _Heap(
            layout.PATCHES.size
            + len(self.patches) * layout.PATCH.size
            + len(self.libraries) * layout.PATCH_LIBRARY.size
        )
        patches = b"".join(self._pack_patch(patch, heap) for patch in self.patches)
        libraries = b"".join(
            layout.PATCH_LIBRARY.struct.pack(each.handle, heap.text(each.path), each.is_kept)
            if each is not None
            else bytes(layout.PATCH_LIBRARY.size)
            for each in self.libraries
        )
        size = heap.end + -heap.end % 8
        if size > layout.PATCHES_SIZE:
            raise ValueError(f"{size} bytes of patches, {layout.PATCHES_SIZE} at most")
        head = layout.PATCHES.struct.pack(
            size,
            flags,
            len(self.patches),
            len(self.libraries),
            layout.PATCHES.size + len(patches),
            self.state,
            layout.PATCHES_FINE,
            0,
            b"",
        )
        return (head + patches + libraries + heap.content).ljust(size, b"\0")

    def _pack_patch(self, patch: Patch | None, heap: _Heap) -> bytes:
        if patch is None:
            return bytes(layout.PATCH.size)
        pairs = [
            (each.kind, heap.once(each.automaton) if each.automaton else 0)
            for each in patch.callers
        ]
        callers = b"".join(layout.PATCH_FROM.struct.pack(*pair) for pair in pairs)
        return layout.PATCH.struct.pack(
            patch.function,
            patch.original,
            heap.text(patch.symbol),
            heap.text(patch.name),
            heap.text(f"{patch.symbol}_original"),
            patch.library,
            heap.once(callers) if callers else 0,
            len(pairs),
            patch.slots,
            patch.left,
        )


class _Heap:
    """Names and automata behind the fixed part of a table. `end` is the offset of their end."""

    def __init__(self, start: int) -> None:
        self.end = start
        self._parts: list[bytes] = []
        self._places: dict[bytes, int] = {}

    @property
    def content(self) -> bytes:
        return b"".join(self._parts)

    def add(self, data: bytes) -> int:
        padding = -self.end % 8
        at = self.end + padding
        self._parts += [bytes(padding), data]
        self.end = at + len(data)
        return at

    def once(self, data: bytes) -> int:
        """Add data like `add`, or return the offset of equal data that was added before.

        Patches of one command have the same callers.
        """
        if data not in self._places:
            self._places[data] = self.add(data)
        return self._places[data]

    def text(self, text: str) -> int:
        return self.add(text.encode("utf-8", "surrogateescape") + b"\0")


def read(data: bytes | memoryview) -> PatchTable:
    """Read a table from its bytes. If there is none, return an empty one."""
    table = PatchTable()
    data = bytes(data)
    if len(data) < layout.PATCHES.size:
        return table
    size, _, count, libraries, first, state, why, failed, text = layout.PATCHES.struct.unpack_from(
        data
    )
    if not size or size > len(data):
        return table
    table.state, table.why, table.failed = state, why, failed
    table.text = _text(text, 0)
    for index in range(min(count, layout.MAX_PATCHES)):
        at = layout.PATCHES.size + index * layout.PATCH.size
        table.patches.append(_patch(data, at))
    for index in range(min(libraries, layout.MAX_PATCH_LIBRARIES)):
        handle, path, kept = layout.PATCH_LIBRARY.struct.unpack_from(
            data, first + index * layout.PATCH_LIBRARY.size
        )
        library = PatchLibrary(_text(data, path), handle, is_kept=bool(kept)) if path else None
        table.libraries.append(library)
    return table


def _patch(data: bytes, at: int) -> Patch | None:
    function, original, symbol, name, _, library, callers, count, slots, left = (
        layout.PATCH.struct.unpack_from(data, at)
    )
    if not symbol:
        return None
    patch = Patch(_text(data, symbol), _text(data, name), library, [])
    patch.function, patch.original = function, original
    patch.slots, patch.left = slots, left
    for index in range(count):
        kind, automaton = layout.PATCH_FROM.struct.unpack_from(
            data, callers + index * layout.PATCH_FROM.size
        )
        patch.callers.append(Caller(kind, _automaton(data, automaton) if automaton else b""))
    return patch


def _automaton(data: bytes, at: int) -> bytes:
    """Return the bytes of a `struct sosc_automaton`, which ends with its accepting states."""
    states, _, accept, _, _ = layout.AUTOMATON.struct.unpack_from(data, at)
    return data[at : at + accept + states]


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode("utf-8", "surrogateescape")


def _place(items: list[Patch | None] | list[PatchLibrary | None], item: object, most: int) -> int:
    """Put an item into a free place, or append it. Return its index.

    Raises ValueError if there are `most` items already.
    """
    places: list[object] = items  # type: ignore[assignment]  # the caller knows of what
    for index, each in enumerate(places):
        if each is None:
            places[index] = item
            return index
    if len(places) == most:
        raise ValueError(f"the table of patches is full: {most} entries")
    places.append(item)
    return len(places) - 1


def indices(table: PatchTable, symbols: Iterable[str]) -> list[int]:
    """Return the indices of the patches of symbols. Raises KeyError if a symbol has no patch."""
    places = []
    for symbol in symbols:
        index = table.index(symbol)
        if index is None:
            raise KeyError(symbol)
        places.append(index)
    return places
