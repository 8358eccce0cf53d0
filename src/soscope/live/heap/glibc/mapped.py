# SPDX-License-Identifier: Apache-2.0
"""Chunks that glibc's malloc has mapped one by one, of at least mmap_threshold bytes.

Each begins with a chunk's head at the start of a page. `mp_` has their number and their total
size. The kernel may have merged them with each other and with mappings of the program.
"""

from __future__ import annotations

from soscope.live.heap.glibc.params import Params
from soscope.live.heap.ranges import TakenRanges

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.live.heap.pages import Pages
    from soscope.live.images.space import Space

_PAGE = 4096
_IS_MAPPED = 2
_MOST_PAGES = 1 << 19  # pages that are checked one by one


def mapped_chunks(
    space: Space, params: Params, pages: Pages, taken: TakenRanges
) -> list[tuple[int, int]]:
    """Return (address, size) of mapped chunks; the ranges `taken` contain none."""
    if not params.mmaps:
        return []
    areas = [
        gap
        for mapping in space.mappings
        if mapping.flags == "rw-p" and not mapping.path
        for gap in taken.gaps(mapping.start, mapping.end)
    ]
    chunks: list[tuple[int, int]] = []
    left = _MOST_PAGES
    for is_thorough in (False, True):
        chunks = []
        for area in areas:
            left = _walk(space, pages, area, chunks, left if is_thorough else 0)
        if sum(size for _, size in chunks) >= params.mmapped:
            break
    return chunks


def _walk(
    space: Space, pages: Pages, area: tuple[int, int], chunks: list[tuple[int, int]], left: int
) -> int:
    """Add the chunks of one mapping; check at most `left` pages that follow no chunk."""
    start, end = area
    present = pages.of(start, end).present if left else None
    at = start
    is_due = True
    while at < end:
        if not is_due:
            if left <= 0 or present is None:
                break
            left -= 1
        touched = present is None or bool(present[(at - start) // _PAGE])
        data = space.read(at, 16) if touched else b""
        head = int.from_bytes(data[8:], "little")
        size = head & -8
        if head & 7 == _IS_MAPPED and not size % _PAGE and 0 < size <= end - at:
            chunks.append((at, size))
            at += size
            is_due = True
        else:
            at += _PAGE
            is_due = False
    return left
