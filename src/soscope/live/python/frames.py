# SPDX-License-Identifier: Apache-2.0
"""A frame of CPython, read from memory: its function, its line, and its variables' names."""

from __future__ import annotations

from functools import partial

import numpy as np

from soscope.binfmt.source import ByteSource
from soscope.live.python.lines import line_of
from soscope.live.python.objects import Words
from soscope.live.python.offsets import BYTE_INDEX, NOTHING, POINTER, UNIT_INDEX, PythonLayout
from soscope.live.python.values import read_bytes, read_str
from soscope.proc.memory import word_at

_TAGS = np.uint64(7)
_MOST = 1 << 16  # variables
_TO_FREES = 16  # bytes from the count of variables to the count of free variables
TEMPORARY = "temporary value"


class FrameReader:
    """Frames in one memory: the data of `sys._getframe`, without running code."""

    def __init__(self, memory: ByteSource, layout: PythonLayout) -> None:
        self._memory = memory
        self._word = partial(word_at, memory)
        self._layout = layout

    def function(self, frame: int) -> tuple[str | None, str | None, int | None]:
        """Return the function's qualified name (3.9, 3.10: its name), the file and the line."""
        layout, code = self._layout, self._code(frame)
        at = layout.code_name if layout.code_qualname == NOTHING else layout.code_qualname
        name = read_str(self._memory, layout, self._word(code + at))
        file = read_str(self._memory, layout, self._word(code + layout.code_filename))
        table = read_bytes(self._memory, layout, self._word(code + layout.code_linetable))
        if table is None:
            return name, file, None
        first = self._word(code + layout.code_firstlineno) & 0xFFFF_FFFF
        line = line_of(table, first, self._instr(frame, code), layout.version)
        return name, file, first if line is None else line

    def variable(self, frame: int, held: int) -> str | None:
        """Return which variable of a frame holds an object: `local x`, `temporary value`."""
        code = self._code(frame)
        names = self._names(code)
        count = len(names) + (self._word(code + self._layout.code_stacksize) & 0xFFFF_FFFF)
        data = self._memory.read(frame + self._layout.frame_data, 8 * min(count, _MOST))
        words: Words = np.frombuffer(data[: len(data) // 8 * 8], np.uint64) & ~_TAGS
        places = np.flatnonzero(words == np.uint64(held))
        if not len(places):
            return None
        at = int(places[0])
        name = read_str(self._memory, self._layout, names[at]) if at < len(names) else None
        return TEMPORARY if name is None else f"local {name}"

    def free_name(self, code: int, index: int) -> str | None:
        """Return the name of a code object's free variable, by its index."""
        layout = self._layout
        if layout.code_freevars != NOTHING:
            names = self._tuple(self._word(code + layout.code_freevars))
        else:  # they are the last of all names
            frees = self._word(code + layout.code_nlocals + _TO_FREES) & 0xFFFF_FFFF
            every = self._tuple(self._word(code + layout.code_varnames))
            names = every[len(every) - frees :] if frees else []
        if index >= len(names):
            return None
        return read_str(self._memory, layout, names[index])

    def _code(self, frame: int) -> int:
        return self._word(frame + self._layout.frame_code) & ~int(_TAGS)

    def _instr(self, frame: int, code: int) -> int:
        layout = self._layout
        word = self._word(frame + layout.frame_instr)
        if layout.instr_kind == POINTER:
            return word - code - layout.code_bytecode
        index = int.from_bytes((word & 0xFFFF_FFFF).to_bytes(4, "little"), "little", signed=True)
        return index * {BYTE_INDEX: 1, UNIT_INDEX: 2}[layout.instr_kind]

    def _names(self, code: int) -> list[int]:
        """Return the addresses of the names of a frame's variables, in order."""
        layout = self._layout
        names = self._tuple(self._word(code + layout.code_varnames))
        for more in (layout.code_cellvars, layout.code_freevars):
            if more != NOTHING:
                names += self._tuple(self._word(code + more))
        return names

    def _tuple(self, addr: int) -> list[int]:
        count = self._word(addr + self._layout.var_size)
        start = addr + self._layout.tuple_data
        data = self._memory.read(start, 8 * min(count, _MOST)) if addr else b""
        return [int(word) for word in np.frombuffer(data[: len(data) // 8 * 8], np.uint64)]
