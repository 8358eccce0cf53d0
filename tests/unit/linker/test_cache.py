# SPDX-License-Identifier: Apache-2.0
"""ld.so.cache: what ldconfig says is in it."""

from __future__ import annotations

import re
import struct

from hypothesis import given
from hypothesis import strategies as st

from soscope.linker import cache
from tests.support.run import run
from tests.support.tools import need


def make(rows: list[tuple[int, str, str]], *, old: bool = False) -> bytes:
    """Write a cache: (flags, name, path) for each library."""
    head = 48 + 24 * len(rows)
    strings, entries = b"", b""
    for flags, name, path in rows:
        places = []
        for text in (name, path):
            places.append(head + len(strings))
            strings += text.encode() + b"\0"
        entries += struct.pack("<iIIIQ", flags, *places, 0, 0)
    data = struct.pack("<20sII20x", b"glibc-ld.so.cache1.1", len(rows), len(strings))
    data += entries + strings
    return (b"ld.so-1.7.0\0" + struct.pack("<I", 1) + bytes(12) + bytes(4) if old else b"") + data


def test_libraries_of_the_asked_machine_are_found() -> None:
    rows = [(0x303, "libx.so.1", "/lib64/libx.so.1"), (3, "libx.so.1", "/lib32/libx.so.1")]
    for old in (False, True):
        data = make(rows, old=old)
        assert cache.parse(data) == {"libx.so.1": "/lib64/libx.so.1"}
        assert cache.parse(data, bits=32, machine=3) == {"libx.so.1": "/lib32/libx.so.1"}
        assert cache.parse(data, machine=183) == {}


def test_the_best_build_that_the_processor_can_run_is_taken() -> None:
    folders = ["/lib", "/lib/glibc-hwcaps/x86-64-v3", "/lib/glibc-hwcaps/x86-64-v2"]
    data = make([(0x303, "libx.so", f"{folder}/libx.so") for folder in folders])
    assert cache.parse(data, level=1) == {"libx.so": "/lib/libx.so"}
    assert cache.parse(data, level=2) == {"libx.so": "/lib/glibc-hwcaps/x86-64-v2/libx.so"}
    assert cache.parse(data, level=4) == {"libx.so": "/lib/glibc-hwcaps/x86-64-v3/libx.so"}


@given(st.integers(0, 200), st.binary(max_size=8))
def test_damage_is_never_more_than_less(at: int, what: bytes) -> None:
    data = bytearray(make([(0x303, "libx.so", "/lib/libx.so")] * 2))
    data[at : at + len(what)] = what
    assert isinstance(cache.parse(bytes(data[: len(data) - at % 7])), dict)


def test_it_is_what_ldconfig_prints() -> None:
    printed = run([need("/sbin/ldconfig"), "-p"]).stdout
    rows = re.findall(r"^\t(\S+) \(libc6,x86-64[^)]*\) => (.*)$", printed, re.MULTILINE)
    found = cache.read()
    assert found.keys() == {name for name, _ in rows}
    assert set(found.items()) <= set(rows)


def test_no_cache_is_an_empty_one() -> None:
    assert cache.read("/nosuch") == {}
    assert cache.parse(b"something else") == {}
