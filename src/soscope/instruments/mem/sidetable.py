# SPDX-License-Identifier: Apache-2.0
"""Read the side table: addresses of a process's objects, and the origin of each.

The agent keeps the table in the process's own memory (soscope/objects.h). Here it is read from
outside, as columns.
"""

from __future__ import annotations

from soscope.binfmt.source import ByteSource
from soscope.wire import headers as layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Literal

    import numpy as np
    from numpy.typing import NDArray

_SHIFTS = (0, 16, 32, 8)  # offsets of an object in its block, by two bits of its word
_TOP, _LEAF, _WORD = 34, 20, 4  # address bits below each level
_PAGE = 4096
_STEP = 256  # bytes of a table that are compared with zeros at once
_NONE = bytes(_STEP)


class Tally:
    """The agent's counters: objects `created` and `destroyed`, and those without room."""

    __slots__ = ("created", "destroyed", "lost", "origin_count", "origins")

    def __init__(self, memory: ByteSource, addr: int) -> None:
        """Read the counters. Raises ValueError if they cannot be read."""
        packed = layout.OBJECTS_TALLY
        data = memory.read(addr, packed.size)
        if len(data) < packed.size:
            raise ValueError("the objects' counters cannot be read")
        words = packed.struct.unpack(data)
        self.created, self.destroyed, self.lost, self.origins, self.origin_count = words


class SideTable:
    """The objects of a process, as parallel columns with one element for each object.

    `addrs` are the objects' addresses (u64) and `origins` are numbers of origins (u32). `dying`
    is true for objects whose end the interpreter has announced. `damaged` are the addresses of
    parts that the agent cannot have made; they are left out.
    """

    __slots__ = ("addrs", "damaged", "dying", "origins")

    def __init__(self, memory: ByteSource, addr: int) -> None:
        """Read the table at `addr`."""
        import numpy as np

        blocks, words = [np.empty(0, "<u8")], [np.empty(0, "<u4")]
        self.damaged: list[int] = []
        for start, leaf in _leaves(memory, addr, [], self.damaged):
            column = np.frombuffer(_read(memory, leaf, 4 * layout.SIDE_WORDS), "<u4")
            used = np.flatnonzero(column)
            blocks.append((used.astype("<u8") << _WORD) + np.uint64(start))
            words.append(column[used])
        block, word = np.concatenate(blocks), np.concatenate(words)
        shifts = np.array(_SHIFTS, "<u8")[word >> layout.SIDE_SHIFT & 3]
        self.addrs: NDArray[np.uint64] = block + shifts
        self.origins: NDArray[np.uint32] = word & np.uint32(layout.SIDE_ORIGIN)
        self.dying: NDArray[np.bool_] = (word & np.uint32(layout.SIDE_DYING)) != 0


def few(
    memory: ByteSource,
    addr: int,
    most: int,
    ranges: list[tuple[int, int]],
    damaged: list[int],
) -> list[tuple[int, int, bool]] | None:
    """Return (address, origin, whether it is dying) of each object, None if there are over `most`.

    This is the content of a `SideTable`, read without numpy. The ranges of the tables are added
    to `ranges`, and invalid addresses of tables to `damaged`.
    """
    objects: list[tuple[int, int, bool]] = []
    for start, table in _leaves(memory, addr, ranges, damaged):
        words = _words_used(_read(memory, table, 4 * layout.SIDE_WORDS), "I")
        if len(objects) + len(words) > most:
            return None
        objects += [
            (
                start + (at << _WORD) + _SHIFTS[word >> layout.SIDE_SHIFT & 3],
                word & layout.SIDE_ORIGIN,
                bool(word & layout.SIDE_DYING),
            )
            for at, word in words
        ]
    return objects


def _tables(
    words: list[tuple[int, int]], known: set[int], damaged: list[int]
) -> Iterator[tuple[int, int]]:
    """Yield the words that can be addresses of tables. Each table begins a page and occurs once.

    Other words are added to `damaged`, as the program has written over them.
    """
    for at, addr in words:
        if addr % _PAGE or addr >> 47 or addr in known:
            damaged.append(addr)
        else:
            known.add(addr)
            yield at, addr


def _words_used(data: bytes, form: Literal["I", "Q"]) -> list[tuple[int, int]]:
    """Return (index, word) of all words that are not 0. `data` is a multiple of _STEP bytes."""
    words = memoryview(data).cast(form)
    size = words.itemsize
    used: list[tuple[int, int]] = []
    for start in range(0, len(data), _STEP):
        if data[start : start + _STEP] != _NONE:
            first = start // size
            part = words[first : first + _STEP // size].tolist()
            used += [(at, word) for at, word in enumerate(part, first) if word]
    return used


def _leaves(
    memory: ByteSource, addr: int, ranges: list[tuple[int, int]], damaged: list[int]
) -> Iterator[tuple[int, int]]:
    """Yield the tables of the lowest level: (first address that it covers, its own address).

    The ranges of all tables are added to `ranges`, and invalid addresses to `damaged`.
    """
    known = {addr}
    ranges.append((addr, addr + 8 * layout.SIDE_TOPS))
    tops = _words_used(_read(memory, addr, 8 * layout.SIDE_TOPS), "Q")
    for top, second in _tables(tops, known, damaged):
        ranges.append((second, second + 8 * layout.SIDE_LEAVES))
        leaves = _words_used(_read(memory, second, 8 * layout.SIDE_LEAVES), "Q")
        for leaf, third in _tables(leaves, known, damaged):
            ranges.append((third, third + 4 * layout.SIDE_WORDS))
            yield (top << _TOP) + (leaf << _LEAF), third


def _read(memory: ByteSource, addr: int, size: int) -> bytes:
    """Return `size` bytes, with zeros for pages that cannot be read."""
    data = memory.read(addr, size)
    if len(data) == size:
        return data
    parts = [data, *(memory.read(addr + at, _PAGE) for at in range(len(data), size, _PAGE))]
    return b"".join(parts)[:size].ljust(size, b"\0")
