# SPDX-License-Identifier: Apache-2.0
"""Single objects of CPython, read by the same rules as thousands at once in `objects.py`.

Importing numpy takes as long as reading ten thousand objects this way.
"""

from __future__ import annotations

from struct import unpack_from

from soscope.binfmt.source import ByteSource
from soscope.live.python.offsets import PythonLayout
from soscope.live.python.types import (
    BUFFERS,
    FIRST_WORDS,
    INLINE,
    LOW,
    RULES,
    PythonTypes,
    Rule,
    SizedObjects,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_CHAINED = 1 << 20  # 3.13: an object in a free list has a pointer in place of its count
_WORD = 0xFFFF_FFFF_FFFF_FFFF
_BLOCK = 1 << 14  # bytes of one read
_PAGE = 4096
_HEAD = 2  # words that every object has


class StillMemory(ByteSource):
    """The memory of a stopped process: everything that was read is cached."""

    __slots__ = ("_blocks", "_memory")

    def __init__(self, memory: ByteSource) -> None:
        super().__init__(memory.name)
        self._memory = memory
        self._blocks: dict[int, bytes] = {}

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes at a run-time address; fewer if a page is missing."""
        at = offset % _BLOCK
        if offset < 0 or at + size > _BLOCK:
            return self._memory.read(offset, size)
        start = offset - at
        block = self._blocks.get(start)
        if block is None:
            block = self._blocks[start] = self._memory.read(start, _BLOCK)
        if at + size > len(block):  # only the block's first page may be missing
            return self._memory.read(offset, size)
        return block[at : at + size]

    def words(self, addr: int, count: int) -> Sequence[int]:
        """Return `count` words at an address; 0 for each word that cannot be read."""
        at = addr % _BLOCK
        block = self._blocks.get(addr - at)
        if block is not None and not addr & 7 and at + 8 * count <= len(block):
            return unpack_from(f"<{count}Q", block, at)  # nearly always
        if addr & 7 or not _PAGE <= addr < 1 << 62:  # the caller passes 0 if there is no object
            return [0] * count
        data = self.read(addr, 8 * count)
        if len(data) < 8 * count:
            pieces, at = bytearray(8 * count), addr
            while at < addr + 8 * count:
                piece = self._memory.read(at, min(_PAGE - at % _PAGE, addr + 8 * count - at))
                pieces[at - addr : at - addr + len(piece)] = piece
                at += _PAGE - at % _PAGE
            data = bytes(pieces)
        return unpack_from(f"<{count}Q", data)


class OneObject(SizedObjects):
    """Computes sizes of single objects, with plain numbers."""

    __slots__ = ("_memory", "words")

    def __init__(self, memory: StillMemory, layout: PythonLayout) -> None:
        self._memory = memory
        self.layout = layout
        self.words: Sequence[int] = ()

    def at(self, offset: int) -> int:
        """Return the 8-byte word at a byte offset below 80."""
        return self.words[offset >> 3]

    def behind(self, addresses: int, count: int) -> Sequence[int]:
        """Return `count` words at another address; 0 for each word that cannot be read."""
        return self._memory.words(addresses & _WORD, count)

    def where(self, condition: bool, then: Any, otherwise: Any) -> Any:
        """Return `then` if the condition is true, else `otherwise`."""
        return then if condition else otherwise

    def magnitude(self, number: int) -> int:
        """Return the absolute value of a signed number."""
        return number if number >> 63 == 0 else (1 << 64) - number

    def most(self, number: int) -> int:
        """Return the number itself, the maximum of one number."""
        return number


class FewType:
    """The data that all objects of a type share; `addr` is 0 without a type."""

    __slots__ = ("addr", "buffer", "is_inline", "item", "own", "presize", "rule")

    def __init__(self, types: PythonTypes, addr: int) -> None:
        info = types.info(addr)
        self.addr = addr if info is not None else 0
        self.presize = max(info.presize, 0) if info is not None else 0
        self.own = self.presize + (max(info.basicsize, 0) if info is not None else 0)
        self.item = max(info.itemsize, 0) if info is not None else 0
        name = info.rule if info is not None else ""
        self.rule: Rule | None = RULES.get(name)
        self.is_inline = name in INLINE
        self.buffer = BUFFERS.get(name)


# address of the type, bytes as `sys.getsizeof` counts, blocks of the object as (address, bytes)
FewObject = tuple[int, int, list[tuple[int, int]]]


class FewReader:
    """Reads objects in the memory of a stopped process with one version of CPython."""

    def __init__(self, memory: StillMemory, layout: PythonLayout) -> None:
        self.types = PythonTypes(memory, layout)
        self._memory = memory
        self._layout = layout
        self._kinds: dict[int, FewType] = {}
        self._group = OneObject(memory, layout)

    def look(self, addr: int, is_dying: bool = False) -> FewObject | None:
        """Return type, size and blocks of the object at `addr`, None if it is not alive.

        `is_dying` tells that its destruction was announced, see `ObjectReader.look`.
        """
        layout, group = self._layout, self._group
        words = self._memory.words(addr, FIRST_WORDS)
        count = words[layout.object_refcnt >> 3]
        if not count & LOW or (is_dying and layout.chains_dying and count >= _CHAINED):
            return None
        addr_of_type = words[layout.object_type >> 3]
        kind = self._kinds.get(addr_of_type)
        if kind is None:
            kind = self._kinds[addr_of_type] = FewType(self.types, addr_of_type)
        if not kind.addr:
            return 0, 0, []
        size = kind.own
        if kind.item:
            size += kind.item * group.magnitude(words[layout.var_size >> 3])
        own = size
        blocks = []
        if kind.rule is not None:
            group.words, group.addresses = words, addr
            group.own, group.presize = kind.own, kind.presize
            size = kind.rule(group)
            if kind.is_inline:
                own = size
            elif kind.buffer is not None and size > own:
                blocks.append((group.at(kind.buffer), size - own))
        blocks.append((addr - kind.presize, own))
        return kind.addr, size & _WORD, blocks
