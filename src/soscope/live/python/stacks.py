# SPDX-License-Identifier: Apache-2.0
"""The Python frames of a thread, read from memory while the thread is stopped.

Only the thread itself changes its frames, and each frame keeps its code object alive. When a code
object is freed, another may get its address. So cached data of a code object only counts while
all bytes that identify it are the same.
"""

from __future__ import annotations

import time
from struct import unpack_from

from soscope.binfmt.elf.lookup import Name
from soscope.errors import SoscopeError
from soscope.live.images.space import Space
from soscope.live.images.watch import MOST, HeldPlaces
from soscope.live.python.interpreter import Interpreter, thread_states
from soscope.live.python.lines import LineTable
from soscope.live.python.offsets import BYTE_INDEX, NOTHING, POINTER
from soscope.live.python.values import read_bytes, read_str
from soscope.model.call import OwnFrame
from soscope.model.record import Record
from soscope.proc.memory import word_at

_PAGE = 4096
_TAGS = 7
_PAUSE = 0.1  # seconds between searches for unknown threads
_MOST_LOOKS = 4096  # frames, including those without code
_MOST_KEPT = 4096  # chains of code objects
_MOST_HEADS = 1 << 16
_TYPE = Name(b"PyCode_Type")


class _Code(Record):
    """A code object: its names and lines, and the bytes that identify it."""

    head: bytes
    name: str
    file: str | None
    lines: LineTable | None


class _Seen(Record):
    """The data in the head of a frame, valid if `code` is still at `addr`."""

    previous: int
    is_shim: bool = False
    addr: int = 0
    code: _Code | None = None
    pair: tuple[OwnFrame, bool] | None = None


