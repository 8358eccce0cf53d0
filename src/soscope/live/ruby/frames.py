# SPDX-License-Identifier: Apache-2.0
"""The Ruby frames of a thread, with names and lines, read from memory."""

from __future__ import annotations

import time
from functools import partial
from struct import Struct, iter_unpack, unpack_from

from soscope.binfmt.source import ByteSource
from soscope.live.images.space import Space
from soscope.live.images.watch import MOST, HeldPlaces
from soscope.live.ruby.layout import (
    ARRAY,
    C_FRAME,
    CLASS,
    CODE,
    CODE_BODY,
    DTV,
    ENTRY_OWNER,
    FINISH,
    IMEMO,
    IMEMO_MASK,
    IMEMO_SHIFT,
    KIND,
    LOCAL,
    LOCATION,
    LONG,
    METHOD_ENTRY,
    MODULE,
    SHORT_ARRAY,
    SINGLETON,
    STRING,
    SVAR,
    NamesIn,
    Ruby,
    RubyLayout,
)
from soscope.model.call import OwnFrame
from soscope.model.record import Record
from soscope.proc.memory import word_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


# The execution contexts of threads: a Ruby thread's own, or its running fiber's.

# offsets in 2.7: a context's thread, a thread's context and thread pointer
_THREAD, _OWN_CONTEXT, _POINTER = 56, 32, 72
_MOST = 1 << 12  # threads, as their list may change during the read
_PAUSE = 0.1  # seconds between searches for unknown threads


class RubyContexts:
    """Finds the execution context that a thread of one process is running."""

    def __init__(self, memory: ByteSource, ruby: Ruby) -> None:
        self._memory = memory
        self._word = partial(word_at, memory)
        self._ruby = ruby
        index, self._offset = ruby.variable
        self._module = 0
        if index:
            self._module, self._offset = self._word(index), self._word(index + 8)
        self._threads: dict[int, int] = {}
        self._next = 0.0

    def of(self, thread_pointer: int) -> int:
        """Return the address of a stopped thread's context, 0 if it has none."""
        if self._ruby.current:
            return self._of_listed(thread_pointer)
        if not self._module:
            return self._word(thread_pointer + self._offset)
        # glibc has two words for each module, and -1 if its block is not allocated yet
        size = 8 if self._ruby.is_musl else 16
        block = self._word(self._word(thread_pointer + DTV) + size * self._module)
        return self._word(block + self._offset)

    def _of_listed(self, pointer: int) -> int:
        thread = self._threads.get(pointer, 0)
        context = self._context(thread, pointer) if thread else 0
        if context:
            return context
        now = time.monotonic()
        if not thread and now < self._next:
            return 0
        self._next = now + _PAUSE
        self._find_threads()
        thread = self._threads.get(pointer, 0)
        return self._context(thread, pointer) if thread else 0

    def _find_threads(self) -> None:
        """Walk the circular list of threads, from its head (no thread) or from any thread."""
        self._threads.clear()
        first = at = self._word(self._word(self._ruby.current) + _THREAD)
        for _ in range(_MOST):
            data = self._memory.read(at, _POINTER + 8)
            if len(data) < _POINTER + 8:
                return
            context = unpack_from("<Q", data, _OWN_CONTEXT)[0]
            if self._word(context + _THREAD) == at:
                self._threads[unpack_from("<Q", data, _POINTER)[0]] = at
            at = unpack_from("<Q", data)[0]
            if at == first:
                return

    def _context(self, thread: int, pointer: int) -> int:
        data = self._memory.read(thread, _POINTER + 8)
        if len(data) < _POINTER + 8 or unpack_from("<Q", data, _POINTER)[0] != pointer:
            return 0
        context = int(unpack_from("<Q", data, _OWN_CONTEXT)[0])
        return context if self._word(context + _THREAD) == thread else 0


