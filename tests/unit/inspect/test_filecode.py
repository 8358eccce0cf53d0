# SPDX-License-Identifier: Apache-2.0
"""Code is searched once, however many sections a file says it lies in."""

from __future__ import annotations

from itertools import pairwise

from soscope.inspect.explain.filecode import OVERLAP, PIECE, FileCode

LENGTH = 1 << 20


class Code(FileCode):
    """Bytes everywhere below `end`, of a file that is a megabyte long."""

    def __init__(self, ranges: list[tuple[int, int, str]], end: int = LENGTH) -> None:
        self._ranges = ranges
        self._end = end

    def read(self, vaddr: int, size: int) -> bytes:
        return bytes(max(0, min(size, self._end - vaddr)))

    def length(self) -> int:
        return LENGTH

    def ranges(self) -> list[tuple[int, int, str]]:
        return self._ranges


def searched(code: FileCode) -> list[tuple[int, int]]:
    return [(vaddr, vaddr + len(data)) for vaddr, data in code.pieces()]


def test_code_is_searched_once() -> None:
    code = Code([(0x1000, 0x8000, str(number)) for number in range(1000)])
    assert searched(code) == [(0x1000, 0x9000)]
    nested = Code([(0x1000, 0x8000, "a"), (0x2000, 0x100, "b"), (0x8000, 0x2000, "c")])
    found = searched(nested)
    assert (found[0], found[-1][1]) == ((0x1000, 0x9000), 0xA000)
    assert all(before[1] - after[0] >= OVERLAP for before, after in pairwise(found))
    apart = [(0x1000, 0x100, "a"), (0x1100, 0x100, "b"), (0x3000, 0x100, "c")]
    assert searched(Code(apart)) == [(start, start + size) for start, size, _ in apart]
    assert nested.is_searched


def test_the_same_bytes_at_many_addresses_are_not_searched_for_ever() -> None:
    code = Code([(number << 20, LENGTH, "") for number in range(1000)], end=1 << 40)
    found = searched(code)
    assert sum(end - start for start, end in found) <= 2 * LENGTH + PIECE
    assert not code.is_searched


def test_what_is_code() -> None:
    code = Code([(0x1000, 0x100, "a"), (0x1080, 0x100, "b"), (0x3000, 0x100, "c")])
    for vaddr, is_code in ((0xFFF, False), (0x1000, True), (0x117F, True), (0x1180, False)):
        assert code.is_code(vaddr) == is_code
