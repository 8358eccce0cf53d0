# SPDX-License-Identifier: Apache-2.0
"""Make objects of many types, and say address, type and size of each in one line of JSON.

It runs on every Python from 3.9 on. With the argument `numpy` it makes arrays, too; with `heap` it
says that of all objects that a big part of the standard library has made. It ends when its standard
input does.
"""

from __future__ import annotations

import array
import collections
import contextlib
import datetime as dt
import decimal
import functools
import gc
import importlib
import io
import itertools
import json
import sys
import types
import weakref
from collections.abc import AsyncIterator, Iterator
from typing import Any
from xml.etree import ElementTree as ET

SIZES = (0, 1, 2, 3, 5, 8, 13, 40, 129, 300, 1000, 70000)


class Plain:
    a: int


class Slotted:
    __slots__ = ("a", "b")


class Weak:
    __slots__ = ("__weakref__",)


class Items(list[int]):
    pass


class Table(dict[Any, Any]):
    pass


class SlottedTable(dict[Any, Any]):
    __slots__ = ("extra",)


class Text(str):  # noqa: SLOT000  one with a dictionary is wanted
    pass


class SlottedText(str):
    __slots__ = ()


class Number(int):
    pass


class Row(tuple[int, ...]):  # noqa: SLOT001  as Text
    pass


class Bytes(bytes):
    pass


class Buffer(bytearray):
    pass


class Few(set[int]):
    pass


class Both(Plain, Table):
    pass


class FaultError(Exception):
    pass


class Meta(type):
    pass


class Made(metaclass=Meta):
    pass


class Outer:
    class Inner:
        pass


class Counts:
    """Its size is what it says itself."""

    def __sizeof__(self) -> int:
        return 12345


class CountsToo(Counts, list[int]):
    pass


class ManyNames:
    def __init__(self, count: int) -> None:
        for number in range(count):
            setattr(self, f"name{number}", number)


def generator(count: int) -> Iterator[object]:
    local = [None] * count
    a = b = c = d = e = 0
    yield local, a, b, c, d, e


async def coroutine() -> int:
    return 1


async def agenerator() -> AsyncIterator[int]:
    yield 1


def closure(value: int) -> tuple[Any, types.FrameType]:
    def inner() -> int:
        return value

    return inner, sys._getframe()


def texts() -> Iterator[object]:
    for size in SIZES:
        yield "a" * size + ""
        yield "\xe9" * size
        yield "\u0161" * size
        yield "\U0001f600" * size
        yield Text("b" * size)
        yield Text("\xfc" * size)
        yield SlottedText("\u0162" * size)
        yield str(size)
    for size in (1, 20, 300):
        text = "\u0163" * size
        type(text, (), {})  # which keeps the UTF-8 form
        yield text
        text = "b" * size
        keep_wide(text)
        yield text
        text = "\xe4" * size
        keep_wide(text)
        yield text
        text = Text("\u0163" * size)
        keep_wide(text)
        yield text


def keep_wide(text: str) -> None:
    """Have the interpreter keep the wchar_t form of a text, where it still does such a thing."""
    try:
        import ctypes

        wide = ctypes.pythonapi.PyUnicode_AsUnicode
    except (ImportError, AttributeError):
        return  # from 3.12 on there is no such form
    wide.restype = ctypes.c_void_p
    wide(ctypes.py_object(text))


def numbers() -> Iterator[object]:
    for size in (0, 1, 29, 30, 31, 59, 60, 61, 89, 90, 91, 1000):
        yield (1 << size) - 1
        yield -(1 << size)
        yield Number(1 << size)
        yield Number(-5)
    yield from (True, False, 1.5, 2j, 0, -1, None, NotImplemented, Ellipsis)


