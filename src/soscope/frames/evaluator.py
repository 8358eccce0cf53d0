# SPDX-License-Identifier: Apache-2.0
"""The evaluator: the function that runs an interpreter's code.

In a stack, the interpreter's frames replace the frames of this function.
"""

from __future__ import annotations

from collections import Counter

from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.symbols.table import SymbolTable
from soscope.binfmt.elf.unwind import FrameTable, Row
from soscope.errors import SoscopeError
from soscope.live.names.staticnames import ImageNames

# CPython's function from 3.6 on, exported as tools may replace it, and Ruby's up to 3.2.
_NAMES = ("_PyEval_EvalFrameDefault", "rb_vm_exec")
_RUBY_MAIN = "rb_iseq_eval_main"  # ends with a jump to Ruby's evaluator
_JUMP = 0xE9  # opcode of x86-64, with a displacement of four bytes
_SAMPLES = 64

NO_PART, BODY, COLD = range(3)  # results of `Evaluator.part`


class Evaluator:
    """Recognises the evaluator's code in one image, none if the image has no such function.

    Compilers move seldom executed code out of a function, and in a stripped file that part has no
    name. But it continues with the frame of the function, which hardly any other function has.
    """

    __slots__ = ("_end", "_frame", "_start", "_table")

    def __init__(self, image: ElfImage, names: ImageNames) -> None:
        self._start = self._end = 0
        self._table: FrameTable | None = None
        self._frame: _Frame | None = None
        try:
            self._start, self._end = _extent(image, names)
            self._table = FrameTable(image)
            if self._start == self._end:
                self._start, self._end = _extent_of_ruby(image, self._table)
            step = max((self._end - self._start) // _SAMPLES, 1)
            frames = map(self._frame_at, range(self._start, self._end, step))
            self._frame = Counter(filter(None, frames)).most_common(1)[0][0]
        except (SoscopeError, OSError, IndexError):
            pass  # continue with what is known

    def part(self, vaddr: int) -> int:
        """Return BODY, COLD for a possible cold part, or NO_PART for other code."""
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


def _extent(image: ElfImage, names: ImageNames) -> tuple[int, int]:
    """Return the link-time addresses [start, end) of the function, by name; (0, 0) if none."""
    exported = SymbolTable(image)
    for name in _NAMES:
        symbol = exported.lookup(name) or next(iter(names.find(name)), (0, None))[1]
        if symbol is not None and symbol.size:
            return symbol.value, symbol.value + symbol.size
    return 0, 0


def _extent_of_ruby(image: ElfImage, table: FrameTable) -> tuple[int, int]:
    """Return the addresses of Ruby's evaluator if it has no symbol.

    They are the target of the jump with which a function that has a symbol ends.
    """
    main = SymbolTable(image).lookup(_RUBY_MAIN)
    if main is None:
        return 0, 0
    code = image.source.read(image.locate(main.value), main.size)
    end, evaluator = main.value + main.size, (0, 0)
    for at in range(len(code) - 4):
        to = main.value + at + 5 + int.from_bytes(code[at + 1 : at + 5], "little", signed=True)
        if code[at] != _JUMP or main.value <= to < end:
            continue
        extent = table.extent(to)
        if extent is not None and extent[0] == to:
            evaluator = extent
    return evaluator


_Frame = tuple[int, int, tuple[tuple[int, str, int | bytes], ...]]


def _frame(row: Row) -> _Frame | None:
    """Return the size of a frame and its saved registers, None before it has saved any."""
    saved = tuple(sorted((register, *rule) for register, rule in row.rules.items()))
    return (row.register, row.offset, saved) if len(saved) > 1 else None
