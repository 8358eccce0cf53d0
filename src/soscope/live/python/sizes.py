# SPDX-License-Identifier: Apache-2.0
"""What `sys.getsizeof` says of objects, worked out from memory: the rules of the built-in types.

Each rule gets the objects of one C type, and of its subclasses, all at once. `ObjectGroup.own` is
what the collector's head, the struct and the two pointers before it take; a rule adds what lies in
blocks elsewhere, as that type's `__sizeof__` in CPython (or numpy) does. Units are bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from soscope.binfmt.source import ByteSource
from soscope.live.python.gather import Words, gather
from soscope.live.python.offsets import PythonLayout
from soscope.live.python.strings import KIND, WIDE_SHIFT

FIRST_WORDS = 10  # words of each object that rules are given
_TAGS = np.uint64(7)
_LOW = np.uint64(0xFFFF_FFFF)
_ONE = np.uint64(1)


@dataclass(slots=True)
class ObjectGroup:
    """Objects of one rule, by arrays of u64: `words` has FIRST_WORDS of each.

    `presize` are the bytes before each object, `own` those with its struct.
    """

    memory: ByteSource
    layout: PythonLayout
    addresses: Words
    words: Words
    own: Words
    presize: Words

    def at(self, offset: int) -> Words:
        """Return the 8-byte word of each object at a byte offset below 80."""
        return self.words[:, offset // 8]

    def half(self, offset: int) -> Words:
        """Return the 4-byte word of each object at a byte offset below 80."""
        return (self.at(offset & -8) >> np.uint64(8 * (offset & 4))) & _LOW

    def behind(self, addresses: Words, count: int) -> Words:
        """Return `count` words at each of other addresses; 0 where nothing can be read."""
        return gather(self.memory, addresses, count)[0]


Rule = Callable[[ObjectGroup], Words]


def _list(group: ObjectGroup) -> Words:
    return group.own + np.uint64(8) * group.at(32)


def _set(group: ObjectGroup) -> Words:
    is_big = group.at(40) != group.addresses + np.uint64(64)
    return group.own + np.where(is_big, np.uint64(16) * (group.at(32) + _ONE), 0).astype(np.uint64)


def _bytearray(group: ObjectGroup) -> Words:
    if group.layout.version >= (3, 15):
        # the bytes object that it holds is counted as if it were its own
        alloc = group.at(24)
        return group.own + np.where(alloc != 0, alloc + np.uint64(33), 0).astype(np.uint64)
    return group.own + group.at(24)


def _int(group: ObjectGroup) -> Words:
    if group.layout.version >= (3, 12):
        digits = group.at(16) >> np.uint64(3)
    else:
        digits = np.abs(group.at(16).view(np.int64)).astype(np.uint64)
    if group.layout.version >= (3, 11):
        digits = np.maximum(digits, _ONE)
    if group.layout.version < (3, 12):  # whatever a subclass adds
        return group.presize + np.uint64(24) + np.uint64(4) * digits
    return group.own + np.uint64(4) * digits


def _str(group: ObjectGroup) -> Words:
    layout = group.layout
    state = group.half(layout.str_state)
    if layout.version >= (3, 14):
        is_wide = state & np.uint64(KIND) == 0
        state = np.where(is_wide, state >> np.uint64(WIDE_SHIFT), state).astype(np.uint64)
    length = group.at(layout.str_length)
    kind = (state >> np.uint64(2)) & np.uint64(7)
    is_compact = (state >> np.uint64(5)) & _ONE != 0
    is_ascii = (state >> np.uint64(6)) & _ONE != 0
    compact = np.where(is_ascii, layout.str_ascii_data, layout.str_compact_data)
    sizes = np.where(is_compact, compact, layout.str_legacy_size).astype(np.uint64)
    data = group.at(layout.str_compact_data)  # of one that is not compact
    sizes += np.where(is_compact | (data != 0), (length + _ONE) * kind, 0).astype(np.uint64)
    has_fields = ~(is_compact & is_ascii)
    start = np.where(is_compact, group.addresses + np.uint64(layout.str_compact_data), data)
    utf8 = group.at(layout.str_utf8_length + 8)
    is_own = has_fields & (utf8 != 0) & (utf8 != start)
    sizes += np.where(is_own, group.at(layout.str_utf8_length) + _ONE, 0).astype(np.uint64)
    if layout.version < (3, 12):  # the wchar_t form
        wide = group.at(40)
        start = np.where(has_fields, start, group.addresses + np.uint64(layout.str_ascii_data))
        count = np.where(has_fields, group.at(64), length) + _ONE
        is_own = (wide != 0) & (wide != start)
        sizes += np.where(is_own, np.uint64(4) * count, 0).astype(np.uint64)
    return group.presize + sizes


# ---- dictionaries ----


def _keys_size(group: ObjectGroup, keys: Words) -> tuple[Words, Words, Words]:
    """Return the size of each keys struct, its reference count, and how many values go with it."""
    has = keys != 0
    if group.layout.version < (3, 11):
        head = group.behind(keys, 5)
        slots = head[:, 1]
        usable = (slots << _ONE) // np.uint64(3)
        index = np.select([slots <= 0xFF, slots <= 0xFFFF, slots <= 0xFFFF_FFFF], [1, 2, 4], 8)
        sizes = np.uint64(40) + slots * index.astype(np.uint64) + np.uint64(24) * usable
        return np.where(has, sizes, 0).astype(np.uint64), head[:, 0], usable
    head = group.behind(keys, 4)
    slots = _ONE << (head[:, 1] & np.uint64(63))
    indices = _ONE << ((head[:, 1] >> np.uint64(8)) & np.uint64(63))
    is_general = (head[:, 1] >> np.uint64(16)) & np.uint64(255) == 0
    usable = (slots << _ONE) // np.uint64(3)
    sizes = np.uint64(32) + indices + usable * np.where(is_general, 24, 16).astype(np.uint64)
    return np.where(has, sizes, 0).astype(np.uint64), head[:, 0], head[:, 2] + head[:, 3]


def _dict(group: ObjectGroup) -> Words:
    sizes, refcnt, values = _keys_size(group, group.at(32))
    has_values = group.at(40) != 0
    own = group.own + np.where(has_values, np.uint64(8) * values, 0).astype(np.uint64)
    return own + np.where(refcnt == 1, sizes, 0).astype(np.uint64)


def _ordered_dict(group: ObjectGroup) -> Words:
    nodes = np.uint64(8) * group.at(72) + np.uint64(32) * group.at(16)
    return _dict(group) + nodes


# ---- types, code, frames ----


def _type(group: ObjectGroup) -> Words:
    layout = group.layout
    flags = group.behind(group.addresses + np.uint64(layout.type_flags), 1)[:, 0]
    is_heap = (flags >> np.uint64(9)) & _ONE != 0
    place = group.addresses + np.uint64(layout.heaptype_cached_keys)
    keys = np.where(is_heap, group.behind(place, 1)[:, 0], 0).astype(np.uint64)
    heap = np.uint64(layout.heaptype_size) + _keys_size(group, keys)[0]
    presize = group.presize
    if layout.version not in ((3, 11), (3, 12)):  # only those made at run time have a head
        presize = np.where(is_heap, presize, 0).astype(np.uint64)
    return presize + np.where(is_heap, heap, layout.type_size).astype(np.uint64)


def _extra(group: ObjectGroup) -> Words:
    """Return the size of what tools have put aside for each code object."""
    extra = group.behind(group.addresses + np.uint64(group.layout.code_extra), 1)[:, 0]
    count = group.behind(extra, 1)[:, 0]
    return np.where(extra != 0, np.uint64(8) + np.uint64(8) * count, 0).astype(np.uint64)


def _code(group: ObjectGroup) -> Words:
    if group.layout.version >= (3, 11):
        size = (group.own + np.uint64(2) * group.at(16) + _TAGS) & ~_TAGS
        return size + _extra(group)
    words = group.behind(group.addresses, 22)
    cells = group.behind(words[:, 11], 3)[:, 2]  # the size of the tuple co_cellvars
    sizes = group.own + _extra(group)
    sizes += np.where(words[:, 12] != 0, np.uint64(8) * cells, 0).astype(np.uint64)
    cache = np.uint64(32) * ((words[:, 21] >> np.uint64(32)) & np.uint64(255))
    cache += group.behind(words[:, 6], 3)[:, 2] >> _ONE  # a byte for each instruction
    return sizes + np.where(words[:, 20] != 0, cache, 0).astype(np.uint64)


def _variables(group: ObjectGroup, code: Words) -> Words:
    """Return the size of the variables and the stack of each code object's frame."""
    layout = group.layout
    code = code & ~_TAGS
    low = min(layout.code_nlocals, layout.code_stacksize) & -8
    words = group.behind(code + np.uint64(low), 2)

    def number(offset: int) -> Words:
        shift = np.uint64(8 * (offset & 4))
        return (words[:, (offset - low) // 8] >> shift) & _LOW

    return np.uint64(8) * (number(layout.code_nlocals) + number(layout.code_stacksize))


def _generator(group: ObjectGroup) -> Words:
    layout = group.layout
    if layout.version == (3, 11):  # a frame that has ended does not know its code
        code = group.at(16)
    else:
        place = np.uint64(layout.generator_frame + layout.frame_code)
        code = group.behind(group.addresses + place, 1)[:, 0]
    head = np.uint64(layout.generator_frame + layout.frame_data)
    return group.presize + head + _variables(group, code)


def _frame(group: ObjectGroup) -> Words:
    layout = group.layout
    if layout.version < (3, 11):
        code = group.at(layout.frame_code)
        words = group.behind(code, 12)
        free, cells = (group.behind(words[:, at], 3)[:, 2] for at in (10, 11))
        size = _variables(group, code) + np.uint64(8) * (free + cells)
        return group.presize + np.uint64(layout.frame_data) + size
    code = group.behind(group.at(24) + np.uint64(layout.frame_code), 1)[:, 0]
    head = np.uint64(layout.frameobject_data + layout.frame_data)
    return group.presize + head + _variables(group, code)


# ---- the standard library ----


def _deque(group: ObjectGroup) -> Words:
    blocks = (group.at(40) + group.at(16) + np.uint64(63)) // np.uint64(64)
    return group.own + np.uint64(66 * 8) * blocks


def _array(group: ObjectGroup) -> Words:
    described = group.behind(group.at(40), 1)[:, 0] >> np.uint64(32)
    return group.own + group.at(32) * described


def _bytes_io(group: ObjectGroup) -> Words:
    buffer = group.behind(group.at(16), 3)
    is_own = (group.at(16) != 0) & (buffer[:, 0] & _LOW == 1)
    return group.own + np.where(is_own, buffer[:, 2] + np.uint64(33), 0).astype(np.uint64)


def _buffered(group: ObjectGroup) -> Words:
    size = group.behind(group.addresses + np.uint64(120), 1)[:, 0]
    return group.own + np.where(group.at(56) != 0, size, 0).astype(np.uint64)


def _element(group: ObjectGroup) -> Words:
    """xml.etree.ElementTree.Element, the accelerated one."""
    extra = group.at(40)
    words = group.behind(extra, 4)
    is_big = (extra != 0) & (words[:, 3] != extra + np.uint64(32))
    sizes = group.own + np.where(extra != 0, np.uint64(64), 0).astype(np.uint64)
    return sizes + np.where(is_big, np.uint64(8) * words[:, 2], 0).astype(np.uint64)


def _decimal(group: ObjectGroup) -> Words:
    is_elsewhere = group.half(24) & np.uint64(32 | 64 | 128) == 0
    return group.own + np.where(is_elsewhere, np.uint64(8) * group.at(56), 0).astype(np.uint64)


def _ndarray(group: ObjectGroup) -> Words:
    """numpy.ndarray: shape and strides, and the data where they are its own (ndarraytypes.h)."""
    axes = group.half(24)
    most = min(int(axes.max(initial=np.uint64(0))), 64)
    shape = group.behind(group.at(32), most)
    shape[np.arange(most) >= axes[:, None]] = _ONE
    described = group.behind(group.at(56), 6)
    # numpy 1 has size and alignment of an item as two ints; numpy 2 flags there, and then the size
    is_old = described[:, 4] >> np.uint64(32) != 0
    item = np.where(is_old, described[:, 4] & _LOW, described[:, 5]).astype(np.uint64)
    is_owner = group.half(64) & np.uint64(4) != 0
    data = np.where(is_owner, item * shape.prod(axis=1), 0).astype(np.uint64)
    return group.own + np.uint64(16) * axes + data


# These add nothing that lies elsewhere.
INLINE = {"int", "str", "code", "frame", "generator", "coroutine", "async_generator"}
# Where in an object of these the address is of nearly all that they add.
BUFFERS = {
    "list": 24,
    "dict": 32,
    "collections.OrderedDict": 32,
    "set": 40,
    "frozenset": 40,
    "bytearray": 32,
    "array.array": 24,
    "numpy.ndarray": 16,
}

RULES: dict[str, Rule] = {
    "list": _list,
    "dict": _dict,
    "frozendict": _dict,
    "set": _set,
    "frozenset": _set,
    "bytearray": _bytearray,
    "int": _int,
    "str": _str,
    "type": _type,
    "code": _code,
    "frame": _frame,
    "generator": _generator,
    "coroutine": _generator,
    "async_generator": _generator,
    "collections.OrderedDict": _ordered_dict,
    "collections.deque": _deque,
    "array.array": _array,
    "_io.BytesIO": _bytes_io,
    "_io.BufferedReader": _buffered,
    "_io.BufferedWriter": _buffered,
    "_io.BufferedRandom": _buffered,
    "xml.etree.ElementTree.Element": _element,
    "decimal.Decimal": _decimal,
    "numpy.ndarray": _ndarray,
}
