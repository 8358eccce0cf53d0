# SPDX-License-Identifier: Apache-2.0
"""One object as a line of JSON. No code of the program is called for it.

So what a class says of itself (`__repr__`, `__len__`, `__sizeof__`, properties) is not asked for:
what stands here is what the built-in type says that the class is made of.
"""

from __future__ import annotations

import gc
import sys
from _json import encode_basestring_ascii as quoted
from collections import deque
from math import isfinite
from types import GetSetDescriptorType, MemberDescriptorType, MethodDescriptorType, ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, Optional

    Answer = Optional[Callable[[Any], Any]]

EXCERPT = 200  # characters or bytes of a value
_INT_BITS = 256  # more are written as an excerpt, in hexadecimal
_HAS_GC = 1 << 14  # flags of a type
_IS_HEAP = 1 << 9
_HEAD = 16  # bytes of the collector's, and of two more pointers, in front of an object
_HEADS = 1 << 4 | 1 << 3 if sys.version_info >= (3, 12) else 0
_MODULE: Any = vars(ModuleType)
_OF_TYPE = {
    name: type.__dict__[name].__get__ for name in ("__name__", "__qualname__", "__module__")
}
_mro = type.__dict__["__mro__"].__get__
_members = type.__dict__["__dict__"].__get__
_flags_of = type.__dict__["__flags__"].__get__
_module_members = _MODULE["__dict__"].__get__
_WITH_LENGTH = (str, bytes, bytearray, tuple, list, dict, set, frozenset, deque, range)


def _mro_of(kind: type) -> tuple[type, ...]:
    return _mro(kind) or (kind,)  # the type of an extension may not be done yet


def _members_of(kind: type) -> Mapping[str, object]:
    return _members(kind) or {}


def _number(value: int) -> str:
    if int.bit_length(value) <= _INT_BITS:
        return int.__repr__(value)
    bits = int.bit_length(value)
    return quoted(hex(int.__rshift__(int.__abs__(value), bits - _INT_BITS)) + "…")


def _bytes(value: bytes) -> str:
    return quoted(value.decode("latin-1"))


_VALUES: dict[type, Callable[[Any], str]] = {
    bool: lambda value: "true" if value else "false",
    type(None): lambda _: "null",
    str: lambda value: quoted(str.__getitem__(value, slice(EXCERPT))),
    bytes: lambda value: _bytes(bytes.__getitem__(value, slice(EXCERPT))),
    bytearray: lambda value: _bytes(bytes(bytearray.__getitem__(value, slice(EXCERPT)))),
    int: _number,
    float: lambda value: (
        float.__repr__(value) if isfinite(value) else quoted(float.__repr__(value))
    ),
    complex: lambda value: quoted(complex.__repr__(value)),
}


class _Kind:
    """What objects of one type are asked for."""

    __slots__ = ("asked", "attributes", "head", "is_class", "refers", "slots")

    def __init__(self, kind: type) -> None:
        bases = _mro_of(kind)
        self.head = f'"type":{quoted(_text(kind, "__name__"))},"class":{quoted(_qualified(kind))}'
        self.is_class = type in bases
        asked = (
            ("name", _quoted_name if self.is_class else None),
            ("size", _size(kind, bases)),
            ("length", _first(bases, _length)),
            ("value", _first(bases, _VALUES.get)),
        )
        self.asked = [(name, ask) for name, ask in asked if ask is not None]
        self.attributes = _first(bases, _attributes)
        self.slots = [pair for base in bases for pair in _slots(base)]
        self.refers = bool(_flags_of(kind) & _HAS_GC or self.attributes or self.slots)


def _first(bases: Iterable[type], ask: Callable[[type], Any]) -> Any:
    return next(filter(None, map(ask, bases)), None)


def _text(kind: type, name: str) -> str:
    try:
        text = _OF_TYPE[name](kind)
    except AttributeError:
        return ""
    return text if type(text) is str else ""


def _qualified(kind: type) -> str:
    module = _text(kind, "__module__")
    name = _text(kind, "__qualname__")
    return f"{module}.{name}" if module else name


def _quoted_name(kind: type) -> str:
    return quoted(_qualified(kind))


def _length(base: Any) -> Answer:
    return base.__len__ if base in _WITH_LENGTH else None


def _head_of(kind: type) -> int:
    flags = _flags_of(kind)
    return (_HEAD if flags & _HAS_GC else 0) + (_HEAD if flags & _HEADS else 0)


def _size(kind: type, bases: Iterable[type]) -> Answer:
    """Return sys.getsizeof, but where a class of Python's has a say: what its base says."""
    answers: list[Any] = [_members_of(base).get("__sizeof__") for base in bases]
    found = [answer for answer in answers if answer is not None]
    of_c = next(filter(_is_c, found), None)
    if of_c is None or of_c is found[0]:
        return sys.getsizeof if found and of_c else None
    head = _head_of(kind)
    return lambda value: of_c(value) + head


def _is_c(found: object) -> bool:
    return type(found) is MethodDescriptorType


def _attributes(base: type) -> Answer:
    found = _members_of(base).get("__dict__")
    if base is type or base is ModuleType:
        return _members_of if base is type else _module_members
    return found.__get__ if type(found) is GetSetDescriptorType else None


def _slots(base: type) -> list[tuple[str, Callable[[Any], Any]]]:
    if not _flags_of(base) & _IS_HEAP:
        return []
    return [
        (name, found.__get__)
        for name, found in _members_of(base).items()
        if type(found) is MemberDescriptorType and type(name) is str
    ]


class Describer:
    """Makes lines; it knows the types that it has seen."""

    __slots__ = ("_kinds",)

    def __init__(self) -> None:
        self._kinds: dict[int, _Kind] = {}

    def line(self, value: Any, place: str, whole: bool) -> str:
        """Return what there is to say of an object. `place` is the JSON of file and line.

        `whole`: it can be asked for the objects that it refers to.
        """
        kind = self._kinds.get(id(type(value)))
        if kind is None:
            kind = self._kinds[id(type(value))] = _Kind(type(value))
        text = f'{{"address":"{id(value):#x}",{place},{kind.head}'
        for name, ask in kind.asked:
            try:
                text += f',"{name}":{ask(value)}'
            except Exception:  # noqa: BLE001, S112 # one that is not done yet may say anything
                continue
        if not kind.refers:
            return text + "}\n"
        referred = [f'"{id(each):#x}"' for each in gc.get_referents(value)] if whole else []
        if referred:
            text += f',"references":[{",".join(referred)}]'
        attributes = self._attributes(value, kind, referred)
        if attributes:
            pairs = [f"{quoted(name)}:{each}" for name, each in attributes.items()]
            text += f',"attributes":{{{",".join(pairs)}}}'
        return text + "}\n"

    def _attributes(self, value: Any, kind: _Kind, referred: list[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, ask in kind.slots:
            try:
                at = f'"{id(ask(value)):#x}"'
            except AttributeError:
                continue  # it has none yet
            if at in referred:  # others are numbers in C, of which an object is made each time
                found.setdefault(name, at)
        if kind.attributes is None:
            return found
        try:
            named = kind.attributes(value)
        except AttributeError:
            return found
        if type(named) is not dict:
            named = dict(named) if kind.is_class else {}
        for name, each in named.items():
            if type(name) is str:
                found[name] = f'"{id(each):#x}"'
        return found
