# SPDX-License-Identifier: Apache-2.0
"""Types of CPython: their names, and the sizes of their instances (`sys.getsizeof`)."""

from __future__ import annotations

from struct import iter_unpack, unpack_from

from soscope.binfmt.source import ByteSource
from soscope.live.python.offsets import NOTHING, PythonLayout
from soscope.live.python.values import KIND, WIDE_SHIFT, c_string, read_str, value_of
from soscope.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias


# Compute the results of `sys.getsizeof` from memory, by the rules of the built-in types.
#
# Each rule gets objects of one C type and of its subclasses: a single object, as numbers, or many
# at once, as arrays. `SizedObjects.own` is the size of the collector's head, the struct and the two
# pointers in front of it. A rule adds what lies in other blocks, as that type's `__sizeof__` in
# CPython (or numpy) does. Sizes are in bytes.

FIRST_WORDS = 10  # words of each object that a rule gets
LOW = 0xFFFF_FFFF
_TAGS = 7
_NO_TAGS = 0xFFFF_FFFF_FFFF_FFF8
_MOST_AXES = 64


class SizedObjects:
    """Objects with one size rule; a number of theirs is an int, or a u64 array for all of them.

    `presize` is the number of bytes in front of an object, `own` that number with its struct.
    """

    __slots__ = ("addresses", "layout", "own", "presize")

    layout: PythonLayout
    addresses: Any
    own: Any
    presize: Any

    def at(self, offset: int) -> Any:
        """Return the 8-byte word of each object at a byte offset below 80."""
        raise NotImplementedError

    def half(self, offset: int) -> Any:
        """Return the 4-byte word of each object at a byte offset below 80."""
        return (self.at(offset & -8) >> 8 * (offset & 4)) & LOW

    def behind(self, addresses: Any, count: int) -> Any:
        """Return `count` words at other addresses, an array for each; unreadable ones are 0."""
        raise NotImplementedError

    def where(self, condition: Any, then: Any, otherwise: Any) -> Any:
        """Return `then` if the condition is true, else `otherwise`, element by element."""
        raise NotImplementedError

    def magnitude(self, number: Any) -> Any:
        """Return the absolute value of a signed number."""
        raise NotImplementedError

    def most(self, number: Any) -> int:
        """Return the maximum of a number over all objects."""
        raise NotImplementedError


Rule: TypeAlias = "Callable[[SizedObjects], Any]"


def _list(group: SizedObjects) -> Any:
    return group.own + 8 * group.at(32)


def _set(group: SizedObjects) -> Any:
    is_big = group.at(40) != group.addresses + 64
    return group.own + group.where(is_big, 16 * (group.at(32) + 1), 0)


def _bytearray(group: SizedObjects) -> Any:
    if group.layout.bytearray_has_bytes:
        # the bytes object that it holds counts as part of it
        alloc = group.at(24)
        return group.own + group.where(alloc != 0, alloc + 33, 0)
    return group.own + group.at(24)


def _int(group: SizedObjects) -> Any:
    is_tagged = group.layout.has_tagged_int
    digits = group.at(16) >> 3 if is_tagged else group.magnitude(group.at(16))
    digits = group.where(digits == 0, group.layout.least_digits, digits)
    if not is_tagged:  # without the fields of a subclass
        return group.presize + 24 + 4 * digits
    return group.own + 4 * digits


def _str(group: SizedObjects) -> Any:
    layout, where = group.layout, group.where
    state = group.half(layout.str_state)
    if layout.has_wide_state:
        state = where(state & KIND == 0, state >> WIDE_SHIFT, state)
    length = group.at(layout.str_length)
    kind = (state >> 2) & 7
    is_compact = (state >> 5) & 1 != 0
    is_ascii = (state >> 6) & 1 != 0
    compact = where(is_ascii, layout.str_ascii_data, layout.str_compact_data)
    sizes = where(is_compact, compact, layout.str_legacy_size)
    data = group.at(layout.str_compact_data)  # of a str that is not compact
    sizes = sizes + where(is_compact | (data != 0), (length + 1) * kind, 0)
    has_fields = (is_compact & is_ascii) == 0
    start = where(is_compact, group.addresses + layout.str_compact_data, data)
    utf8 = group.at(layout.str_utf8_length + 8)
    is_own = has_fields & (utf8 != 0) & (utf8 != start)
    sizes = sizes + where(is_own, group.at(layout.str_utf8_length) + 1, 0)
    if layout.str_wide != NOTHING:
        wide = group.at(layout.str_wide)
        start = where(has_fields, start, group.addresses + layout.str_ascii_data)
        count = where(has_fields, group.at(layout.str_wide + 24), length) + 1
        is_own = (wide != 0) & (wide != start)
        sizes = sizes + where(is_own, 4 * count, 0)
    return group.presize + sizes


