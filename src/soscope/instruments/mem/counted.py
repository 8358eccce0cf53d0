# SPDX-License-Identifier: Apache-2.0
"""Blocks that the agent has only counted, by function and size class."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.wire.block import ControlBlock

# process (its own pid), thread, api, size class, made, bytes, freed, bytes
CountedRow = list[int]
_COARSE = layout.SIZES_FINE // layout.SIZES_STEP
_WORDS = layout.SIZES.size // 8
_HEAD = layout.SIZES.offset("classes") // 8
_CELL = layout.SIZE_CLASS.size // 8
_EACH_NS = 8  # ns that making a block takes at least
_MOST_BYTES = 1 << 47  # largest block: a process has no more addresses
_MOST_SUM = 1 << 56  # bytes of all blocks: more than a program asks for in its life


def class_sizes(number: int) -> tuple[int, int]:
    """Return the smallest and the largest size (bytes) of a size class.

    >>> from soscope.instruments.mem.counted import class_sizes
    >>> class_sizes(0), class_sizes(1), class_sizes(64)
    ((0, 16), (17, 32), (1025, 2048))
    """
    if number < _COARSE:
        step = layout.SIZES_STEP
        return number * step + bool(number), (number + 1) * step
    most = layout.SIZES_FINE << (number - _COARSE + 1)
    return most // 2 + 1, most


class CountedBlocks:
    """The counts of the threads of all programs, also of programs that have ended.

    If a process executes another program, the blocks that it had in use count as freed. `strange`
    counts frees of unknown blocks, and `untracked` blocks (and their bytes) whose end could not
    be seen. `damaged` counts impossible numbers, which are left out because the program has
    written over them.
    """

    __slots__ = ("_ended", "_lost", "_programs", "_running")

    def __init__(self) -> None:
        self._running: dict[int, tuple[int, ControlBlock]] = {}  # (program number, block)
        self._ended: list[tuple[int, list[CountedRow]]] = []
        self._programs = 0
        self._lost = [0] * 4

    def add(self, block: ControlBlock) -> None:
        """Include a program from now on."""
        self._running[id(block)] = self._programs, block
        self._programs += 1

    def take(self, block: ControlBlock) -> None:
        """Keep the final counts of a program, whose block is closed next."""
        known = self._running.pop(id(block), None)
        if known is not None:
            rows, lost = _read(block)
            self._ended.append((known[0], rows))
            self._lost = _plus(self._lost, lost)

    def said(self) -> dict[str, object]:
        """Return the present counts, for a recording."""
        programs, lost = [*self._ended], self._lost
        for number, block in self._running.values():
            more, others = _read(block)
            programs.append((number, more))
            lost = _plus(lost, others)
        rows: list[CountedRow] = []
        newer: set[int] = set()  # processes that have executed a later program
        for _, of_program in sorted(programs, reverse=True):
            rows += [row[:6] + row[4:6] if row[0] in newer else row for row in of_program]
            newer |= {row[0] for row in of_program}
        strange, untracked, size, damaged = lost
        return {
            "rows": rows,
            "strange": strange,
            "untracked": [untracked, size],
            "damaged": damaged,
        }


def _plus(left: list[int], right: list[int]) -> list[int]:
    return [amount + more for amount, more in zip(left, right, strict=True)]


def _read(block: ControlBlock) -> tuple[list[CountedRow], list[int]]:
    """Return the rows of a program, and [`strange`, `untracked`, its bytes, `damaged`]."""
    rows: list[CountedRow] = []
    lost = [0] * 4
    most = block.bounds.calls(_EACH_NS)
    with block.own(layout.INSTRUMENT_BLOCKS) as own:
        fields = layout.BLOCKS
        if len(own) < fields.size:
            return rows, lost
        first, arrays = fields.struct.unpack_from(block.given(layout.INSTRUMENT_BLOCKS))[10:12]
        used = fields.struct.unpack_from(own)[12]
        for number in range(min(used, arrays) if first else 0):
            start = first + number * layout.SIZES.size
            words = np.frombuffer(own, "<u8", _WORDS, start).copy()
            for at, (head, limit) in enumerate(
                zip(words[1:_HEAD].tolist(), (most, most, _MOST_SUM), strict=True)
            ):
                lost[at if head <= limit else 3] += head if head <= limit else 1
            owner = int(words[0])
            cells = words[_HEAD:].reshape(-1, _CELL)
            for at in np.flatnonzero(cells[:, 0] | cells[:, 2]).tolist():
                api, size_class = divmod(at, layout.SIZES_CLASSES)
                who = [owner & 0xFFFF_FFFF, owner >> 32]
                amounts = cells[at].tolist()
                if _can_be(size_class, amounts, most):
                    rows.append([*who, api, size_class, *amounts])
                else:
                    lost[3] += 1
    return rows, lost


def _can_be(size_class: int, amounts: list[int], most: int) -> bool:
    """Return whether the numbers of a size class are possible by now.

    A block may have been added to the count and not yet to the bytes.
    """
    smallest, largest = class_sizes(size_class)
    return smallest <= _MOST_BYTES and all(
        count <= most and (count - 1) * smallest <= size <= min((count + 1) * largest, _MOST_SUM)
        for count, size in zip(amounts[::2], amounts[1::2], strict=True)
    )


def summed(rows: Iterable[CountedRow]) -> dict[tuple[int, int, int], list[int]]:
    """Return the sums of rows by (process, api, size class), and the thread that made all blocks.

    The thread is 0 if several threads made blocks.
    """
    sums: dict[tuple[int, int, int], list[int]] = {}
    for pid, tid, api, size_class, *amounts in rows:
        row = sums.get((pid, api, size_class))
        if row is None:
            row = sums[pid, api, size_class] = [0, 0, 0, 0, -1]
        for at, amount in enumerate(amounts):
            row[at] += amount
        if amounts[0]:
            row[4] = tid if row[4] in (-1, tid) else 0
    return sums
