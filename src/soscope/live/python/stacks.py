# SPDX-License-Identifier: Apache-2.0
"""The frames of Python that a thread is in, read from memory while the thread stands still.

Only the thread itself changes them, and each keeps its code alive. A code object that has ended
may leave its address to another one: what is known of one is taken only while all that tells it
from others is the same.
"""

from __future__ import annotations

import time
from struct import unpack_from

from soscope.binfmt.elf.symbols.lookup import Name
from soscope.binfmt.source import ByteSource
from soscope.errors import SoscopeError
from soscope.live.python.interpreter import Interpreter
from soscope.live.python.lines import LineTable
from soscope.live.python.offsets import BYTE_INDEX, NOTHING, POINTER
from soscope.live.python.strings import read_bytes, read_str
from soscope.live.python.threads import thread_states, word_at

_PAGE = 4096
_TAGS = 7
_PAUSE = 0.1  # seconds between looks for threads that are not known
_MOST_LOOKS = 4096  # frames, those without code among them
_TYPE = Name(b"PyCode_Type")

Own = tuple[str, str | None, int | None]  # function, file, line


class _Code:
    """A code object: the bytes that tell it from others, and what it is called."""

    __slots__ = ("file", "head", "lines", "name")

    def __init__(self, head: bytes, name: str, file: str | None, lines: LineTable | None) -> None:
        self.head = head
        self.name = name
        self.file = file
        self.lines = lines


class PythonStacks:
    """Frames of the threads of one process, with the innermost first."""

    def __init__(self, memory: ByteSource, interpreter: Interpreter) -> None:
        """Prepare. Raises SoscopeError for an interpreter that has no type of code objects."""
        self._memory = memory
        self._interpreter = interpreter
        layout = self._layout = interpreter.layout
        image = interpreter.image
        symbol = image.symbols.find(_TYPE)
        if symbol is None:
            raise SoscopeError(f"{image.name}: it has no PyCode_Type")
        self._type = symbol.value + image.load_bias
        self._states: dict[int, int] = {}
        self._next = 0.0
        self._codes: dict[int, _Code] = {}
        self._checked: dict[int, _Code | None] = {}  # in the stack that is read
        ends = [layout.frame_code + 8, layout.frame_previous + 8, layout.frame_instr + 8]
        ends += [at + 1 for at in (layout.frame_owner, layout.frame_entry) if at != NOTHING]
        self._frame_size = max(ends)
        fields = [layout.code_filename, layout.code_name, layout.code_linetable]
        fields += [layout.code_firstlineno]
        if layout.code_qualname != NOTHING:
            fields.append(layout.code_qualname)
        self._code_start, self._code_end = layout.object_type, max(fields) + 8

    def frames(self, thread_pointer: int, most: int) -> list[tuple[Own, bool]]:
        """Return (function, file, line) of each frame, and whether C code has called for it.

        None at all for a thread that the interpreter does not know. At most `most`.
        """
        layout = self._layout
        state = self._state(thread_pointer)
        frame = word_at(self._memory, state + layout.tstate_frame) if state else 0
        if frame and layout.cframe_frame != NOTHING:
            frame = word_at(self._memory, frame + layout.cframe_frame)
        frames: list[tuple[Own, bool]] = []
        page, start = b"", 0
        self._checked.clear()
        size, owner = self._frame_size, layout.frame_owner
        for _ in range(_MOST_LOOKS):
            if not frame or len(frames) == most:
                break
            at = frame - start
            if not 0 <= at <= len(page) - size:
                # those that were called from, mostly, lie below it
                start = frame & -_PAGE
                page = self._memory.read(start, frame + size - start)
                at = frame - start
                if len(page) < at + size:
                    break
            if owner != NOTHING and page[at + owner] >= layout.owner_shim:
                if frames:
                    frames[-1] = frames[-1][0], True
            else:
                own = self._own(page, at)
                if own is not None:
                    frames.append((own, self._is_entry(page, at)))
            frame = unpack_from("<Q", page, at + layout.frame_previous)[0]
        return frames

    def _is_entry(self, page: bytes, at: int) -> bool:
        layout = self._layout
        if layout.version < (3, 11):
            return True  # each frame has a call of its own that runs it
        return layout.frame_entry != NOTHING and bool(page[at + layout.frame_entry])

    def _state(self, thread_pointer: int) -> int:
        """Return the address of a thread's state, 0: it has none."""
        state = self._states.get(thread_pointer, 0)
        at = self._layout.tstate_thread_id
        if state and word_at(self._memory, state + at) == thread_pointer:
            return state
        now = time.monotonic()
        if not state and now < self._next:
            return 0
        self._next = now + _PAUSE
        self._states = thread_states(self._memory, self._interpreter)
        return self._states.get(thread_pointer, 0)

    def _own(self, page: bytes, at: int) -> Own | None:
        layout = self._layout
        addr = unpack_from("<Q", page, at + layout.frame_code)[0] & ~_TAGS
        if addr not in self._checked:
            self._checked[addr] = self._code(addr) if addr else None
        code = self._checked[addr]
        if code is None:
            return None
        if layout.instr_kind == POINTER:
            word = unpack_from("<Q", page, at + layout.frame_instr)[0]
            instr = word - addr - layout.code_bytecode
        else:
            instr = unpack_from("<i", page, at + layout.frame_instr)[0]
            instr *= 1 if layout.instr_kind == BYTE_INDEX else 2
        return code.name, code.file, None if code.lines is None else code.lines.line(instr)

    def _code(self, addr: int) -> _Code | None:
        start = self._code_start
        head = self._memory.read(addr + start, self._code_end - start)
        known = self._codes.get(addr)
        if known is not None and known.head == head:
            return known
        if len(head) < self._code_end - start or head[:8] != self._type.to_bytes(8, "little"):
            return None
        known = self._codes[addr] = self._read(head)
        return known

    def _read(self, head: bytes) -> _Code:
        memory, layout = self._memory, self._layout

        def word(at: int) -> int:
            return int(unpack_from("<Q", head, at - self._code_start)[0])

        at = layout.code_name if layout.code_qualname == NOTHING else layout.code_qualname
        name = read_str(memory, layout, word(at)) or "?"
        file = read_str(memory, layout, word(layout.code_filename))
        table = read_bytes(memory, layout, word(layout.code_linetable))
        first = word(layout.code_firstlineno) & 0xFFFF_FFFF
        lines = None if table is None else LineTable(table, first, layout.version)
        return _Code(head, name, file, lines)