# ---- dictionaries ----


def _keys_size(group: SizedObjects, keys: Any) -> tuple[Any, Any, Any]:
    """Return size and reference count of each keys struct, and the number of its values."""
    where = group.where
    has = keys != 0
    if not group.layout.has_log2_keys:
        head = group.behind(keys, 5)
        slots = head[1]
        usable = (slots << 1) // 3
        index = where(slots <= 0xFF, 1, where(slots <= 0xFFFF, 2, where(slots <= LOW, 4, 8)))
        return where(has, 40 + slots * index + 24 * usable, 0), head[0], usable
    head = group.behind(keys, 4)
    slots = 1 << (head[1] & 63)
    indices = 1 << ((head[1] >> 8) & 63)
    is_general = (head[1] >> 16) & 255 == 0
    usable = (slots << 1) // 3
    sizes = 32 + indices + usable * where(is_general, 24, 16)
    return where(has, sizes, 0), head[0], head[2] + head[3]


def _dict(group: SizedObjects) -> Any:
    sizes, refcnt, values = _keys_size(group, group.at(32))
    own = group.own + group.where(group.at(40) != 0, 8 * values, 0)
    return own + group.where(refcnt == 1, sizes, 0)


def _ordered_dict(group: SizedObjects) -> Any:
    return _dict(group) + 8 * group.at(72) + 32 * group.at(16)


# ---- types, code, frames ----


def _type(group: SizedObjects) -> Any:
    layout = group.layout
    flags = group.behind(group.addresses + layout.type_flags, 1)[0]
    is_heap = (flags >> 9) & 1 != 0
    place = group.addresses + layout.heaptype_cached_keys
    keys = group.where(is_heap, group.behind(place, 1)[0], 0)
    heap = layout.heaptype_size + _keys_size(group, keys)[0]
    presize = group.presize
    if not layout.static_types_have_head:
        presize = group.where(is_heap, presize, 0)
    return presize + group.where(is_heap, heap, layout.type_size)


def _extra(group: SizedObjects) -> Any:
    """Return the size of the extra data that tools have stored for each code object."""
    extra = group.behind(group.addresses + group.layout.code_extra, 1)[0]
    count = group.behind(extra, 1)[0]
    return group.where(extra != 0, 8 + 8 * count, 0)


def _code(group: SizedObjects) -> Any:
    if group.layout.code_bytecode != NOTHING:
        size = (group.own + 2 * group.at(16) + _TAGS) & _NO_TAGS
        return size + _extra(group)
    words = group.behind(group.addresses, 22)
    cells = group.behind(words[11], 3)[2]  # size of the tuple co_cellvars
    sizes = group.own + _extra(group)
    sizes += group.where(words[12] != 0, 8 * cells, 0)
    cache = 32 * ((words[21] >> 32) & 255)
    cache += group.behind(words[6], 3)[2] >> 1  # one byte per instruction
    return sizes + group.where(words[20] != 0, cache, 0)


