# SPDX-License-Identifier: Apache-2.0
"""Types of CPython: their names, and the rules for the sizes of their instances.

The first type in the method resolution order with a `__sizeof__` of its own gives the size rule.
A type written in C has it in `tp_methods`, a type written in Python in `tp_dict`.
"""

from __future__ import annotations

from struct import iter_unpack, unpack_from

from soscope.binfmt.source import ByteSource
from soscope.live.python.dicts import value_of
from soscope.live.python.offsets import PythonLayout
from soscope.live.python.values import c_string, read_str

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


class TypeInfo:
    """The data of the type at `addr`.

    `name` is `type(o).__name__`, `qualified` the module and the qualified name. `basicsize`,
    `itemsize` and `presize` are bytes; `presize` are the bytes in front of an instance. `rule` is
    the C name of the type that defines the `__sizeof__`, UNKNOWN if that is written in Python.
    """

    __slots__ = (
        "addr",
        "basicsize",
        "flags",
        "itemsize",
        "name",
        "presize",
        "qualified",
        "rule",
    )

    def __init__(
        self,
        addr: int,
        name: str,
        qualified: str,
        *,
        flags: int,
        basicsize: int,
        itemsize: int,
        presize: int,
        rule: str,
    ) -> None:
        self.addr = addr
        self.name = name
        self.qualified = qualified
        self.flags = flags
        self.basicsize = basicsize
        self.itemsize = itemsize
        self.presize = presize
        self.rule = rule


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
        version = self._layout.version
        size = 16 if flags & HAS_GC else 0
        pointers = 0 if version < (3, 11) else 1 << 4 if version == (3, 11) else 3 << 3
        return size + (16 if flags & pointers else 0)

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