def containers() -> Iterator[object]:
    for size in SIZES:
        rows = range(size)
        yield list(rows)
        yield [number for number in rows]  # noqa: C416  it grows otherwise than list()
        yield [None] * size
        yield Items(rows)
        yield tuple(rows)
        yield Row(rows)
        yield set(rows)
        yield frozenset(rows)
        yield Few(rows)
        yield dict.fromkeys(rows)
        yield {str(number): number for number in rows}
        yield Table.fromkeys(rows)
        yield SlottedTable.fromkeys(rows)
        yield Both()
        yield collections.OrderedDict.fromkeys(rows)
        yield collections.Counter(rows)
        yield collections.defaultdict(list, dict.fromkeys(rows))
        yield collections.deque(rows)
        yield collections.deque(rows, 7)
        yield collections.ChainMap({1: 2})
        yield bytes(size)
        yield Bytes(size)
        yield bytearray(size)
        yield Buffer(size)
        yield array.array("b", bytes(size))
        yield array.array("d", [0.5] * size)
        yield memoryview(bytes(size))
        yield memoryview(bytes(16 * size + 16)).cast("B", (4, 4 * size + 4))
        yield io.BytesIO(b"x" * size)
        yield io.StringIO("y" * size)
        yield range(size)
        yield slice(0, size)
        yield iter(list(rows))
        yield iter(tuple(rows))
        yield reversed(list(rows))
        yield {}.items()
        yield {str(number): None for number in rows}.keys()
    grown = []
    for number in range(100):
        grown.append(number)
        yield list(grown)
        yield grown[: number // 2]
    shrinking = {number: number for number in range(500)}
    for number in range(450):
        del shrinking[number]
    yield shrinking
    deque = collections.deque(range(200))
    for _ in range(150):
        deque.popleft()
    yield deque
    ordered = collections.OrderedDict.fromkeys(range(50))
    for number in range(20):
        del ordered[number]
    yield ordered
    buffer = bytearray(b"z" * 1000)
    del buffer[:900]
    yield buffer
    written = io.BytesIO()
    for _ in range(300):
        written.write(b"0123456789")
    yield written
    shared = io.BytesIO(b"w" * 100)
    yield shared
    yield shared.getvalue()
    if hasattr(__builtins__, "frozendict"):
        yield __builtins__.frozendict(a=1)
        yield __builtins__.frozendict(dict.fromkeys(range(100)))


def instances() -> Iterator[object]:
    for turn in range(200):
        for kind in (Plain, Slotted, Weak, Made, Outer.Inner, FaultError, object):
            yield kind()
        thing = Plain()
        thing.a = turn
        yield thing
        yield thing.__dict__
    for number in (1, 3, 20, 29, 30, 31, 40, 200):
        many = ManyNames(number)
        yield many
        yield vars(many)
    yield from (Plain, Slotted, Items, Both, Made, Meta, Outer.Inner, FaultError, Weak, ManyNames)
    yield from (int, str, type, object, list, dict, Exception, collections.deque, array.array)
    yield from (type(None), types.FunctionType, io.BytesIO, dt.date)
    yield Counts()
    yield CountsToo()
    yield from (ValueError("x"), KeyError(1), OSError(2, "no"), StopIteration(3))


def running() -> Iterator[object]:
    for count in (0, 1, 30):
        begun = generator(count)
        yield generator(count)
        next(begun)
        yield begun
        ended = generator(count)
        list(ended)
        yield ended
    waiting = coroutine()
    yield waiting
    waiting.close()
    yield agenerator()
    yield (number for number in range(3))
    yield from closure(5)
    yield sys._getframe()
    yield lambda: 1
    yield closure(1)[0].__closure__[0]
    yield from (generator, coroutine, closure, len, [].append, Plain().__repr__)
    yield from (generator.__code__, closure.__code__, containers.__code__)
    for function in vars(json.decoder).values():
        if isinstance(function, types.FunctionType):
            yield function.__code__
    yield closure(7)[0].__code__
    yield Plain.__dict__
    yield types.SimpleNamespace(a=1)
    yield types.ModuleType("m")
    yield property(len)
    yield staticmethod(len)
    yield functools.partial(len, [])
    yield functools.lru_cache(len)
    yield weakref.ref(Plain)
    yield weakref.WeakValueDictionary()
    yield itertools.count(3)
    yield itertools.chain([1], [2])
    yield zip([1], [2])  # noqa: B905  3.9 knows no strict=
    yield map(len, [])
    yield enumerate([])
    yield dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc)  # noqa: UP017  3.9
    yield dt.timedelta(1)
    yield decimal.Decimal(1)
    yield decimal.Decimal("1." + "3" * 400)
    yield decimal.Decimal(7) ** 700
    with open(__file__, "rb") as file:
        yield file
        file.read(1)
    yield io.BufferedWriter(io.BytesIO(), 100)
    yield io.BufferedRandom(io.BytesIO())  # type: ignore[arg-type]  # typeshed wants a raw stream
    element = ET.Element("a")
    yield element
    for number in range(1, 20):
        parent = ET.Element("p", {"n": "1"})
        for _ in range(number):
            ET.SubElement(parent, "c")
        yield parent


def arrays() -> Iterator[object]:
    import numpy as np

    for size in SIZES:
        yield np.zeros(size)
        yield np.zeros((size, 2), np.uint8)
        yield np.zeros(size + 4)[2:]
        yield np.array(["ab"] * size)
        yield np.zeros(size, [("a", "i4"), ("b", "f8")])
    yield np.array(3)
    yield np.float64(1)
    yield np.int8(1)
    yield np.dtype("f8")


def heap() -> Iterator[object]:
    """Import much, and give every object that the collector knows, and what those refer to."""
    for name in (
        "argparse asyncio concurrent.futures ctypes dataclasses difflib email.message enum "
        "http.client http.cookiejar inspect logging.config multiprocessing.pool pickle plistlib "
        "pydoc sqlite3 ssl tarfile tempfile typing unittest.mock urllib.request xml.dom.minidom "
        "xmlrpc.client zipfile"
    ).split():
        with contextlib.suppress(ImportError):  # a small build has no ssl or sqlite3
            importlib.import_module(name)
    gc.collect()
    gc.disable()
    known = {id(thing): thing for thing in gc.get_objects()}
    known.update((id(thing), thing) for thing in gc.get_referents(*known.values()))
    mine = {id(known), id(sys._getframe()), id(globals())}
    return iter([thing for addr, thing in known.items() if addr not in mine])


def every() -> Iterator[object]:
    if "heap" in sys.argv:
        yield from heap()
        return
    for make in (texts, numbers, containers, instances, running):
        yield from make()
    if "numpy" in sys.argv:
        yield from arrays()


def described(thing: object) -> tuple[int, str, str, int]:
    kind = type(thing)
    return id(thing), kind.__name__, f"{kind.__module__}.{kind.__qualname__}", sys.getsizeof(thing)


kept = list(every())
first = [described(thing) for thing in kept]
again = [described(thing) for thing in kept]
# what describing them has changed is left out: counts of the JSON encoder, caches, this list
lines = [line for line, other in zip(first, again) if line == other]  # noqa: B905  3.9
sys.stdout.write(json.dumps({"version": sys.version_info[:3], "objects": lines}) + "\n")
sys.stdout.flush()
sys.stdin.read()
