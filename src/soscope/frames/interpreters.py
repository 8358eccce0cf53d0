# SPDX-License-Identifier: Apache-2.0
"""Frames of Python and Ruby in stacks of blocks: their names, and their places.

The agent records a stack's return addresses, and then the interpreter's frames. If C code makes
the interpreter run code, it calls the evaluator, which runs frames until the frame returns that
it was called for, the *entry*. Ruby's frames have a line in place of an instruction.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import unpack_from
from typing import TypeVar

from soscope.binfmt.source import BufferSource
from soscope.frames.code import OriginCode
from soscope.frames.evaluator import BODY, COLD
from soscope.live.python.lines import line_of
from soscope.model.call import StackFrame
from soscope.recording.names import RecordedProgram
from soscope.wire import layout

_Frame = TypeVar("_Frame")

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
    native: Sequence[_Frame],
    parts: Sequence[int],
    own: Sequence[tuple[_Frame, bool]],
    *,
    is_cut: bool = False,
) -> list[_Frame]:
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
    mixed: list[_Frame] = []
    for at, frame in enumerate(native):
        mixed += instead.get(at, [frame])
    for run in runs[count:]:
        mixed += run
    return mixed


def _runs(own: Sequence[tuple[_Frame, bool]]) -> list[list[_Frame]]:
    """Return the frames that each call of the evaluator ran."""
    runs: list[list[_Frame]] = []
    is_new = True
    for frame, is_last in own:
        if is_new:
            runs.append([])
        runs[-1].append(frame)
        is_new = is_last
    return runs