class PythonStacks:
    """Frames of the threads of one process, innermost first."""

    def __init__(self, space: Space, interpreter: Interpreter) -> None:
        """Prepare the reader. Raises SoscopeError if there is no type of code objects."""
        self._memory = space.memory
        self._tid = space.tid
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
        self._seen: dict[bytes, _Seen] = {}  # by frame heads, while their code objects are the same
        self._held: dict[tuple[int, ...], HeldPlaces] = {}
        fields = [layout.frame_code, layout.frame_previous, layout.frame_instr]
        flags = [at for at in (layout.frame_owner, layout.frame_entry) if at != NOTHING]
        self._frame_start = min(fields + flags)
        self._frame_end = max([at + 8 for at in fields] + [at + 1 for at in flags])
        self._state_start = min(layout.tstate_thread_id, layout.tstate_frame)
        self._state_end = max(layout.tstate_thread_id, layout.tstate_frame) + 8
        fields = [layout.code_filename, layout.code_name, layout.code_linetable]
        fields += [layout.code_firstlineno]
        if layout.code_qualname != NOTHING:
            fields.append(layout.code_qualname)
        self._code_start, self._code_end = layout.object_type, max(fields) + 8

    def frames(self, thread_pointer: int, most: int) -> list[tuple[OwnFrame, bool]]:
        """Return (function, file, line) and whether C code called it, for `most` frames at most.

        The list is empty if the interpreter does not know the thread.
        """
        first = self._first(thread_pointer)
        if not first:
            return []
        if len(self._seen) > _MOST_HEADS:
            self._seen.clear()
        chain, heads = self._walk(first, most)
        addrs = tuple({seen.addr: None for seen in chain if seen.addr})
        if not self._are_same(addrs):
            codes = {addr: self._code(addr) for addr in addrs}
            for place, seen in enumerate(chain):
                if seen.addr and seen.code is not codes[seen.addr]:
                    chain[place] = self._seen[heads[place]] = self._read_frame(heads[place])
            self._keep(addrs)
        frames: list[tuple[OwnFrame, bool]] = []
        for seen in chain:
            if seen.pair is not None:
                frames.append(seen.pair)
            elif seen.is_shim and frames:
                frames[-1] = frames[-1][0], True
        return frames

    def _first(self, thread_pointer: int) -> int:
        """Return the address of the innermost frame, 0 if there is none."""
        layout, start = self._layout, self._state_start
        state = self._states.get(thread_pointer, 0)
        data = self._memory.read(state + start, self._state_end - start) if state else b""
        at = layout.tstate_thread_id - start
        if len(data) < self._state_end - start or _word(data, at) != thread_pointer:
            now = time.monotonic()
            if not state and now < self._next:
                return 0
            self._next = now + _PAUSE
            self._states = thread_states(self._memory, self._interpreter)
            state = self._states.get(thread_pointer, 0)
            data = self._memory.read(state + start, self._state_end - start) if state else b""
            if len(data) < self._state_end - start:
                return 0
        frame = _word(data, layout.tstate_frame - start)
        if frame and layout.cframe_frame != NOTHING:
            return word_at(self._memory, frame + layout.cframe_frame)
        return frame

    def _walk(self, frame: int, most: int) -> tuple[list[_Seen], list[bytes]]:
        """Return the data in the heads of frames, from the cache or new, and the heads."""
        chain: list[_Seen] = []
        heads: list[bytes] = []
        page, start, count = b"", 0, 0
        first, end, known = self._frame_start, self._frame_end, self._seen
        for _ in range(_MOST_LOOKS):
            if not frame or count == most:
                break
            at = frame - start
            if not 0 <= at <= len(page) - end:
                # the frames of the callers mostly lie below it
                start = frame & -_PAGE
                page = self._memory.read(start, frame + end - start)
                at = frame - start
                if len(page) < at + end:
                    break
            head = page[at + first : at + end]
            seen = known.get(head)
            if seen is None:
                seen = known[head] = self._read_frame(head)
            chain.append(seen)
            heads.append(head)
            count += seen.pair is not None
            frame = seen.previous
        return chain, heads

    def _are_same(self, addrs: tuple[int, ...]) -> bool:
        """Return whether these code objects are known to be unchanged."""
        held = self._held.get(addrs)
        try:
            return held is not None and held.hold(self._tid)
        except OSError:
            return False  # the memory is not mapped any more

    def _keep(self, addrs: tuple[int, ...]) -> None:
        """Record the bytes that identify these code objects, if they are known for each of them."""
        if len(self._held) > _MOST_KEPT:
            self._held.clear()
        codes = [self._codes.get(addr) for addr in addrs]
        if 0 < len(codes) <= MOST and None not in codes:
            start = self._code_start
            self._held[addrs] = HeldPlaces(
                [(addr + start, code.head) for addr, code in zip(addrs, codes, strict=True) if code]
            )

    def _read_frame(self, head: bytes) -> _Seen:
        layout, first = self._layout, self._frame_start
        previous = _word(head, layout.frame_previous - first)
        owner = layout.frame_owner
        if owner != NOTHING and head[owner - first] >= layout.owner_shim:
            return _Seen(previous, is_shim=True)
        seen = _Seen(previous)
        addr = seen.addr = _word(head, layout.frame_code - first) & ~_TAGS
        code = seen.code = self._code(addr) if addr else None
        if code is None:
            return seen
        if layout.instr_kind == POINTER:
            instr = _word(head, layout.frame_instr - first) - addr - layout.code_bytecode
        else:
            instr = unpack_from("<i", head, layout.frame_instr - first)[0]
            instr *= 1 if layout.instr_kind == BYTE_INDEX else 2
        own = code.name, code.file, None if code.lines is None else code.lines.line(instr)
        seen.pair = own, self._is_entry(head)
        return seen

    def _is_entry(self, head: bytes) -> bool:
        layout = self._layout
        if not layout.frames_nest:
            return True  # each frame was called from C code
        entry = layout.frame_entry
        return entry != NOTHING and bool(head[entry - self._frame_start])

    def _code(self, addr: int) -> _Code | None:
        start = self._code_start
        head = self._memory.read(addr + start, self._code_end - start)
        known = self._codes.get(addr)
        if known is not None:
            if known.head == head:
                return known
            del self._codes[addr]  # and everything derived from it
            self._seen.clear()
            self._held.clear()
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


def _word(data: bytes, at: int) -> int:
    return int(unpack_from("<Q", data, at)[0])