# Find the line of an instruction of Ruby code.
#
# A table has an entry for each instruction that begins a new part. A succinct index tells how many
# of those begin up to a given position (iseq.c, succ_index_lookup): seven bits each for the first
# 54 positions, then blocks of 512 with one bit for each.

_FIRST, _A_WORD, _BITS = 54, 9, 7
_FIRST_SIZE = 8 * _FIRST // _A_WORD
_BLOCK = Struct("<I4xQ8Q")  # number before the block, numbers before each of its words, the bits
_IN_BLOCK = 512
_RANK_BITS = 9
_MOST_LINES = 1 << 24


class RubyLines:
    """The lines of one piece of code."""

    __slots__ = ("_index", "_lines")

    def __init__(self, lines: list[int], index: bytes) -> None:
        """Take the line of each entry, and the index, which is empty if there is one entry."""
        self._lines = lines
        self._index = index

    @classmethod
    def read(cls, memory: ByteSource, table: bytes, entry_size: int, size: int) -> RubyLines | None:
        """Read the lines for code of `size` words from `table`, a `struct iseq_insn_info`.

        Return None if they cannot be read.
        """
        entries, _, count, index = unpack_from("<QQI4xQ", table)
        if count * entry_size > _MOST_LINES or size > _MOST_LINES:
            return None
        data = memory.read(entries, count * entry_size)
        if len(data) < count * entry_size:
            return None
        lines = [unpack_from("<i", data, at)[0] for at in range(0, len(data), entry_size)]
        blocks = max(size - _FIRST + _IN_BLOCK - 1, 0) // _IN_BLOCK
        length = _FIRST_SIZE + blocks * _BLOCK.size
        succinct = memory.read(index, length) if count > 1 else b""
        return cls(lines, succinct) if count <= 1 or len(succinct) == length else None

    def line(self, place: int) -> int | None:
        """Return the line of the instruction that contains the word at `place`."""
        if len(self._lines) <= 1:
            return self._lines[0] if self._lines else None
        at = self._rank(place) - 1
        return self._lines[at] if 0 <= at < len(self._lines) else None

    def _rank(self, place: int) -> int:
        if place < _FIRST:
            word, part = divmod(place, _A_WORD)
            return int(unpack_from("<Q", self._index, 8 * word)[0] >> part * _BITS & 0x7F)
        block, bit = divmod(place - _FIRST, _IN_BLOCK)
        at = _FIRST_SIZE + block * _BLOCK.size
        if at + _BLOCK.size > len(self._index):
            return 0
        before, ranks, *words = _BLOCK.unpack_from(self._index, at)
        word, bit = divmod(bit, 64)
        rank = ranks >> (word - 1) * _RANK_BITS & 0x1FF if word else 0
        return int(before + rank + (words[word] & (2 << bit) - 1).bit_count())


# Strings of Ruby, read from memory.

_FIRST_STRINGS = 128  # bytes of the first read
_HEAD = 24
_MOST_STRINGS = 1 << 16  # bytes; a longer one is not a name
_SIZE_SHIFT, _SIZE_MASK = 14, 31  # size of a short string, in its flags


def read_string(memory: ByteSource, layout: RubyLayout, value: int) -> str | None:
    """Return the text of the string `value`, None if it is no string or cannot be read."""
    if not value or value & 7:
        return None
    head = memory.read(value, _FIRST_STRINGS)
    if len(head) < _HEAD + 8 or head[0] & KIND != STRING:
        return None
    flags, _, size, pointer = unpack_from("<4Q", head)
    at = _HEAD
    if not flags & LONG and not layout.has_long_texts:
        at, size = _HEAD - 8, flags >> _SIZE_SHIFT & _SIZE_MASK
    if size > _MOST_STRINGS:
        return None
    if flags & LONG:
        data = memory.read(pointer, size)
    elif at + size <= len(head):
        data = head[at : at + size]
    else:
        data = memory.read(value + at, size)
    return data.decode("utf-8", "replace") if len(data) == size else None


