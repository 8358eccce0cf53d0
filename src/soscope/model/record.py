# SPDX-License-Identifier: Apache-2.0
"""The base of records: classes whose `__init__` does nothing but set fields.

A record names its fields once, as annotations. `Record` makes `__slots__`, `__init__` and
`__repr__` from them, as dataclasses do, but it costs no import of `dataclasses` (26 ms), and no
compilation for each class: the bytecode of such an `__init__` depends on the number of the fields
alone, so each class gets a copy of one function with other names. Type checkers read a record
like a dataclass (PEP 681), and check the arguments.

>>> from soscope.model.record import Record
>>> class Span(Record):
...     start: int
...     size: int = 1
>>> span = Span(4)
>>> span
Span(start=4, size=1)
>>> span.but(size=8).values()
(4, 8)
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import CodeType
    from typing import Any, ClassVar, Literal, Self, TypeVar, dataclass_transform

    _T = TypeVar("_T")
    m0 = m1 = m2 = m3 = list  # global names in `_longest`
else:  # importing typing costs milliseconds

    def dataclass_transform(**_how: object) -> object:
        """Do nothing at run time: only type checkers use this decorator."""
        return lambda made: made


if TYPE_CHECKING:
    from functools import cached_property

    once = cached_property
else:

    class once:  # noqa: N801  used as a decorator
        """A property that is computed on first use, and can be set.

        It is `functools.cached_property` without the lock that all objects of a class share before
        Python 3.12: two threads could each wait for the other's.
        """

        def __init__(self, compute: Callable[[Any], object]) -> None:
            self._compute = compute
            self.__doc__ = compute.__doc__

        def __set_name__(self, _owner: type, name: str) -> None:
            self._name = name

        def __get__(self, instance: Any, _owner: type | None = None) -> Any:
            if instance is None:
                return self
            value = instance.__dict__[self._name] = self._compute(instance)
            return value


_REQUIRED = object()  # in place of the default of a field that has none


class _Fresh:
    """In place of the default of a field: what makes its value for each record."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[[], object]) -> None:
        self.make = make


def fresh(make: Callable[[], _T], *, init: Literal[False] = False) -> _T:
    """Return the default of a field that begins with `make()` and is no parameter of `__init__`.

    >>> from soscope.model.record import Record, fresh
    >>> class Seen(Record):
    ...     limit: int
    ...     names: list[str] = fresh(list)
    >>> Seen(3)
    Seen(limit=3, names=[])
    """
    del init  # it tells type checkers that the field is no parameter
    made: Any = _Fresh(make)
    return made  # type: ignore[no-any-return]


class _RecordType(type):
    """Makes the class of a record; see `Record` for the keywords."""

    _fields: dict[str, object]  # fields in order, with their defaults
    _by_keyword: tuple[str, ...]  # fields that can only be set by keyword

    def __new__(
        cls,
        name: str,
        bases: tuple[type, ...],
        body: dict[str, Any],
        *,
        kw_only: bool = False,
        frozen: bool = False,
        eq: bool = False,
    ) -> _RecordType:
        del frozen  # type checkers alone look at it
        kinds = body.get("__annotations__", {})
        own = {
            name: body.pop(name, _REQUIRED)
            for name, kind in kinds.items()
            if not str(kind).startswith("ClassVar")  # a string, unless evaluated (PEP 563)
        }
        fields = own
        by_keyword = tuple([name for name in own if kw_only and type(own[name]) is not _Fresh])
        for base in bases:
            if isinstance(base, _RecordType) and base._fields:
                fields, by_keyword = base._fields | fields, base._by_keyword + by_keyword
        body["__slots__"] = tuple(own)
        body["_fields"] = fields
        body["_by_keyword"] = by_keyword
        if own and "__init__" not in body:
            body["__init__"] = _init(f"{body['__qualname__']}.__init__", fields, by_keyword)
        if eq:
            body["__eq__"], body["__hash__"] = _equal, _hash
        return super().__new__(cls, name, bases, body)


class PlainRecord:
    """A record that writes `__slots__`, its fields in order, and `__init__` by hand.

    A class whose `__init__` computes its fields is one, and so are classes of which one is made for
    each event or call: `Entry`, `Exit`, `Stretch`, and with no base at all `OpenCall`, samples of
    the kernel, units and sources of a ring. From Python 3.13 on, the interpreter makes objects of
    a plain class faster than objects of a class with a metaclass.
    """

    __slots__: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def _names(cls) -> Iterable[str]:
        return cls.__slots__

    def values(self) -> tuple[object, ...]:
        """Return the fields in order; nested records are not converted."""
        return tuple([getattr(self, name) for name in self._names()])

    def __repr__(self) -> str:
        """Show every field by name."""
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._names())
        return f"{type(self).__name__}({fields})"


