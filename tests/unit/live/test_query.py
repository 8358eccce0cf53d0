# SPDX-License-Identifier: Apache-2.0
"""What queries and formats of values mean."""

from __future__ import annotations

import ctypes
import os

import pytest

from soscope.errors import UsageError
from soscope.live.images.space import Space
from soscope.live.lookup.answer import Batch, Query, parse
from soscope.live.lookup.values import Unreadable, ValueFormat
from tests.support.processes.leftovers import closing


@pytest.mark.parametrize(
    ("text", "name", "image", "version", "is_demangled"),
    [
        ("malloc", "malloc", None, None, False),
        ("malloc@GLIBC_2.2.5", "malloc", None, "GLIBC_2.2.5", False),
        ("malloc@@GLIBC_2.2.5", "malloc", None, "GLIBC_2.2.5", False),
        ("libc.so.6!malloc", "malloc", "libc.so.6", None, False),
        ("/a b/l!x.so!f@V", "f", "/a b/l!x.so", "V", False),
        ("std::swap(int&, int&)", "std::swap(int&, int&)", None, None, True),
        ("'a::b'", "a::b", None, None, True),
        ("lib.so!operator!=(A, A)", "operator!=(A, A)", "lib.so", None, True),
        ("operator!=(A, A)", "operator!=(A, A)", None, None, True),
    ],
)
def test_a_query_has_parts(
    text: str, name: str, image: str | None, version: str | None, is_demangled: bool
) -> None:
    query = parse(text)
    assert (query.name, query.image, query.version) == (name, image, version)
    assert query.is_demangled == is_demangled
    assert query.addr is None
    assert query.text == text


def test_an_address_is_hexadecimal() -> None:
    assert parse("0x7fFF").addr == 0x7FFF
    for text in ("0x", "0xg", "", "@V", "name@", "lib!"):
        with pytest.raises(UsageError):
            parse(text)


class Values(ctypes.Structure):
    """A little of everything."""

    _fields_ = (
        ("small", ctypes.c_int8),
        ("number", ctypes.c_int32),
        ("triple", ctypes.c_int32 * 3),
        ("wide", ctypes.c_uint64),
        ("real", ctypes.c_double),
        ("text", ctypes.c_char_p),
    )


VALUES = Values(-3, -70000, (ctypes.c_int32 * 3)(3, 1, 0), 1 << 63, 0.5, "grün".encode())


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("i8", "small", -3),
        ("u8", "small", 253),
        ("i32", "number", -70000),
        ("3i", "triple", [3, 1, 0]),
        ("hex:4", "triple", "03000000"),
        ("u64", "wide", 1 << 63),
        ("f64", "real", 0.5),
        ("*str", "text", "grün"),
        ("bi3iQ", "small", [-3, -70000, 3, 1, 0, 1 << 63]),
    ],
)
def test_a_value_is_read_as_c_laid_it_out(text: str, field: str, value: object) -> None:
    addr = ctypes.addressof(VALUES) + getattr(Values, field).offset
    space = closing(Space(os.getpid()))
    assert ValueFormat(text).read(space, addr) == value
    assert ValueFormat("ptr").read(space, addr) == hex(space.word(addr) or 0)


def test_what_is_not_there_is_said() -> None:
    space = closing(Space(os.getpid()))
    for text in ("str", "i32", "*i32", "hex:8"):
        with pytest.raises(Unreadable, match="0x10"):
            ValueFormat(text).read(space, 0x10)


@pytest.mark.parametrize("text", ["", "*", "x y", "hex:", "hex:0", "i33", "3", "*3"])
def test_what_is_no_format_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        ValueFormat(text)


def test_many_queries_are_sorted_out() -> None:
    asked = ["malloc", "0x10", " 0X1f ", "libc.so.6!free", "free@V", "malloc", "a::b", "0x10"]
    batch = Batch([*asked, parse("puts"), parse("0xff"), parse("libc.so.6!puts"), parse(" spaced")])
    assert batch.names == {"malloc", "puts"}
    assert batch.addrs == {"0x10": 16, " 0X1f ": 31, "0xff": 255}
    keys = ["malloc", "0x10", " 0X1f ", "", "", "malloc", "", "0x10", "puts", "0xff", "", ""]
    assert batch.keys == keys
    for text, key, query in zip(asked, keys, batch.queries, strict=False):
        if key:
            assert query == text
        else:
            assert isinstance(query, Query)
            assert query.text == text


@pytest.mark.parametrize("text", ["0xzz", "0x", " 0x-5", "name@", "", "libc.so.6!"])
def test_one_wrong_query_among_many(text: str) -> None:
    with pytest.raises(UsageError):
        Batch(["malloc", "0x10", text, "free"])
