# SPDX-License-Identifier: Apache-2.0
"""The Ruby frames of a thread, read from memory while the thread is stopped.

Only the thread itself changes its frames, and each frame keeps its code alive. When code is
freed, other code may get its address. So cached data only counts while all bytes that identify
the code are the same. Frames of methods written in C are left out, because their functions are on
the native stack.
"""

from __future__ import annotations

from struct import Struct, unpack_from

from soscope.binfmt.source import ByteSource
from soscope.live.images.space import Space
from soscope.live.places import MOST, HeldPlaces
from soscope.live.ruby.classes import ClassNames
from soscope.live.ruby.codes import RubyCode, read_code
from soscope.live.ruby.context import RubyContexts
from soscope.live.ruby.interpreter import Ruby
from soscope.live.ruby.layout import (
    C_FRAME,
    ENTRY_OWNER,
    FINISH,
    IMEMO,
    IMEMO_MASK,
    IMEMO_SHIFT,
    KIND,
    LOCAL,
    METHOD_ENTRY,
    SVAR,
)
from soscope.model.call import OwnFrame

_CONTEXT = Struct("<3Q")  # stack, its size in words, control frame
_MOST_WORDS = 1 << 27  # words of a stack
_MOST_LOOKS = 1024  # frames, including those of C methods
_MOST_VALUES = 1 << 18  # bytes of a stack's values, which contain most environments
_MOST_OUTER = 64  # environments around an environment
_MOST_KEPT = 4096  # chains of frames
_UNKNOWN: OwnFrame = ("?", None, None)

# code, program counter, where its method is recorded, whether C code waits for it
_Seen = tuple[int, int, int, bool]


class _KnownChain:
    """A chain of code seen before: `places` are the memory ranges that identify it."""

    __slots__ = ("codes", "owners", "places")

    def __init__(
        self, places: HeldPlaces, codes: list[RubyCode | None], owners: list[str | None]
    ) -> None:
        self.places = places
        self.codes = codes
        self.owners = owners


class RubyStacks:
    """Frames of the threads of one process, innermost first."""

    def __init__(self, space: Space, ruby: Ruby) -> None:
        self._memory = space.memory
        self._tid = space.tid
        self._layout = ruby.layout
        self._contexts = RubyContexts(space.memory, ruby)
        self._classes = ClassNames(space.memory, ruby)
        self._frame = Struct(f"<5Q{ruby.layout.frame - 40}x")
        self._kept: dict[tuple[int, ...], _KnownChain] = {}
        self._named: dict[tuple[RubyCode, int, str | None], OwnFrame] = {}

    def frames(self, thread_pointer: int, most: int) -> list[tuple[OwnFrame, bool]]:
        """Return each frame, and whether C code called it; at most `most` frames.

        The list is empty if Ruby does not know the thread.
        """
        context = self._contexts.of(thread_pointer)
        head = self._memory.read(context, _CONTEXT.size) if context else b""
        if len(head) < _CONTEXT.size:
            return []
        low, size, at = _CONTEXT.unpack(head)
        length = low + 8 * size - self._frame.size - at  # the outermost one is not a frame
        is_stack = low and size < _MOST_WORDS and low <= at and length > 0
        if not is_stack or length % self._frame.size:
            return []
        seen = self._seen(low, at, min(length, _MOST_LOOKS * self._frame.size), most)
        kept = self._known(seen) if seen else None
        if kept is None:
            return []
        return [
            (_UNKNOWN if code is None else self._name(code, pc, owner), waits)
            for (_, pc, _, waits), code, owner in zip(seen, kept.codes, kept.owners, strict=True)
        ]

    def _seen(self, low: int, at: int, length: int, most: int) -> list[_Seen]:
        data = self._memory.read(at, length)
        data = data[: len(data) // self._frame.size * self._frame.size]
        if not data:
            return []
        values = _Values(self._memory, low, min(unpack_from("<Q", data, 8)[0], at))
        seen: list[_Seen] = []
        for pc, _, code, _, environment in self._frame.iter_unpack(data):
            if not environment or environment & 7:
                break
            flags = values.word(environment)
            if flags & C_FRAME or not pc:
                continue
            seen.append((code, pc, values.method(environment, flags), bool(flags & FINISH)))
            if len(seen) == most:
                break
        return seen

    def _known(self, seen: list[_Seen]) -> _KnownChain | None:
        """Return the code of a chain of frames, and the owners of its methods."""
        key = tuple([word for code, _, method, _ in seen for word in (code, method)])
        kept = self._kept.get(key)
        try:
            if kept is not None and kept.places.hold(self._tid):
                return kept
        except OSError:
            pass  # the memory is not mapped any more
        if len(self._kept) > _MOST_KEPT:
            self._kept.clear()
            self._named.clear()
        codes = {code: read_code(self._memory, self._layout, code) for code, _, _, _ in seen}
        places = [place for code in codes.values() if code is not None for place in code.places]
        owners: dict[int, str | None] = {0: None}
        for _, _, method, _ in seen:
            if method not in owners:
                owners[method] = self._owner(method, places)
        if not places or len(places) > MOST:
            return None
        kept = self._kept[key] = _KnownChain(
            HeldPlaces(places),
            [codes[code] for code, _, _, _ in seen],
            [owners[method] for _, _, method, _ in seen],
        )
        return kept

    def _owner(self, method: int, places: list[tuple[int, bytes]]) -> str | None:
        """Return the prefix of a method's name; add the memory that it depends on to `places`."""
        for _ in range(2):
            entry = self._memory.read(method, ENTRY_OWNER + 8)
            flags = entry[0] | entry[1] << 8 if len(entry) == ENTRY_OWNER + 8 else 0
            if flags & KIND != IMEMO:
                return None
            kind = flags >> IMEMO_SHIFT & IMEMO_MASK
            if kind == METHOD_ENTRY:
                places.append((method + 8, entry[8:]))  # the garbage collector changes the flags
                return self._classes.method(unpack_from("<Q", entry, ENTRY_OWNER)[0])
            if kind != SVAR:
                return None  # not a method, but the body of a class
            places.append((method + 8, entry[8:16]))
            method = unpack_from("<Q", entry, 8)[0]
        return None

    def _name(self, code: RubyCode, pc: int, owner: str | None) -> OwnFrame:
        key = code, pc, owner
        named = self._named.get(key)
        if named is None:
            named = self._named[key] = (code.name(owner), code.file, code.line(pc))
        return named


class _Values:
    """The values on a thread's stack, from `low` to `end`, which contain most environments."""

    __slots__ = ("_data", "_end", "_memory", "_start")

    def __init__(self, memory: ByteSource, low: int, end: int) -> None:
        self._memory = memory
        self._start = max(low, end - _MOST_VALUES)
        self._data = memory.read(self._start, max(end - self._start, 0))

    def word(self, addr: int) -> int:
        """Return the word at an address, 0 if there is none."""
        at = addr - self._start
        if 0 <= at <= len(self._data) - 8:
            return int(unpack_from("<Q", self._data, at)[0])
        data = self._memory.read(addr, 8)
        return int.from_bytes(data, "little") if len(data) == 8 else 0

    def method(self, environment: int, flags: int) -> int:
        """Return the word in the outermost environment that tells its method, or 0."""
        for _ in range(_MOST_OUTER):
            if flags & LOCAL:
                return self.word(environment - 16)
            environment = self.word(environment - 8) & ~3
            flags = self.word(environment)
        return 0
