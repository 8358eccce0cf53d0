# SPDX-License-Identifier: Apache-2.0
"""Where a process's objects begin, and where in its code each was made.

The agent keeps that in the process's own memory (soscope/objects.h); here it is read from
outside, as columns.
"""

from __future__ import annotations

from soscope.binfmt.source import ByteSource
from soscope.wire import objectlayout as layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Literal

    import numpy as np
    from numpy.typing import NDArray

_SHIFTS = (0, 16, 32, 8)  # bytes from a block to its object, by what a word says
_TOP, _LEAF, _WORD = 34, 20, 4  # bits of an address below each level
_PAGE = 4096
_STEP = 256  # bytes of a table that are compared with zeros at once
_NONE = bytes(_STEP)


class Tally:
    """What the agent has counted: objects `created` and `destroyed`, those without room."""

    __slots__ = ("created", "destroyed", "lost", "origin_count", "origins")

    def __init__(self, memory: ByteSource, addr: int) -> None:
        """Read it. Raises ValueError where it cannot be read."""
        packed = layout.OBJECTS_TALLY
        data = memory.read(addr, packed.size)
        if len(data) < packed.size:
            raise ValueError("the objects' counters cannot be read")
        words = packed.struct.unpack(data)
        self.created, self.destroyed, self.lost, self.origins, self.origin_count = words


class SideTable:
    """The objects of a process: parallel columns, one element an object.

    `addrs` are the objects' addresses (u64), `origins` numbers of origins (u32), `dying` is true
    where the interpreter has announced an end. `damaged` are the parts of it that no agent has
    made: they are left out.
    """

    __slots__ = ("addrs", "damaged", "dying", "origins")

    def __init__(self, memory: ByteSource, addr: int) -> None:
        """Read the table at `addr`."""
        import numpy as np

        blocks, words = [np.empty(0, "<u8")], [np.empty(0, "<u4")]
        self.damaged: list[int] = []
        for start, leaf in _leaves(memory, addr, self.damaged):
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
    """Return (address, origin, whether its end was announced) of each object; None: over `most`.

    It is what `SideTable` has, without numpy. To `ranges` is added where the tables lie, and to
    `damaged` what is none.
    """
    objects: list[tuple[int, int, bool]] = []
    known = {addr}
    ranges.append((addr, addr + 8 * layout.SIDE_TOPS))
    leaves = _words_used(_read(memory, addr, 8 * layout.SIDE_TOPS), "Q")
    for top, second in _tables(leaves, known, damaged):
        ranges.append((second, second + 8 * layout.SIDE_LEAVES))
        thirds = _words_used(_read(memory, second, 8 * layout.SIDE_LEAVES), "Q")
        for leaf, third in _tables(thirds, known, damaged):
            start = (top << _TOP) + (leaf << _LEAF)
            words = _words_used(_read(memory, third, 4 * layout.SIDE_WORDS), "I")
            ranges.append((third, third + 4 * layout.SIDE_WORDS))
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
    """Yield those that can lead to a table: each is a mapping of its own, and is led to once.

    The rest is added to `damaged`: the program has written over it.
    """
    for at, addr in words:
        if addr % _PAGE or addr >> 47 or addr in known:
            damaged.append(addr)
        else:
            known.add(addr)
            yield at, addr


def _words_used(data: bytes, form: Literal["I", "Q"]) -> list[tuple[int, int]]:
    """Return (place, word) of all words that are not 0; a table has whole steps."""
    words = memoryview(data).cast(form)
    size = words.itemsize
    used: list[tuple[int, int]] = []
    for start in range(0, len(data), _STEP):
        if data[start : start + _STEP] != _NONE:
            first = start // size
            part = words[first : first + _STEP // size].tolist()
            used += [(at, word) for at, word in enumerate(part, first) if word]
    return used


def _leaves(memory: ByteSource, addr: int, damaged: list[int]) -> list[tuple[int, int]]:
    """Return the lowest tables that there are: (first address that one is about, its own)."""
    import numpy as np

    def words(start: int, count: int) -> list[tuple[int, int]]:
        table = np.frombuffer(_read(memory, start, 8 * count), "<u8")
        used = np.flatnonzero(table)
        return list(zip(used.tolist(), table[used].tolist(), strict=True))

    leaves, known = [], {addr}
    for top, second in _tables(words(addr, layout.SIDE_TOPS), known, damaged):
        for leaf, third in _tables(words(second, layout.SIDE_LEAVES), known, damaged):
            leaves.append(((top << _TOP) + (leaf << _LEAF), third))
    return leaves


def _read(memory: ByteSource, addr: int, size: int) -> bytes:
    """Return `size` bytes; zeros for what cannot be read."""
    data = memory.read(addr, size)
    if len(data) == size:
        return data
    parts = [data, *(memory.read(addr + at, _PAGE) for at in range(len(data), size, _PAGE))]
    return b"".join(parts)[:size].ljust(size, b"\0")
