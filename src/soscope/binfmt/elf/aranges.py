# SPDX-License-Identifier: Apache-2.0
"""The address ranges that DWARF describes, by .debug_aranges, which is cheap to read.

DWARF 5, 6.1.2 "Lookup by Address". Compilers may leave this section out (clang does).
"""

from __future__ import annotations

from bisect import bisect_right

from soscope.binfmt.elf.encoding import Encoding
from soscope.binfmt.elf.sections import Sections

_MAX_BYTES = 1 << 26


class AddressRanges:
    """The ranges of link-time addresses that DWARF describes."""

    __slots__ = ("_ends", "_starts")

    def __init__(self, ranges: list[tuple[int, int]]) -> None:
        ranges.sort()
        self._starts = [start for start, _ in ranges]
        self._ends: list[int] = []
        for _, end in ranges:
            self._ends.append(max(end, self._ends[-1]) if self._ends else end)

    def may_have(self, vaddr: int) -> bool:
        """Return False if DWARF certainly does not describe `vaddr`, True if it may."""
        at = bisect_right(self._starts, vaddr) - 1
        return at >= 0 and vaddr < self._ends[at]


def read_aranges(sections: Sections, coding: Encoding) -> AddressRanges | None:
    """Read .debug_aranges; return None if there is none, or one that cannot be unpacked.

    Raises FormatError if its bytes are not in the file.
    """
    section = sections.named(".debug_aranges")
    if section is None:
        return None
    data = sections.unpacked(section, coding, _MAX_BYTES)
    return None if data is None else _parse(data, coding)


def _parse(data: bytes, coding: Encoding) -> AddressRanges | None:
    """Parse the tables of all units; None for rarely used forms (64-bit DWARF, segments)."""
    ranges: list[tuple[int, int]] = []
    at = 0
    word = coding.word.size
    while at + 12 <= len(data):
        (length,) = coding.u32.unpack_from(data, at)
        (version,) = coding.half.unpack_from(data, at + 4)
        if version != 2 or data[at + 10 : at + 12] != bytes([word, 0]):
            return None
        end = at + 4 + length
        if end > len(data):
            return None
        place = at + 12
        place += -(place - at) % (2 * word)
        while place + 2 * word <= end:
            (start,) = coding.word.unpack_from(data, place)
            (size,) = coding.word.unpack_from(data, place + word)
            if size:
                ranges.append((start, start + size))
            place += 2 * word
        at = end
    return AddressRanges(ranges)
