# SPDX-License-Identifier: Apache-2.0
"""Find by which attribute, key, index or variable a CPython object refers to another.

The memory of the holder is read and searched for the other's address. Objects/*.c has the fields
of each type that hold references; `tp_members` (descrobject.h) names the others.
"""

from __future__ import annotations

from functools import partial
from struct import unpack_from

import numpy as np

from soscope.binfmt.source import ByteSource
from soscope.live.python.frames import FrameReader
from soscope.live.python.objects import Words
from soscope.live.python.offsets import (
    NO_VALUES,
    NOTHING,
    VALUES_POINTER,
    VALUES_TAGGED,
    PythonLayout,
)
from soscope.live.python.types import HEAP_TYPE, PythonTypes, TypeInfo
from soscope.live.python.values import c_string, read_entries, read_str
from soscope.model.record import Record
from soscope.proc.memory import word_at

LIST, TUPLE, DICT, TYPE = 1 << 25, 1 << 26, 1 << 29, 1 << 31  # of tp_flags
_MANAGED_DICT, _INLINE_VALUES = 1 << 4, 1 << 2
_TYPE_MEMBERS, _TYPE_DICT_OFFSET = 240, 288  # the same offsets in all versions
_MEMBER = 40  # bytes of a PyMemberDef
_MOST_MEMBERS = 256
_MOST_BASES = 64
_MOST_INLINE = 4096  # bytes of an object that are searched
_KEPT = 8  # containers whose items are cached
_GENERATORS = {"generator", "coroutine", "async_generator"}
_UNORDERED = {"set", "frozenset", "collections.deque"}
# Fields of functions that are not in `tp_members`.
ITEM, VALUE, KEY = "item", "value", "key"


class Hold(Record, frozen=True, eq=True):
    """How an object holds another: `by` in full, `shape` without the parts that differ each time.

    Both are None if that is not known. `[3]` and `['name']` are an index and a key, `.name` is an
    attribute, `local name` a variable. In `shape`, `item`, `value` and `key` stand for any of
    them.
    """

    by: str | None
    shape: str | None


UNNAMED = Hold(None, None)


