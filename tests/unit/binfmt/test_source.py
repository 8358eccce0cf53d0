# SPDX-License-Identifier: Apache-2.0
"""Sources return what there is, and never more."""

from __future__ import annotations

from pathlib import Path

import pytest

from soscope.binfmt.source import BufferSource, ByteSource, FileSource


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