def _variables(group: SizedObjects, code: Any) -> Any:
    """Return the size of the variables and the stack in each code object's frame."""
    layout = group.layout
    code = code & _NO_TAGS
    low = min(layout.code_nlocals, layout.code_stacksize) & -8
    words = group.behind(code + low, 2)

    def number(offset: int) -> Any:
        shift = 8 * (offset & 4)
        return (words[(offset - low) // 8] >> shift) & LOW

    return 8 * (number(layout.code_nlocals) + number(layout.code_stacksize))


def _generator(group: SizedObjects) -> Any:
    layout = group.layout
    if layout.generator_code != NOTHING:  # a frame that has ended has no code
        code = group.at(layout.generator_code)
    else:
        place = layout.generator_frame + layout.frame_code
        code = group.behind(group.addresses + place, 1)[0]
    head = layout.generator_frame + layout.frame_data
    return group.presize + head + _variables(group, code)


def _frame(group: SizedObjects) -> Any:
    layout = group.layout
    if layout.frameobject_data == NOTHING:
        code = group.at(layout.frame_code)
        words = group.behind(code, 12)
        free, cells = (group.behind(words[at], 3)[2] for at in (10, 11))
        size = _variables(group, code) + 8 * (free + cells)
        return group.presize + layout.frame_data + size
    code = group.behind(group.at(24) + layout.frame_code, 1)[0]
    head = layout.frameobject_data + layout.frame_data
    return group.presize + head + _variables(group, code)


# ---- the standard library ----


def _deque(group: SizedObjects) -> Any:
    blocks = (group.at(40) + group.at(16) + 63) // 64
    return group.own + 66 * 8 * blocks


def _array(group: SizedObjects) -> Any:
    described = group.behind(group.at(40), 1)[0] >> 32
    return group.own + group.at(32) * described


def _bytes_io(group: SizedObjects) -> Any:
    buffer = group.behind(group.at(16), 3)
    is_own = (group.at(16) != 0) & (buffer[0] & LOW == 1)
    return group.own + group.where(is_own, buffer[2] + 33, 0)


def _buffered(group: SizedObjects) -> Any:
    size = group.behind(group.addresses + 120, 1)[0]
    return group.own + group.where(group.at(56) != 0, size, 0)


def _element(group: SizedObjects) -> Any:
    """Return sizes of xml.etree.ElementTree.Element, the C version."""
    extra = group.at(40)
    words = group.behind(extra, 4)
    is_big = (extra != 0) & (words[3] != extra + 32)
    sizes = group.own + group.where(extra != 0, 64, 0)
    return sizes + group.where(is_big, 8 * words[2], 0)


def _decimal(group: SizedObjects) -> Any:
    is_elsewhere = group.half(24) & (32 | 64 | 128) == 0
    return group.own + group.where(is_elsewhere, 8 * group.at(56), 0)


def _ndarray(group: SizedObjects) -> Any:
    """Return sizes of numpy.ndarray: shape, strides, and its own data (ndarraytypes.h)."""
    axes = group.half(24)
    most = min(group.most(axes), _MOST_AXES)
    shape = group.behind(group.at(32), most)
    items = 1
    for axis in range(most):
        items = items * group.where(axes > axis, shape[axis], 1)
    described = group.behind(group.at(56), 6)
    # numpy 1 has an item's size and alignment as two ints; numpy 2 has flags there, and the size
    # behind
    is_old = described[4] >> 32 != 0
    item = group.where(is_old, described[4] & LOW, described[5])
    is_owner = group.half(64) & 4 != 0
    return group.own + 16 * axes + group.where(is_owner, item * items, 0)


# These types have no data in other blocks.
INLINE = {"int", "str", "code", "frame", "generator", "coroutine", "async_generator"}
# Offset of the pointer to the second block, which has nearly all the additional data of these
# types.
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


# The first type in the method resolution order with a `__sizeof__` of its own gives the size rule.
# A type written in C has it in `tp_methods`, a type written in Python in `tp_dict`.

HEAP_TYPE = 1 << 9  # of tp_flags
HAS_GC = 1 << 14
_TUPLE_SUBCLASS = 1 << 26
_TYPE_SUBCLASS = 1 << 31
_SIZEOF = b"__sizeof__"
_METHOD = 32  # bytes of a PyMethodDef
_MOST_METHODS = 512
_METHODS_AT_ONCE = 16
_MOST_BASES = 1024
PLAIN = "object"  # rule of types without a `__sizeof__`
UNKNOWN = ""  # rule of types whose own `__sizeof__` is unknown


class TypeInfo(Record):
    """The data of the type at `addr`.

    `name` is `type(o).__name__`, `qualified` the module and the qualified name. `basicsize`,
    `itemsize` and `presize` are bytes; `presize` are the bytes in front of an instance. `rule` is
    the C name of the type that defines the `__sizeof__`, UNKNOWN if that is written in Python.
    """

    addr: int
    name: str
    qualified: str
    flags: int
    basicsize: int
    itemsize: int
    presize: int
    rule: str


class PythonTypes:
    """The types of one process, each read on first use."""

    def __init__(self, memory: ByteSource, layout: PythonLayout) -> None:
        self._memory = memory
        self._layout = layout
        self._known: dict[int, TypeInfo | None] = {}

    def info(self, addr: int) -> TypeInfo | None:
        """Return the data of the type at `addr`, None if it cannot be read."""
        if addr not in self._known:
            self._known[addr] = self._read(addr)
        return self._known[addr]

    def _read(self, addr: int) -> TypeInfo | None:
        layout = self._layout
        head = self._head(addr)
        if head is None:
            return None
        flags = unpack_from("<Q", head, layout.type_flags)[0]
        names = self._heap_names(addr, head) if flags & HEAP_TYPE else self._static_names(head)
        if names is None:
            return None
        basicsize, itemsize = unpack_from("<qq", head, layout.type_basicsize)
        return TypeInfo(
            addr,
            *names,
            flags=flags,
            basicsize=basicsize,
            itemsize=itemsize,
            presize=self._presize(flags),
            rule=self._rule(addr, head),
        )

    def _head(self, addr: int) -> bytes | None:
        """Return the type's struct, None if there is no type at the address."""
        layout = self._layout
        head = self._memory.read(addr, layout.type_mro + 8)
        if addr % 8 or len(head) < layout.type_mro + 8:
            return None
        meta = unpack_from("<Q", head, layout.object_type)[0]
        flags = self._memory.read(meta + layout.type_flags, 8)
        is_type = len(flags) == 8 and unpack_from("<Q", flags)[0] & _TYPE_SUBCLASS
        return head if is_type else None

    def _static_names(self, head: bytes) -> tuple[str, str] | None:
        """Return name and qualified name of a static type, which C code defines."""
        text = c_string(self._memory, unpack_from("<Q", head, self._layout.type_name)[0])
        if text is None:
            return None
        module, _, name = text.decode("utf-8", "replace").rpartition(".")
        return name, f"{module or 'builtins'}.{name}"

    def _heap_names(self, addr: int, head: bytes) -> tuple[str, str] | None:
        """Return name and qualified name of a heap type, which was made at run time."""
        memory, layout = self._memory, self._layout
        rest = memory.read(addr + layout.heaptype_name, 32)
        if len(rest) < 32:
            return None
        name = read_str(memory, layout, unpack_from("<Q", rest)[0])
        if name is None:
            return None
        qualname = read_str(memory, layout, unpack_from("<Q", rest, 16)[0]) or name
        names = unpack_from("<Q", head, layout.type_dict)[0]
        module = value_of(memory, layout, names, "__module__").get("__module__")
        text = None if module is None else read_str(memory, layout, module)
        return name, qualname if text is None else f"{text}.{qualname}"

    def _presize(self, flags: int) -> int:
        """Return the bytes in front of an instance: the collector's head, then two pointers."""
        size = 16 if flags & HAS_GC else 0
        return size + (16 if flags & self._layout.presize_flags else 0)

    # ---- size rules ----

    def _rule(self, addr: int, head: bytes) -> str:
        for base in self._order(addr, head):
            base_head = head if base == addr else self._head(base)
            if base_head is None:
                return UNKNOWN
            name = self._own_rule(base_head)
            if name is not None:
                return name
        return PLAIN

    def _own_rule(self, head: bytes) -> str | None:
        """Return the rule that one type itself defines, None if it has no `__sizeof__`."""
        memory, layout = self._memory, self._layout
        flags = unpack_from("<Q", head, layout.type_flags)[0]
        methods = unpack_from("<Q", head, layout.type_methods)[0]
        if methods and self._has_sizeof(methods):
            name = c_string(memory, unpack_from("<Q", head, layout.type_name)[0])
            return UNKNOWN if name is None else name.decode("utf-8", "replace")
        if flags & HEAP_TYPE:
            names = unpack_from("<Q", head, layout.type_dict)[0]
            if value_of(memory, layout, names, "__sizeof__"):
                return UNKNOWN
        return None

    def _has_sizeof(self, methods: int) -> bool:
        step = _METHOD * _METHODS_AT_ONCE  # most types have few methods
        for at in range(methods, methods + _METHOD * _MOST_METHODS, step):
            data = self._memory.read(at, step)
            for name, *_ in iter_unpack("<4Q", data[: len(data) // _METHOD * _METHOD]):
                if not name:
                    return False
                if self._memory.read(name, len(_SIZEOF) + 1) == _SIZEOF + b"\0":
                    return True
            if len(data) < step:
                break
        return False

    def _order(self, addr: int, head: bytes) -> list[int]:
        """Return the method resolution order, or only the bases if there is none yet."""
        memory, layout = self._memory, self._layout
        mro = unpack_from("<Q", head, layout.type_mro)[0]
        if mro:
            size = memory.read(mro + layout.var_size, 8)
            count = unpack_from("<Q", size)[0] if len(size) == 8 else 0
            kind = memory.read(mro + layout.object_type, 8)
            start = self._items(unpack_from("<Q", kind)[0]) if len(kind) == 8 else 0
            data = memory.read(mro + start, 8 * min(count, _MOST_BASES)) if start else b""
            if data:
                return [row[0] for row in iter_unpack("<Q", data[: len(data) // 8 * 8])]
        order: list[int] = []
        at = addr
        while at and at not in order and len(order) < _MOST_BASES:
            order.append(at)
            data = memory.read(at + layout.type_base, 8)
            at = unpack_from("<Q", data)[0] if len(data) == 8 else 0
        return order

    def _items(self, kind: int) -> int:
        """Return the offset of a tuple's items, 0 if the type is not a tuple."""
        layout = self._layout
        data = self._memory.read(kind, layout.type_flags + 8)
        if len(data) < layout.type_flags + 8:
            return 0
        if not unpack_from("<Q", data, layout.type_flags)[0] & _TUPLE_SUBCLASS:
            return 0
        return int(unpack_from("<q", data, layout.type_basicsize)[0])