class Referents:
    """References between objects of one process, read on request."""

    def __init__(self, memory: ByteSource, layout: PythonLayout, types: PythonTypes) -> None:
        self._memory = memory
        self._word = partial(word_at, memory)
        self._layout = layout
        self._types = types
        self._items: dict[int, Words] = {}
        self.frames = FrameReader(memory, layout)

    def type_of(self, addr: int) -> TypeInfo | None:
        """Return the type of an object, None if it cannot be read."""
        return self._types.info(self._word(addr + self._layout.object_type))

    def hold(self, holder: int, held: int) -> Hold:
        """Return how one object holds another."""
        info = self.type_of(holder)
        if info is None:
            return UNNAMED
        if info.flags & (LIST | TUPLE):
            at = _place(self._sequence(holder, info), held)
            if at is not None:
                return Hold(f"[{at}]", ITEM)
        if info.flags & DICT and (key := self._of_dict(holder, held)):
            return key
        if info.qualified in _UNORDERED or info.rule in _UNORDERED:
            return Hold(ITEM, ITEM)
        name = self._variable(holder, held, info) or self._attribute(holder, held, info)
        return Hold(name, name)

    def class_name(self, addr: int) -> str | None:
        """Return the qualified name of a type, None if it cannot be read."""
        info = self._types.info(addr)
        return None if info is None else info.qualified

    def free_variable(self, function: int, closure: int, cell: int) -> str | None:
        """Return the name of the free variable that a cell of a closure holds."""
        info = self.type_of(closure)
        if info is None or not info.flags & TUPLE:
            return None
        at = _place(self._sequence(closure, info), cell)
        code = self._word(function + self._layout.function_code)
        return None if at is None else self.frames.free_name(code, at)

    def namespace(self, holder: int) -> int:
        """Return the address of the dictionary with an object's attributes, 0 if it has none."""
        info = self.type_of(holder)
        if info is None:
            return 0
        if info.flags & TYPE:
            return self._word(holder + self._layout.type_dict)
        if info.flags & _MANAGED_DICT and self._layout.managed_dict != NOTHING:
            word = self._word(holder - self._layout.managed_dict)
            return 0 if word & 1 else word
        offset = self._signed(info.addr + _TYPE_DICT_OFFSET)
        if offset <= 0:  # behind the items of a variable-sized object
            return 0
        return self._word(holder + offset)

    def _sequence(self, holder: int, info: TypeInfo) -> Words:
        if holder not in self._items:
            count = self._word(holder + self._layout.var_size)
            if info.flags & LIST:
                start = self._word(holder + 24)
            else:
                start = holder + self._layout.tuple_data
            data = self._memory.read(start, 8 * min(count, 1 << 32))
            self._keep(holder, np.frombuffer(data[: len(data) // 8 * 8], np.uint64))
        return self._items[holder]

    def _keep(self, holder: int, items: Words) -> None:
        while len(self._items) >= _KEPT:
            del self._items[next(iter(self._items))]
        self._items[holder] = items

    def _of_dict(self, holder: int, held: int) -> Hold | None:
        keys, values = dict_items(self._memory, self._layout, holder)
        at = _place(values, held)
        if at is not None:
            return Hold(
                f"[{key_text(self._memory, self._layout, self._types, int(keys[at]))}]", VALUE
            )
        return Hold(KEY, KEY) if _place(keys, held) is not None else None

    # ---- variables ----

    def _variable(self, holder: int, held: int, info: TypeInfo) -> str | None:
        """Return the variable by which a generator, or a frame object, holds another object."""
        layout = self._layout
        if info.rule in _GENERATORS and layout.generator_frame != NOTHING:
            return self.frames.variable(holder + layout.generator_frame, held)
        if info.rule == "frame":
            is_frame = layout.frameobject_data == NOTHING
            return self.frames.variable(holder if is_frame else self._word(holder + 24), held)
        return None

    # ---- attributes ----

    def _attribute(self, holder: int, held: int, info: TypeInfo) -> str | None:
        if info.flags & TYPE and self._word(holder + self._layout.type_dict) == held:
            return ".__dict__"
        if not info.flags & TYPE and self.namespace(holder) == held:
            return ".__dict__"
        name = self._inline(holder, held, info)
        if name is not None:
            return f".{name}"
        size = min(max(info.basicsize, 16), _MOST_INLINE)
        data = self._memory.read(holder, size)
        words = np.frombuffer(data[: len(data) // 8 * 8], np.uint64)
        for at in np.flatnonzero(words == np.uint64(held)).tolist():
            name = self._member(info, 8 * at)
            if name is not None:
                return name
        return None

    def _member(self, info: TypeInfo, offset: int) -> str | None:
        if info.rule == "object" and info.qualified == "builtins.function":
            for field in ("code", "defaults", "kwdefaults"):
                if offset == getattr(self._layout, f"function_{field}"):
                    return f".__{field}__"
        if info.qualified == "builtins.cell" and offset == 16:
            return ".cell_contents"
        kind = info.addr
        for _ in range(_MOST_BASES):
            name = self._own_member(kind, offset)
            if name is not None:
                return f".{name}"
            kind = self._word(kind + self._layout.type_base)
            if not kind:
                break
        return None

    def _own_member(self, kind: int, offset: int) -> str | None:
        members = self._word(kind + _TYPE_MEMBERS)
        data = self._memory.read(members, _MEMBER * _MOST_MEMBERS) if members else b""
        for at in range(0, len(data) - _MEMBER + 1, _MEMBER):
            name, _, place = unpack_from("<QQq", data, at)
            if not name:
                break
            if place == offset:
                text = c_string(self._memory, name)
                return None if text is None else text.decode("utf-8", "replace")
        return None

    def _inline(self, holder: int, held: int, info: TypeInfo) -> str | None:
        """Return the attribute whose value is stored with the object, not in a dictionary."""
        form = self._layout.inline_values
        if form == NO_VALUES or not info.flags & HEAP_TYPE or not info.flags & _MANAGED_DICT:
            return None
        if form == VALUES_POINTER:
            values = self._word(holder - 32)
        elif form == VALUES_TAGGED:
            word = self._word(holder - 24)
            values = word + 1 if word & 1 else 0
        else:
            values = holder + info.basicsize + 8 if info.flags & _INLINE_VALUES else 0
        keys = self._word(info.addr + self._layout.heaptype_cached_keys)
        if not values or not keys:
            return None
        names, _ = keys_and_values(self._memory, self._layout, keys)
        data = self._memory.read(values, 8 * len(names))
        at = _place(np.frombuffer(data[: len(data) // 8 * 8], np.uint64), held)
        if at is None:
            return None
        return read_str(self._memory, self._layout, int(names[at]))

    # ---- text ----

    def _signed(self, addr: int) -> int:
        return int.from_bytes(self._memory.read(addr, 8), "little", signed=True)


def _place(items: Words, held: int) -> int | None:
    places = np.flatnonzero(items == np.uint64(held))
    return int(places[0]) if len(places) else None


# All keys and values of a dictionary of CPython, and keys as text.

_MOST_ENTRIES = 1 << 28  # entries
_LONGEST = 60  # characters of a key's text
_DIGIT = 30  # bits


def dict_items(memory: ByteSource, layout: PythonLayout, addr: int) -> tuple[Words, Words]:
    """Return the addresses of keys and values of the dictionary at `addr`, in order.

    Both are 0 for a deleted entry. Both arrays are empty if the dictionary cannot be read.
    """
    head = memory.read(addr + layout.dict_keys, 16)
    if len(head) < 16:
        return np.empty(0, np.uint64), np.empty(0, np.uint64)
    keys_addr, values_addr = (int(word) for word in np.frombuffer(head, np.uint64))
    keys, values = keys_and_values(memory, layout, keys_addr)
    if values_addr:
        start = values_addr + layout.dict_values_head
        data = memory.read(start, 8 * len(keys))
        values = np.frombuffer(data[: len(data) // 8 * 8], np.uint64)
        keys = keys[: len(values)]
    is_there = (keys != 0) & (values != 0)
    return np.where(is_there, keys, 0), np.where(is_there, values, 0)


def keys_and_values(memory: ByteSource, layout: PythonLayout, keys: int) -> tuple[Words, Words]:
    """Return keys and values in the struct of keys at `keys`, as far as it has values."""
    data, size = read_entries(memory, layout, keys, _MOST_ENTRIES)
    table = np.frombuffer(data, np.uint64).reshape(-1, size // 8)
    return table[:, -2], table[:, -1]


def key_text(memory: ByteSource, layout: PythonLayout, types: PythonTypes, addr: int) -> str:
    """Return a key as text: strings and numbers as in Python, the type of others (`<date>`)."""
    text = read_str(memory, layout, addr)
    if text is not None:
        said = repr(text)
        return said if len(said) <= _LONGEST else f"{said[:_LONGEST]}…"
    data = memory.read(addr, 32)
    if len(data) < 32:
        return "?"
    info = types.info(int.from_bytes(data[layout.object_type : layout.object_type + 8], "little"))
    if info is None:
        return "?"
    number = _number(layout, data) if info.qualified == "builtins.int" else None
    return f"<{info.name}>" if number is None else str(number)


def _number(layout: PythonLayout, data: bytes) -> int | None:
    """Return an int of at most two digits, None if it has more."""
    if layout.has_tagged_int:
        tag = int.from_bytes(data[16:24], "little")
        count, sign = tag >> 3, 1 - (tag & 3)
    else:
        size = int.from_bytes(data[16:24], "little", signed=True)
        count, sign = abs(size), (size > 0) - (size < 0)
    if count > 2:
        return None
    digits = [int.from_bytes(data[at : at + 4], "little") for at in (24, 28)][:count]
    return sign * sum(digit << _DIGIT * at for at, digit in enumerate(digits))
