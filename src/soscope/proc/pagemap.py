# SPDX-License-Identifier: Apache-2.0
"""Which pages of a process hold data: /proc/PID/pagemap."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_KEPT = 0b11 << 62  # present, or swapped out (Documentation/admin-guide/mm/pagemap.rst)
_ENTRY = 8  # bytes
_AT_ONCE = 512  # entries


def kept(pid: int, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the parts [start, end) of an address range that are in memory or swapped out.

    A page that was never touched holds zeros or its file's contents, and reading it would bring
    it into the process. If the kernel does not tell, the whole range is one part.
    """
    try:
        descriptor = os.open(f"/proc/{pid}/pagemap", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        yield start, end
        return
    try:
        begun = None
        for page, is_kept in _changes(descriptor, start, end):
            if is_kept:
                begun = max(page, start)
            elif begun is not None:
                yield begun, min(page, end)
                begun = None
    finally:
        os.close(descriptor)


def _changes(descriptor: int, start: int, end: int) -> Iterator[tuple[int, bool]]:
    """Yield each address at which pages begin or cease to be kept, as far as it is known."""
    size = os.sysconf("SC_PAGE_SIZE")
    at, last = start // size, -(-end // size)
    is_kept = False
    while at < last:
        data = os.pread(descriptor, min(_AT_ONCE, last - at) * _ENTRY, at * _ENTRY)
        count = len(data) // _ENTRY
        if not count:
            break
        entries = memoryview(data).cast("Q")
        # in most reads all entries are equal: of a stack, a program uses little
        alike = data == data[:_ENTRY] * count
        for number in range(1 if alike else count):
            if bool(entries[number] & _KEPT) != is_kept:
                is_kept = not is_kept
                yield (at + number) * size, is_kept
        at += count
    if is_kept:
        yield at * size, False
