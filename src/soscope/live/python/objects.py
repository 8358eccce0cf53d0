# SPDX-License-Identifier: Apache-2.0
"""Read thousands of objects of CPython at once: whether they are alive, their types, their sizes.

    reader = ObjectReader(space.memory, layout_of((3, 11)))
    objects = reader.look(addresses, dying)
    names = reader.type_names(np.unique(objects.types[objects.alive]))

This only reads memory, of a process that is stopped or about to end. In a running process, parts
of the data may be of different moments.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from soscope.binfmt.source import ByteSource
from soscope.live.python.offsets import PythonLayout
from soscope.live.python.types import (
    BUFFERS,
    FIRST_WORDS,
    INLINE,
    PLAIN,
    RULES,
    PythonTypes,
    SizedObjects,
    TypeInfo,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any


# Read the first words of many objects at once: memory in spans, split by numpy.

Words = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

_GAP = 16 << 10  # bytes between two objects that are read together
_SPAN = 4 << 20  # bytes of one read
_PAGE = 4096


def gather(memory: ByteSource, addresses: Words, count: int) -> tuple[Words, Mask]:
    """Return the first `count` words at each address, and which of them could be read.

    Both are of shape (addresses, count). A word that cannot be read is 0. An address that is not
    a multiple of 8 counts as unreadable. Addresses in rising order are quickest.
    """
    size = len(addresses)
    words = np.zeros((size, count), np.uint64)
    if not size:
        return words, np.zeros((0, count), np.bool_)
    order = None
    if size > 1 and (addresses[1:] < addresses[:-1]).any():
        order = np.argsort(addresses, kind="stable")
        addresses = addresses[order]
    last = addresses[-1]
    good = (addresses & np.uint64(7)) == 0
    if last >= 1 << 62:
        good &= addresses < np.uint64(1 << 62)
    mask = np.repeat(good[:, None], count, axis=1)
    for start, end in _spans(addresses, count):
        _pick(memory, addresses[start:end], words[start:end], mask[start:end])
    if order is not None:
        back = np.empty_like(order)
        back[order] = np.arange(size)
        words, mask = words[back], mask[back]
    return words, mask


def _spans(addresses: Words, count: int) -> list[tuple[int, int]]:
    """Return (first, last + 1) as indices of addresses that are read together."""
    cuts = np.flatnonzero(np.diff(addresses) > _GAP + 8 * count) + 1
    edges = [0, *cuts.tolist(), len(addresses)]
    spans = []
    for start, end in pairwise(edges):
        at = start
        while at < end:
            most = int(addresses[at]) + _SPAN
            after = end
            if int(addresses[end - 1]) >= most:
                after = at + int(np.searchsorted(addresses[at:end], np.uint64(most)))
            spans.append((at, after))
            at = after
    return spans


def _pick(memory: ByteSource, addresses: Words, words: Words, mask: Mask) -> None:
    """Read one span, and fill in the words and the mask for its addresses."""
    count = words.shape[1]
    low = int(addresses[0]) & -8
    size = (int(addresses[-1]) & -8) + 8 * count - low
    data = memory.read(low, size) if low < 1 << 62 else b""
    known = None
    if len(data) < size:
        data, known = _by_pages(memory, low, size)
    span = np.frombuffer(data, np.uint64)
    first = ((addresses - np.uint64(low)) >> np.uint64(3)).astype(np.intp)
    for column in range(count):
        words[:, column] = span[first + column]
    if known is not None:
        for column in range(count):
            mask[:, column] &= known[first + column]
    if not mask.all():
        words[~mask] = 0


def _by_pages(memory: ByteSource, low: int, size: int) -> tuple[bytes, Mask]:
    """Read a span page by page; return its bytes, and whether each word could be read."""
    data = bytearray(size)
    known = np.zeros(size // 8, np.bool_)
    at = low
    while at < low + size and at < 1 << 62:
        piece = memory.read(at, low + size - at)
        data[at - low : at - low + len(piece)] = piece
        known[(at - low) // 8 : (at - low + len(piece)) // 8] = True
        at += len(piece)
        if at < low + size:
            at = (at & -_PAGE) + _PAGE  # no memory there
    return bytes(data), known


_CHUNK = 1 << 18  # objects in one step
_LOW = np.uint64(0xFFFF_FFFF)
_CHAINED = np.uint64(1 << 20)  # 3.13: an object in a free list has a pointer in place of its count
_HEAD = 2


class Objects:
    """The data of each object, in the order of the addresses.

    `types` and `sizes` are u64: addresses of types, and bytes as `sys.getsizeof` counts. Both are
    0 for objects that are not `alive`, and for objects whose type cannot be read. A size is
    `shallow` if it is only the size of the object's own block, because the size rule of its type
    is not known.

    `starts` and `own` are address and bytes of that block. `buffers` is the address of a second
    block that belongs to the object alone, with `sizes - own` bytes; it is 0 if no such block is
    known.
    """

    __slots__ = ("alive", "buffers", "own", "shallow", "sizes", "starts", "types")

    def __init__(self, count: int) -> None:
        self.alive: Mask = np.zeros(count, np.bool_)
        self.types: Words = np.zeros(count, np.uint64)
        self.sizes: Words = np.zeros(count, np.uint64)
        self.shallow: Mask = np.zeros(count, np.bool_)
        self.starts: Words = np.zeros(count, np.uint64)
        self.own: Words = np.zeros(count, np.uint64)
        self.buffers: Words = np.zeros(count, np.uint64)


class ManyObjects(SizedObjects):
    """Computes sizes of objects with one size rule, as u64 arrays; `words` has FIRST_WORDS each."""

    __slots__ = ("_memory", "_words")

    def __init__(
        self,
        memory: ByteSource,
        layout: PythonLayout,
        addresses: Words,
        words: Words,
        own: Words,
        presize: Words,
    ) -> None:
        self._memory = memory
        self._words = words
        self.layout = layout
        self.addresses = addresses
        self.own = own
        self.presize = presize

    def at(self, offset: int) -> Words:
        """Return the 8-byte word of each object at a byte offset below 80."""
        return self._words[:, offset // 8]

    def behind(self, addresses: Words, count: int) -> Words:
        """Return `count` words at other addresses, an array for each; unreadable ones are 0."""
        return gather(self._memory, addresses, count)[0].T

    def where(self, condition: Mask, then: Any, otherwise: Any) -> Words:
        """Return `then` if the condition is true, else `otherwise`, element by element."""
        chosen: Words = np.where(condition, then, otherwise).astype(np.uint64)
        return chosen

    def magnitude(self, number: Words) -> Words:
        """Return the absolute value of a signed number."""
        return np.abs(number.view(np.int64)).astype(np.uint64)

    def most(self, number: Words) -> int:
        """Return the maximum of a number over all objects."""
        return int(number.max(initial=np.uint64(0)))


class ObjectReader:
    """Reads the objects in one memory, of one version of CPython."""

    def __init__(self, memory: ByteSource, layout: PythonLayout) -> None:
        self._memory = memory
        self._layout = layout
        self.types = PythonTypes(memory, layout)

    def look(self, addresses: Words, dying: Mask | None = None) -> Objects:
        """Read the objects at these addresses (u64; any order, quickest in rising order).

        `dying` marks objects whose destruction was announced: they are dead, unless their
        reference count shows that they were revived. An object that cannot be read is not alive.
        """
        size = len(addresses)
        objects = Objects(size)
        for start in range(0, size, _CHUNK):
            part = slice(start, start + _CHUNK)
            words, mask = gather(self._memory, addresses[part], FIRST_WORDS)
            alive = self._alive(words, mask, None if dying is None else dying[part])
            objects.alive[part] = alive
            places = np.flatnonzero(alive)
            sized = self._sized(addresses[part][places], words[places])
            places += start
            for name, column in sized.items():
                getattr(objects, name)[places] = column
        return objects

    def _alive(self, words: Words, mask: Mask, dying: Mask | None) -> Mask:
        refcnt = words[:, self._layout.object_refcnt // 8]
        alive = mask[:, :_HEAD].all(axis=1) & (refcnt & _LOW != 0)
        if dying is not None and self._layout.chains_dying:
            alive &= ~(dying & (refcnt >= _CHAINED))
        return np.asarray(alive, np.bool_)

    def _sized(self, addresses: Words, words: Words) -> dict[str, Words | Mask]:
        """Return the other fields of `Objects` for objects that are alive, by name."""
        unique, which = np.unique(words[:, self._layout.object_type // 8], return_inverse=True)
        infos = [self.types.info(int(addr)) for addr in unique]
        presize = np.array([_field(info, "presize") for info in infos], np.uint64)[which]
        own = np.array([_field(info, "basicsize") for info in infos], np.uint64)[which] + presize
        item = np.array([_field(info, "itemsize") for info in infos], np.uint64)
        known = np.array([info is not None for info in infos], np.bool_)
        names = [PLAIN if info is None else info.rule for info in infos]
        shallow = np.array([name != PLAIN and name not in RULES for name in names], np.bool_)

        sizes = own.copy()
        has_items = (item != 0)[which]
        if has_items.any():
            count = np.abs(words[has_items, self._layout.var_size // 8].view(np.int64))
            sizes[has_items] += item[which[has_items]] * count.astype(np.uint64)
        blocks, buffers = sizes.copy(), np.zeros(len(sizes), np.uint64)
        for name in {name for name in names if name in RULES}:
            chosen = np.flatnonzero(np.array([name == other for other in names])[which])
            group = ManyObjects(
                self._memory,
                self._layout,
                addresses[chosen],
                words[chosen],
                own[chosen],
                presize[chosen],
            )
            sizes[chosen] = RULES[name](group)
            if name in INLINE:
                blocks[chosen] = sizes[chosen]
            elif name in BUFFERS:
                buffers[chosen] = group.at(BUFFERS[name])
        sizes[~known[which]] = blocks[~known[which]] = 0
        return {
            "types": np.where(known[which], unique[which], 0).astype(np.uint64),
            "sizes": sizes,
            "shallow": shallow[which],
            "starts": addresses - presize,
            "own": blocks,
            "buffers": buffers,
        }

    def type_names(self, types: Iterable[int]) -> list[tuple[str, str] | None]:
        """Return (name, module and qualified name) of each type; None if it cannot be read.

        The first is `type(o).__name__`, the second `module.qualname`.
        """
        infos = [self.types.info(int(addr)) for addr in types]
        return [None if info is None else (info.name, info.qualified) for info in infos]


def _field(info: TypeInfo | None, name: str) -> int:
    """Return one number of a type, 0 if there is no type or the number is invalid."""
    value = 0 if info is None else getattr(info, name)
    return max(value, 0)
