# SPDX-License-Identifier: Apache-2.0
"""Unwind tables, row by row, against readelf."""

from __future__ import annotations

import os
import re
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.unwind import AT_CFA, FrameTable, Row, evaluate
from soscope.errors import FormatError
from tests.support.machines.tools import need
from tests.support.time.patience import limit

NUMBERS = {
    name: number
    for number, name in enumerate(
        "rax rdx rcx rbx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15 ra".split()
    )
}
_ENTRY = re.compile(r"[0-9a-f]+ [0-9a-f]+ [0-9a-f]+ FDE .*pc=([0-9a-f]+)\.\.([0-9a-f]+)")


def rows(path: str) -> Iterator[tuple[int, str, dict[str, str]]]:
    """Yield (address, CFA, column by register) of what readelf says of the functions."""
    text = subprocess.run(
        [need("readelf"), "-W", "--debug-dump=frames-interp", path],
        check=False,  # it is not content with every debug file
        capture_output=True,
        text=True,
        timeout=limit(),
    ).stdout
    is_function, names = False, []
    for line in text.splitlines():
        words = line.split()
        if _ENTRY.match(line):
            is_function = True
        elif " CIE " in line:
            is_function = False
        elif words[:2] == ["LOC", "CFA"]:
            names = words[2:]
        elif is_function and len(words) == len(names) + 2 and names:
            yield int(words[0], 16), words[1], dict(zip(names, words[2:], strict=True))


def said(row: Row, name: str) -> str:
    if name == "CFA":
        if row.expression is not None:
            return "exp"
        register = next(key for key, number in NUMBERS.items() if number == row.register)
        return f"{register}{row.offset:+d}"
    rule = row.rules.get(NUMBERS[name])
    if rule is None:
        return "u"
    kind, value = rule
    return f"c{value:+d}" if kind == AT_CFA and isinstance(value, int) else kind


@pytest.mark.parametrize("path", ["/bin/true", "/bin/bash"])
def test_without_a_header_the_table_is_the_linkers(path: str, tmp_path: Path) -> None:
    data = bytearray(Path(path).read_bytes())
    (start,), (count,) = struct.unpack_from("<Q", data, 32), struct.unpack_from("<H", data, 56)
    for at in range(start, start + 56 * count, 56):
        if struct.unpack_from("<I", data, at)[0] == c.PT_GNU_EH_FRAME:
            data[at : at + 4] = bytes(4)
    copy = tmp_path / "copy"
    copy.write_bytes(data)
    tables = []
    for file in (path, str(copy)):
        descriptor = os.open(file, os.O_RDONLY)
        try:
            table = FrameTable(ElfImage.from_descriptor(descriptor, file))
            vaddrs = [vaddr for vaddr, _, _ in rows(path)][::5]
            tables.append([table.row_and_extent(vaddr) for vaddr in vaddrs])
        finally:
            os.close(descriptor)
    assert len(tables[0]) > 50
    assert all(row is not None for row in tables[0])
    assert [row and row[1:] for row in tables[1]] == [row and row[1:] for row in tables[0]]
    assert [row and row[0].offset for row in tables[1]] == [
        row and row[0].offset for row in tables[0]
    ]


@pytest.mark.parametrize("path", ["/bin/true", "/bin/bash", "/lib/x86_64-linux-gnu/libc.so.6"])
def test_rows_are_those_of_readelf(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        table = FrameTable(ElfImage.from_descriptor(descriptor, path))
        seen = 0
        for number, (vaddr, cfa, columns) in enumerate(rows(path)):
            if number % 17 and number > 500:
                continue
            known = table.row_and_extent(vaddr)
            assert known is not None
            row, start, end = known
            assert start == vaddr < end
            assert said(row, "CFA") == cfa, hex(vaddr)
            for name, column in columns.items():
                if column.startswith("c"):
                    assert said(row, name) == column, (hex(vaddr), name)
            seen += 1
        assert seen > 20
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(
    ("code", "value"),
    [
        (b"\x77\x08\x80\x00\x3f\x1a\x3b\x2a\x33\x24\x22", 0x1008 + (1 << 3)),  # a stub's
        (b"\x77\x00\x06", 0x2A),
        (b"\x08\xff\x09\xff\x22", 0xFE),
        (b"\x31\x12\x22\x23\x05", 7),
        (b"\x77\x03\x94\x02", 0xBEEF),
        (b"\x33\x31\x16\x1c", (1 - 3) & (1 << 64) - 1),
        (b"\x33\x31\x1c\x12\x28\xfa\xff\x35", 5),  # counts down to 0
        (b"\x31\x28\x01\x00\x35\x36", 6),
    ],
)
def test_expressions(code: bytes, value: int) -> None:
    registers = {7: 0x1000, 16: 0x400B}
    assert evaluate(code, [], registers.get, {0x1000: 0x2A, 0x1003: 0xDEADBEEF}.get) == value


@pytest.mark.parametrize(
    "code",
    [
        b"",
        b"\x22",
        b"\x06",
        b"\xff",
        b"\x31\x06",
        b"\x77",
        b"\x78\x00",
        b"\x16",
        b"\x31\x12\x28\xfb\xff",
    ],
)
def test_expressions_that_say_nothing(code: bytes) -> None:
    with pytest.raises(FormatError):
        evaluate(code, [], {7: 1}.get, dict[int, int]().get)
