# SPDX-License-Identifier: Apache-2.0
"""Sources return what there is, and never more."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soscope.binfmt.source import BufferSource, ByteSource, FileSource, sleb, uleb


def test_a_buffer_gives_what_it_has() -> None:
    for buffer in (b"0123456789", bytearray(b"0123456789"), memoryview(b"0123456789")):
        source = BufferSource(buffer)
        assert source.read(2, 3) == b"234"
        assert source.read(8, 5) == b"89"
        assert source.read(20, 5) == b""
        assert source.read(-1, 5) == b""
        assert source.read(1, -1) == b""


def test_a_file_gives_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * 16)
    with path.open("rb") as file:
        source = FileSource(file.fileno(), "file")
        assert source.name == "file"
        assert source.read(2, 3) == bytes((2, 3, 4))
        assert source.read(4095, 5) == b"\xff"
        assert source.read(5000, 5) == b""
        assert len(source.read(0, 1 << 50)) == 4096
        assert source.read(1 << 70, 5) == b""
        assert source.read(-1, 5) == b""


def test_the_base_reads_nothing() -> None:
    with pytest.raises(NotImplementedError):
        ByteSource("base").read(0, 1)


def _leb(number: int, *, is_signed: bool) -> bytes:
    """Encode a number as DWARF 5, figures C.1 and C.2, do."""
    parts = bytearray()
    while True:
        byte, number = number & 0x7F, number >> 7
        is_last = number == (-(byte >> 6) if is_signed else 0)
        parts.append(byte | (0 if is_last else 0x80))
        if is_last:
            return bytes(parts)


@given(st.integers(0, (1 << 64) - 1), st.binary(max_size=3), st.binary(max_size=3))
def test_an_unsigned_leb128(number: int, before: bytes, behind: bytes) -> None:
    data = _leb(number, is_signed=False)
    at = len(before)
    assert uleb(before + data + behind, at) == (number, at + len(data))
    if len(data) < 10:  # some tools pad a number
        padded = data[:-1] + bytes([data[-1] | 0x80]) + bytes([0x80] * (9 - len(data))) + b"\0"
        assert uleb(padded, 0) == (number, 10)


@given(st.integers(-(1 << 63), (1 << 63) - 1), st.binary(max_size=3))
def test_a_signed_leb128(number: int, behind: bytes) -> None:
    data = _leb(number, is_signed=True)
    assert sleb(data + behind, 0) == (number, len(data))


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 9, b"\x80" * 10 + b"\0"])
def test_a_leb128_that_does_not_end(data: bytes) -> None:
    for read in (uleb, sleb):
        with pytest.raises(IndexError):
            read(data, 0)
