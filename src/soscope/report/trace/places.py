# SPDX-License-Identifier: Apache-2.0
"""Places of calls: image and offset, with function and line if known."""

from __future__ import annotations

from soscope.frames.names import FrameNames
from soscope.model.call import Entry, printable
from soscope.recording.names import Programs, RecordedProgram
from soscope.report.trace.display import Display
from soscope.report.trace.names import FunctionNames

_UNKNOWN = "?"
_MOST_KEPT = 1 << 16


class CallPlaces:
    """Names the return addresses of calls. `programs` has the images of each program.

    `display` tells whether names of C++ are demangled.
    """

    def __init__(self, programs: Programs, display: Display) -> None:
        self._programs = programs
        self._time_ns = programs.clock.time_ns
        self._functions = FunctionNames(display)
        self._names = FrameNames()
        self._kept: dict[tuple[int, int], str] = {}

    def text(self, entry: Entry) -> str:
        """Return the place that a call returns to: `prog+0x1234 main+0x20 prog.c:12`.

        If the address is in no known image, return the address. If it is not known, return `?`.
        """
        addr = entry.return_addr
        if not addr:
            return _UNKNOWN
        slot = entry.slot
        program = self._programs[slot.process]
        word = program.word(addr, entry.pid, entry.time_ns, self._time_ns, slot.caller)
        key = slot.process, word
        text = self._kept.get(key)
        if text is None:
            if len(self._kept) > _MOST_KEPT:
                self._kept.clear()
            text = self._kept[key] = self._made(program, word)
        return text

    def _made(self, program: RecordedProgram, word: int) -> str:
        ((frame, addr),) = self._names.places(program, (word,))
        if frame.image is None:
            return f"{addr:#x}"
        parts = [f"{frame.image}+{addr:#x}"]
        if frame.symbol is not None:
            parts.append(f"{self._functions.short(frame.symbol)}+{frame.offset:#x}")
        if frame.file is not None and frame.line is not None:
            parts.append(f"{frame.file.rpartition('/')[2]}:{frame.line}")
        return printable(" ".join(parts))
