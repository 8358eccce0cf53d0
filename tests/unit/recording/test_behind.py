# SPDX-License-Identifier: Apache-2.0
"""What lies behind in a recording: handed to the disk, let go later, and not at all costs."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest

from soscope.recording.writer import Behind

MIB = 1 << 20


@pytest.fixture
def advised(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Keep what the kernel is told instead of telling it: (first, end) in MiB."""
    calls: list[tuple[int, int]] = []

    def posix_fadvise(descriptor: int, start: int, size: int, advice: int) -> None:
        assert (descriptor, advice) == (7, os.POSIX_FADV_DONTNEED)
        calls.append((start // MIB, (start + size) // MIB))

    monkeypatch.setattr(os, "posix_fadvise", posix_fadvise)
    return calls


def test_the_beginning_stays(advised: list[tuple[int, int]]) -> None:
    pages = Behind(7)
    assert all(pages.written(size * MIB) for size in range(40))
    assert advised == []


def test_each_page_is_handed_over_and_let_go_later(advised: list[tuple[int, int]]) -> None:
    pages = Behind(7)
    assert all(pages.written(size * MIB) for size in range(0, 200, 5))
    handed = [place for at, place in enumerate(advised) if place not in advised[:at]]
    assert handed == [(start, start + 8) for start in range(32, 192, 8)]
    again = [place for at, place in enumerate(advised) if place in advised[:at]]
    assert again == [(start, start + 8) for start in range(32, 160, 8)]


def test_a_disk_that_keeps_us_waiting_is_left_alone(
    advised: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = iter([1.0, 1.001, 2.0, 2.5])
    monkeypatch.setattr(time, "monotonic", lambda: next(moments))
    pages = Behind(7)
    assert pages.written(40 * MIB)
    assert not pages.written(48 * MIB)
    assert len(advised) == 2


def test_a_file_without_pages_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def posix_fadvise(*_: int) -> None:
        raise OSError(errno.ESPIPE, os.strerror(errno.ESPIPE))

    monkeypatch.setattr(os, "posix_fadvise", posix_fadvise)
    assert not Behind(7).written(40 * MIB)


def test_content_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        pages, size = Behind(descriptor), 0
        for number in range(96):
            size += os.write(descriptor, bytes([number]) * MIB)
            pages.written(size)
        with path.open("rb") as file:
            assert all(file.read(MIB) == bytes([number]) * MIB for number in range(96))
    finally:
        os.close(descriptor)
