# SPDX-License-Identifier: Apache-2.0
"""Start of functions, from the unwind tables, which stay when a file is stripped."""

from __future__ import annotations

from bisect import bisect_right

from soscope.binfmt.elf import constants as c
from soscope.binfmt.stubs.table import SlotTable
from soscope.binfmt.stubs.words import big_endian, numbers

_KEY = "functions"


def function_at(table: SlotTable, place: int) -> int:
    """Return the start of the function around `place`; if not known, an address behind `place`."""
    starts: list[int] | None = table.notes.get(_KEY)
    if starts is None:
        starts = table.notes[_KEY] = _starts(table)
    index = bisect_right(starts, place) - 1
    return starts[index] if index >= 0 else place + 1


def _starts(table: SlotTable) -> list[int]:
    """Return the function addresses in .eh_frame_hdr, none if there is no such table.

    LSB, "Exception Frame Header": a version, three encodings, an address, a count, and pairs of
    numbers that count from the start of the header.
    """
    coding = table.image.encoding
    mask = (1 << coding.bits) - 1
    for segment in table.image.segments:
        if segment.type != c.PT_GNU_EH_FRAME:
            continue
        data = table.read(segment.vaddr, segment.filesz)
        if len(data) < 12 or data[0] != 1 or data[2:4] != b"\x03\x3b":
            continue
        (count,) = coding.u32.unpack_from(data, 8)
        rows = data[12 : 12 + 8 * min(count, (len(data) - 12) // 8)]
        first = numbers(big_endian(rows, coding.order))[::2]
        return sorted({segment.vaddr + value - (value >> 31 << 32) & mask for value in first})
    return []