@dataclass_transform(eq_default=False, field_specifiers=(fresh,))
class Record(PlainRecord, metaclass=_RecordType):
    """A record whose fields are the annotations of its class, in order, but for ClassVar.

    A field with a value in the class has that default. The default is shared by all records, so it
    is something that does not change, such as a tuple; `fresh` makes a new value for each record.
    `class Name(Record, kw_only=True)` sets the fields by keyword alone. With `frozen=True`, type
    checkers refuse to set fields later. With `eq=True`, records of one class are equal if all
    their fields are; else a record is equal to itself alone. A class that writes `__init__` itself
    gets the rest.
    """

    @classmethod
    def _names(cls) -> Iterable[str]:
        return cls._fields

    def but(self, **changes: object) -> Self:
        """Return a copy of this record with some fields changed."""
        return type(self)(**{name: getattr(self, name) for name in self._names()} | changes)


def _equal(self: Record, other: object) -> bool:
    if isinstance(other, Record) and type(other) is type(self):
        return self.values() == other.values()
    return False


def _hash(self: Record) -> int:
    return hash(self.values())


def _init(name: str, fields: dict[str, object], by_keyword: tuple[str, ...]) -> Any:
    """Return the function `__init__` that sets `fields`, which have these defaults."""
    makers: dict[str, object] = {}  # its globals: what makes fresh values
    names: list[str] = []
    defaults: list[object] = []
    for field, default in fields.items():
        if type(default) is _Fresh:
            makers[f"make_{field}"] = default.make
        elif field not in by_keyword:
            names.append(field)
            if default is not _REQUIRED:
                defaults.append(default)
    set_from = [name for make in makers for name in (make, make[5:])]
    count = len(names) + len(by_keyword)
    code, text, most = _code(count, len(makers))
    code = code.replace(
        co_code=text,
        co_name="__init__",
        co_qualname=name,
        co_argcount=1 + len(names),
        co_kwonlyargcount=len(by_keyword),
        co_nlocals=1 + count,
        co_varnames=("self", *names, *by_keyword),
        co_names=(*names, *by_keyword, *[""] * (most - count), *set_from),
    )
    function: Any = type(_code)
    init = function(code, makers, "__init__", tuple(defaults))
    if by_keyword:
        given = {field: fields[field] for field in by_keyword}
        init.__kwdefaults__ = {k: value for k, value in given.items() if value is not _REQUIRED}
    return init


def _code(parameters: int, fresh_fields: int) -> tuple[CodeType, bytes, int]:
    """Return a code, with the bytecode that sets so many parameters and fresh fields, of any names.

    The number at the end is how many of its names stand before the names of the fresh fields.
    """
    if parameters <= _MOST and fresh_fields <= _MOST_FRESH:
        code = _longest.__code__
        text = code.co_code
        before = text[: _AT[parameters]]
        made = text[_AT[_MOST] : _AT[_MOST + fresh_fields]]
        return code, before + made + text[_AT[-1] :], _MOST
    names = [f"p{number}" for number in range(parameters)]
    lines = [f"self.{name} = {name}" for name in names]
    lines += [f"self.f{number} = m{number}()" for number in range(fresh_fields)]
    space: dict[str, Any] = {}
    exec("\n ".join([f"def made({', '.join(['self', *names])}):", *lines]), space)  # noqa: S102
    code = space["made"].__code__
    return code, code.co_code, parameters


def _statements(code: CodeType) -> list[int]:
    """Return the offset of each statement in the code of a function, which has one on each line."""
    first: dict[int | None, int] = {}
    for start, _, line in code.co_lines():
        first.setdefault(line, start)
    return list(first.values())[1:]  # before the statements there is code of the line `def`


# The `__init__` of all classes with at most so many fields. A compilation for each class or number
# of fields would take the start of a trace 2 ms. The statements have a line each, so `co_lines`
# tells where the code of each begins, and a class with fewer fields gets the code of the first
# statements, and of the last.
_MOST, _MOST_FRESH = 32, 4


# fmt: off
def _longest(
    self: Any,
    p0: Any, p1: Any, p2: Any, p3: Any, p4: Any, p5: Any, p6: Any, p7: Any,
    p8: Any, p9: Any, p10: Any, p11: Any, p12: Any, p13: Any, p14: Any, p15: Any,
    p16: Any, p17: Any, p18: Any, p19: Any, p20: Any, p21: Any, p22: Any, p23: Any,
    p24: Any, p25: Any, p26: Any, p27: Any, p28: Any, p29: Any, p30: Any, p31: Any,
) -> None:
    self.p0 = p0
    self.p1 = p1
    self.p2 = p2
    self.p3 = p3
    self.p4 = p4
    self.p5 = p5
    self.p6 = p6
    self.p7 = p7
    self.p8 = p8
    self.p9 = p9
    self.p10 = p10
    self.p11 = p11
    self.p12 = p12
    self.p13 = p13
    self.p14 = p14
    self.p15 = p15
    self.p16 = p16
    self.p17 = p17
    self.p18 = p18
    self.p19 = p19
    self.p20 = p20
    self.p21 = p21
    self.p22 = p22
    self.p23 = p23
    self.p24 = p24
    self.p25 = p25
    self.p26 = p26
    self.p27 = p27
    self.p28 = p28
    self.p29 = p29
    self.p30 = p30
    self.p31 = p31
    self.f0 = m0()
    self.f1 = m1()
    self.f2 = m2()
    self.f3 = m3()
    return  # noqa: PLR1711  code that ends each `__init__`


# fmt: on


_AT = _statements(_longest.__code__)
