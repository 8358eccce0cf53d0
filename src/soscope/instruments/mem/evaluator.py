# SPDX-License-Identifier: Apache-2.0
"""The function of CPython that runs Python code: in a stack, Python's frames stand in its place."""

from __future__ import annotations

from collections import Counter

from soscope.binfmt.elf.cfi import FrameTable, Row
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.symbols.table import SymbolTable
from soscope.errors import SoscopeError
from soscope.live.names.staticnames import ImageNames

_NAME = "_PyEval_EvalFrameDefault"  # from 3.6 on; exported, as tools replace it
_SAMPLES = 64

NO_PART, BODY, COLD = range(3)  # of what an address may be


class Evaluator:
    """Tells code of the evaluator in one image; nothing is its code where it has no such function.

    Compilers move what they take for cold out of a function, and in a stripped file that part has
    no name. It goes on with the frame of the function, though, which hardly another one has.
    """

    __slots__ = ("_end", "_frame", "_start", "_table")

    def __init__(self, image: ElfImage, names: ImageNames) -> None:
        self._start = self._end = 0
        self._table: FrameTable | None = None
        self._frame: _Frame | None = None
        try:
            symbol = SymbolTable(image).lookup(_NAME) or next(iter(names.find(_NAME)), (0, None))[1]
            if symbol is None or not symbol.size:
                return
            self._start, self._end = symbol.value, symbol.value + symbol.size
            self._table = FrameTable(image)
            step = max(symbol.size // _SAMPLES, 1)
            frames = map(self._frame_at, range(self._start, self._end, step))
            self._frame = Counter(filter(None, frames)).most_common(1)[0][0]
        except (SoscopeError, OSError, IndexError):
            pass  # what is known by then has to do

    def part(self, vaddr: int) -> int:
        """Return NO_PART, BODY, or COLD for what may be its cold part."""
        if self._start <= vaddr < self._end:
            return BODY
        if self._table is None or self._frame is None:
            return NO_PART
        try:
            start = self._table.start(vaddr)
            return COLD if start is not None and self._frame_at(start) == self._frame else NO_PART
        except SoscopeError:
            return NO_PART

    def _frame_at(self, vaddr: int) -> _Frame | None:
        row = self._table.row(vaddr) if self._table is not None else None
        return None if row is None else _frame(row)


_Frame = tuple[int, int, tuple[tuple[int, str, int | bytes], ...]]


def _frame(row: Row) -> _Frame | None:
    """Return how large a frame is and what it has saved; None before it has saved anything."""
    saved = tuple(sorted((register, *rule) for register, rule in row.rules.items()))
    return (row.register, row.offset, saved) if len(saved) > 1 else None
