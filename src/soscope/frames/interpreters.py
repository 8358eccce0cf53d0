# SPDX-License-Identifier: Apache-2.0
"""Replace an interpreter's native frames in stacks by frames of Python or Ruby."""

from __future__ import annotations

from collections import Counter
from struct import unpack_from
from typing import TypeVar

from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.symboltable import SymbolTable
from soscope.binfmt.elf.unwind import FrameTable, Row
from soscope.binfmt.source import BufferSource
from soscope.errors import SoscopeError
from soscope.live.names.staticnames import ImageNames
from soscope.live.python.lines import OriginCode, line_of
from soscope.model.call import StackFrame
from soscope.recording.names import RecordedProgram
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

# The evaluator: the function that runs an interpreter's code.
#
# In a stack, the interpreter's frames replace the frames of this function.

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


# Frames of Python and Ruby in stacks of blocks: their names, and their places.
#
# The agent records a stack's return addresses, and then the interpreter's frames. If C code makes
# the interpreter run code, it calls the evaluator, which runs frames until the frame returns that
# it was called for, the *entry*. Ruby's frames have a line in place of an instruction.

_InterpretersFrame = TypeVar("_InterpretersFrame")

_MAJOR = 3
_INSTR = (1 << layout.FRAME_INSTR_BITS) - 1
_SIGN = 1 << layout.FRAME_INSTR_BITS - 1
_NUMBER = (1 << layout.FRAME_INSTR) - 1

_UNKNOWN = StackFrame(None, None, None)


def is_python(word: int) -> bool:
    """Return whether a word of a stack is an interpreter's frame, not a return address."""
    return bool(word >> layout.FRAME_PYTHON & 1)


def is_entry(word: int) -> bool:
    """Return whether an interpreter's frame was called by C code."""
    return bool(word >> layout.FRAME_ENTRY & 1)


class PythonFrames:
    """Names of the frames of Python and Ruby in one `program` of a recording."""

    def __init__(self, program: RecordedProgram) -> None:
        self.program = program
        self._codes: dict[int, tuple[OriginCode, int] | None] = {}
        self._known: dict[int, StackFrame] = {}
        self._same: dict[tuple[str, str, int], StackFrame] = {}  # equal frames are one object

    def of(self, word: int) -> StackFrame:
        """Return a frame with its name. Nothing is known of code that found no room."""
        frame = self._known.get(word)
        if frame is None:
            frame = self._known[word] = self._make(word)
        return frame

    def _make(self, word: int) -> StackFrame:
        number = word & _NUMBER
        if number not in self._codes:
            self._codes[number] = self._read(number)
        known = self._codes[number]
        if known is None:
            return _UNKNOWN
        code, minor = known
        instr = word >> layout.FRAME_INSTR & _INSTR
        instr -= instr << 1 & _SIGN << 1
        line: int | None = instr
        if minor != layout.CODE_RUBY:
            line = line_of(code.lines, code.first_line, instr, (_MAJOR, minor))
        said = code.name, code.file, code.first_line if line is None else line
        frame = self._same.get(said)
        if frame is None:
            frame = self._same[said] = StackFrame(None, said[0], None, *said[1:])
        return frame

    def _read(self, number: int) -> tuple[OriginCode, int] | None:
        words, at = self.program.stacks, number * 8
        if not number or at + 8 > len(words):
            return None
        (head,) = unpack_from("<Q", words, at)
        if not head >> layout.STACK_CODE & 1:
            return None
        size = 8 * (head >> layout.STACK_SIZE)
        source = BufferSource(bytes(words[at + 8 : at + 8 + size]))
        try:
            return OriginCode(source, 0), head >> layout.STACK_API & 0xFF
        except ValueError:
            return None  # the data is cut off


def mix(
    native: Sequence[_InterpretersFrame],
    parts: Sequence[int],
    own: Sequence[tuple[_InterpretersFrame, bool]],
    *,
    is_cut: bool = False,
) -> list[_InterpretersFrame]:
    """Return native frames, with an interpreter's frames in place of its evaluator's.

    `parts` tells for each native frame whether it is the evaluator's, and `own` for each
    interpreter frame whether it is an entry. If their numbers are equal, or if the stack was cut
    off (`is_cut`, or it has as many frames as possible), each evaluator is replaced by the frames
    that it ran. Else it is not known which frames it ran. Then all interpreter frames replace the
    innermost evaluator, or follow all others if no evaluator is known.
    """
    runs = _runs(own)
    places = [at for at, part in enumerate(parts) if part == BODY]
    if len(places) != len(runs):
        also = [at for at, part in enumerate(parts) if part in (BODY, COLD)]
        places = also if len(also) == len(runs) else places
    is_cut |= layout.BLOCK_FRAMES in (len(native), len(own))
    if len(places) != len(runs) and not is_cut:
        places = places[:1]
        runs = [[frame for run in runs for frame in run]]
    count = min(len(places), len(runs))
    instead = dict(zip(places, runs, strict=False))
    mixed: list[_InterpretersFrame] = []
    for at, frame in enumerate(native):
        mixed += instead.get(at, [frame])
    for run in runs[count:]:
        mixed += run
    return mixed


def _runs(own: Sequence[tuple[_InterpretersFrame, bool]]) -> list[list[_InterpretersFrame]]:
    """Return the frames that each call of the evaluator ran."""
    runs: list[list[_InterpretersFrame]] = []
    is_new = True
    for frame, is_last in own:
        if is_new:
            runs.append([])
        runs[-1].append(frame)
        is_new = is_last
    return runs