def read_path(memory: ByteSource, layout: RubyLayout, value: int) -> str | None:
    """Return the path of code: a string, or the first string of an array."""
    head = memory.read(value, 40) if value and not value & 7 else b""
    if len(head) == 40 and head[0] & KIND == ARRAY:
        flags, _, first, _, pointer = unpack_from("<5Q", head)
        if not flags & SHORT_ARRAY:
            first = int.from_bytes(memory.read(pointer, 8), "little")
        return read_string(memory, layout, first)
    return read_string(memory, layout, value)


# Names of classes and modules, read from memory.
#
# The offset of the names in each version is known. Their key is found with two well-known classes:
# a key only counts if it leads to the names of both.

_KNOWN = ("String", "Array")
_EXTENSION, _TABLE = 24, 8  # offset in a class, offset in that
_HASH = 56  # bytes of a table; its entries and their number come last
_MOST_ENTRIES = 4096
_DELETED = (1 << 64) - 1  # in place of a deleted entry's hash
_VARIABLES = 32  # offset of a class's array of variables
_NONE = -1  # no key
_SIZE = 320  # bytes with the fields of a class


class ClassNames:
    """Names of the classes of one process."""

    def __init__(self, memory: ByteSource, ruby: Ruby) -> None:
        self._memory = memory
        self._word = partial(word_at, memory)
        self._layout = ruby.layout
        self._objects = ruby.objects
        self._known: dict[int, str] = {}
        self._is_ready = False
        self._name_key = self._attached_key = _NONE

    def method(self, owner: int) -> str | None:
        """Return the prefix for the name of a method of `owner`: "Class#", "Class.".

        Return None if the class has no name, or if its name cannot be read.
        """
        if owner not in self._known:
            if not self._is_ready and not self._prepare():
                return None
            is_singleton = self._kind(owner) & SINGLETON
            of = self._values(owner).get(self._attached_key, 0) if is_singleton else owner
            name = self._name(of)
            if name is None:
                return None  # it may get a name later
            self._known[owner] = name + ("." if is_singleton else "#")
        return self._known[owner]

    def _name(self, value: int) -> str | None:
        if self._kind(value) & KIND not in (CLASS, MODULE):
            return None
        return self._text(self._values(value).get(self._name_key, 0))

    def _prepare(self) -> bool:
        """Find the keys; return False if Ruby has no classes yet."""
        values = [self._word(at) for at in self._objects]
        if not all(values):
            return False
        self._is_ready = True
        names = [self._values(value) for value in values]
        for key in names[0].keys() & names[1].keys():
            if tuple(self._text(each[key]) for each in names) == _KNOWN:
                self._name_key = key
        singletons = [self._values(self._word(value + 8)) for value in values]
        for key in singletons[0].keys() & singletons[1].keys():
            if [each[key] for each in singletons] == values:
                self._attached_key = key
        return True

    def _values(self, value: int) -> dict[int, int]:
        """Return the variables of a class by their keys."""
        return dict(self._pairs(value))

    def _pairs(self, value: int) -> Iterator[tuple[int, int]]:
        names_in = self._layout.names_in
        if names_in is NamesIn.FIELD:
            data = self._memory.read(value, _SIZE)
            for at in range(16, len(data) & -8, 8):
                yield at, unpack_from("<Q", data, at)[0]
        elif names_in is NamesIn.SHAPE:  # the first variable, by the shape that identifies it
            flags = self._word(value)
            yield flags >> 32, self._word(self._word(value + _VARIABLES))
        else:
            table = self._word(self._word(value + _EXTENSION) + _TABLE)
            data = self._memory.read(table, _HASH)
            count, entries = unpack_from("<QQ", data, _HASH - 16) if len(data) == _HASH else (0, 0)
            data = self._memory.read(entries, 24 * min(count, _MOST_ENTRIES))
            for state, key, entry in iter_unpack("<QQQ", data[: len(data) // 24 * 24]):
                if state != _DELETED:
                    yield key, entry

    def _text(self, value: int) -> str | None:
        return read_string(self._memory, self._layout, value)

    def _kind(self, value: int) -> int:
        return self._word(value) if value and not value & 7 else 0


# Ruby code (iseq): its file, its lines, and its name in frames.

_INFOS_SIZE = 32


class RubyCode:
    """The data of Ruby code; `places` are the memory ranges that identify it."""

    __slots__ = ("_base", "_first", "_label", "_lines", "_size", "file", "places")

    def __init__(self, memory: ByteSource, layout: RubyLayout, addr: int, body: int) -> None:
        """Read the code at `addr`. Raises ValueError if there is none."""
        size = layout.infos + _INFOS_SIZE
        data = memory.read(body, size)
        if len(data) < size:
            raise ValueError("the body of code cannot be read")
        self.places = [(addr + CODE_BODY, body.to_bytes(8, "little")), (body, data)]
        _, self._size, self._first = unpack_from("<IIQ", data)
        path, base, label = unpack_from("<3Q", data, LOCATION)
        named = read_string(memory, layout, label)
        if named is None:
            raise ValueError("code has no label")
        self.file = read_path(memory, layout, path)
        self._label = named
        self._base = read_string(memory, layout, base) or ""
        infos = data[layout.infos :]
        self._lines = RubyLines.read(memory, infos, layout.info, self._size)

    def line(self, pc: int) -> int | None:
        """Return the line of the running instruction; `pc` is behind that instruction."""
        place = pc - self._first >> 3
        if self._lines is None or not 0 <= place <= self._size:
            return None
        return self._lines.line(max(place - 1, 0))

    def name(self, owner: str | None) -> str:
        """Return its label, in which the method has its `owner` ("Class#") if that is known.

        From Ruby 3.4 on, Ruby itself writes labels in this way: "block in Class#method".
        """
        if not owner or not self._base or not self._label.endswith(self._base):
            return self._label
        return self._label[: -len(self._base)] + owner + self._base


def read_code(memory: ByteSource, layout: RubyLayout, addr: int) -> RubyCode | None:
    """Return the code at `addr`, None if there is none that can be read."""
    if not addr or addr & 7:
        return None
    head = memory.read(addr, CODE_BODY + 8)
    if len(head) < CODE_BODY + 8:
        return None
    flags, _, body = unpack_from("<3Q", head)
    if flags & KIND != IMEMO or flags >> IMEMO_SHIFT & IMEMO_MASK != CODE:
        return None
    try:
        return RubyCode(memory, layout, addr, body)
    except ValueError:
        return None  # it was freed, and its memory reused


# The Ruby frames of a thread, read from memory while the thread is stopped.
#
# Only the thread itself changes its frames, and each frame keeps its code alive. When code is
# freed, other code may get its address. So cached data only counts while all bytes that identify
# the code are the same. Frames of methods written in C are left out, because their functions are on
# the native stack.

_CONTEXT = Struct("<3Q")  # stack, its size in words, control frame
_MOST_WORDS = 1 << 27  # words of a stack
_MOST_LOOKS = 1024  # frames, including frames of C methods
_MOST_VALUES = 1 << 18  # bytes of a stack's values, which contain most environments
_MOST_OUTER = 64  # environments around an environment
_MOST_KEPT = 4096  # chains of frames
_UNKNOWN: OwnFrame = ("?", None, None)

# code, program counter, where its method is recorded, whether C code waits for it
_Seen = tuple[int, int, int, bool]


class _KnownChain(Record):
    """A chain of code seen before: `places` are the memory ranges that identify it."""

    places: HeldPlaces
    codes: list[RubyCode | None]
    owners: list[str | None]


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
        return word_at(self._memory, addr)

    def method(self, environment: int, flags: int) -> int:
        """Return the word in the outermost environment that tells its method, or 0."""
        for _ in range(_MOST_OUTER):
            if flags & LOCAL:
                return self.word(environment - 16)
            environment = self.word(environment - 8) & ~3
            flags = self.word(environment)
        return 0
