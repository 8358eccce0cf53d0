# SPDX-License-Identifier: Apache-2.0
"""Which pages hold anything, against what this process has written itself."""

from __future__ import annotations

import ctypes
import mmap
import os

import pytest

from soscope.proc import memory as pagemap

PAGE = mmap.PAGESIZE


def parts(memory: mmap.mmap, first: int, last: int) -> list[tuple[int, int]]:
    """Return what is kept of some bytes of a mapping, as offsets in it."""
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    found = pagemap.kept(os.getpid(), base + first, base + last)
    return [(start - base, end - base) for start, end in found]


def anonymous(pages: int) -> mmap.mmap:
    """Return memory that nobody has touched, and of which no page comes with another."""
    memory = mmap.mmap(-1, pages * PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    return memory


@pytest.mark.parametrize("pages", [64, 2000])
def test_pages_that_were_written(pages: int) -> None:
    memory = anonymous(pages)
    assert parts(memory, 0, pages * PAGE) == []
    for page in (0, 3, 4, pages - 1):
        memory[page * PAGE] = 1
    found = parts(memory, 0, pages * PAGE)
    last = ((pages - 1) * PAGE, pages * PAGE)
    assert found == [(0, PAGE), (3 * PAGE, 5 * PAGE), last]


def test_a_range_may_begin_and_end_within_pages() -> None:
    memory = anonymous(8)
    memory[0 : 8 * PAGE] = b"x" * (8 * PAGE)
    assert parts(memory, 100, 5 * PAGE + 8) == [(100, 5 * PAGE + 8)]


def test_looking_touches_nothing() -> None:
    memory = anonymous(1000)
    for _ in range(2):
        assert parts(memory, 0, 1000 * PAGE) == []


def test_where_the_kernel_does_not_tell_everything_is_kept() -> None:
    nobody = 1 << 30  # above any process id
    assert list(pagemap.kept(nobody, PAGE, 10 * PAGE)) == [(PAGE, 10 * PAGE)]
