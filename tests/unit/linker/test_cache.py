# SPDX-License-Identifier: Apache-2.0
"""ld.so.cache: what ldconfig says is in it."""

from __future__ import annotations

import re
import struct

from hypothesis import given
from hypothesis import strategies as st

from soscope.linker import system
from tests.support.machines.tools import need
from tests.support.processes.run import run


def make(
    rows: list[tuple[int, str, str]], *, old: bool = False, order: str = "<", marked: bool = False
) -> bytes:
    """Write a cache: (flags, name, path) for each library; `marked`: it says its byte order."""
    head = 48 + 24 * len(rows)
    strings, entries = b"", b""
    for flags, name, path in rows:
        places = []
        for text in (name, path):
            places.append(head + len(strings))
            strings += text.encode() + b"\0"
        entries += struct.pack(order + "iIIIQ", flags, *places, 0, 0)
    mark = (2 if order == "<" else 3) if marked else 0
    magic = b"glibc-ld.so.cache1.1"
    data = struct.pack(order + "20sIIB19x", magic, len(rows), len(strings), mark)
    data += entries + strings
    return (b"ld.so-1.7.0\0" + struct.pack("<I", 1) + bytes(12) + bytes(4) if old else b"") + data


def test_libraries_of_the_asked_machine_are_found() -> None:
    rows = [(0x303, "libx.so.1", "/lib64/libx.so.1"), (3, "libx.so.1", "/lib32/libx.so.1")]
    for old in (False, True):
        data = make(rows, old=old)
        assert system.parse_cache(data) == {"libx.so.1": "/lib64/libx.so.1"}
        assert system.parse_cache(data, ids=(3,)) == {"libx.so.1": "/lib32/libx.so.1"}
        assert system.parse_cache(data, ids=(0xA03,)) == {}


def test_the_best_build_that_the_processor_can_run_is_taken() -> None:
    folders = ["/lib", "/lib/glibc-hwcaps/x86-64-v3", "/lib/glibc-hwcaps/x86-64-v2"]
    data = make([(0x303, "libx.so", f"{folder}/libx.so") for folder in folders])
    v2, v3 = "x86-64-v2", "x86-64-v3"
    assert system.parse_cache(data) == {"libx.so": "/lib/libx.so"}
    assert system.parse_cache(data, hwcaps=(v2,)) == {"libx.so": f"/lib/glibc-hwcaps/{v2}/libx.so"}
    best = system.parse_cache(data, hwcaps=("x86-64-v4", v3, v2))
    assert best == {"libx.so": f"/lib/glibc-hwcaps/{v3}/libx.so"}


def test_of_libraries_marked_in_two_ways_the_exact_one_is_taken() -> None:
    """dl-cache.h of ARM: old ldconfigs wrote no flag for the kind of floating point."""
    rows = [(3, "libx.so", "/lib/plain.so"), (0x903, "libx.so", "/lib/hard.so")]
    for order in (rows, rows[::-1]):
        assert system.parse_cache(make(order), ids=(0x903, 3)) == {"libx.so": "/lib/hard.so"}
    assert system.parse_cache(make(rows[:1]), ids=(0x903, 3)) == {"libx.so": "/lib/plain.so"}


def test_a_cache_of_the_other_byte_order_is_read() -> None:
    rows = [(0x403, "libx.so", "/lib/libx.so")]
    for marked in (False, True):
        data = make(rows, order=">", marked=marked)
        assert system.parse_cache(data, ids=(0x403,), order=">") == {"libx.so": "/lib/libx.so"}
    assert system.parse_cache(make(rows, order=">", marked=True), ids=(0x403,)) != {}


@given(st.integers(0, 200), st.binary(max_size=8))
def test_damage_is_never_more_than_less(at: int, what: bytes) -> None:
    data = bytearray(make([(0x303, "libx.so", "/lib/libx.so")] * 2))
    data[at : at + len(what)] = what
    assert isinstance(system.parse_cache(bytes(data[: len(data) - at % 7])), dict)


def test_it_is_what_ldconfig_prints() -> None:
    printed = run([need("/sbin/ldconfig"), "-p"]).stdout
    rows = re.findall(r"^\t(\S+) \(libc6,x86-64[^)]*\) => (.*)$", printed, re.MULTILINE)
    found = system.read_cache()
    assert found.keys() == {name for name, _ in rows}
    assert set(found.items()) <= set(rows)


def test_no_cache_is_an_empty_one() -> None:
    assert system.read_cache("/nosuch") == {}
    assert system.parse_cache(b"something else") == {}
