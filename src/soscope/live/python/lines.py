# SPDX-License-Identifier: Apache-2.0
"""Copies of code objects, as the agent makes them, and lines from line tables of CPython.

A line table has one of three formats: `co_lnotab` of 3.9, the line table of 3.10 (PEP 626), the
location table of 3.11 and newer (PEP 657; Objects/locations.md, InternalDocs/code_objects.md).
Offsets are in bytes.
"""

from __future__ import annotations

from bisect import bisect_right

from soscope.binfmt.source import ByteSource
from soscope.live.python.offsets import LINETABLE, LNOTAB, LOCATIONS, line_table_of
from soscope.wire import headers as layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

Line = tuple[int, int, int | None]  # first offset, offset behind the last, line

_NO_LINE = 0x80  # in 3.10: a delta of -128
_NOWHERE, _LONG, _NO_COLUMNS, _LAST_ONE_LINE, _FIRST_ONE_LINE = 15, 14, 13, 12, 10
_BEGINS = bytes(byte >> 7 for byte in range(256))
_MOST = 1 << 62  # lnotab does not have the end of the code


def line_of(linetable: bytes, firstlineno: int, lasti: int, version: tuple[int, int]) -> int | None:
    """Return the line of the instruction at byte `lasti`, None if the table has none.

    `linetable` is `co_linetable`, or `co_lnotab` of 3.9. An offset below 0 belongs to a frame
    that has not begun, whose line is `firstlineno`. Lines behind the end of a table that is cut
    are not known.

    >>> from soscope.live.python.lines import line_of
    >>> line_of(bytes([2, 1, 4, 3]), 10, 4, (3, 9))
    11
    """
    if lasti < 0:
        return firstlineno
    for start, end, line in line_ranges(linetable, firstlineno, version):
        if start <= lasti < end:
            return line
    return None


class LineTable:
    """The lines of one code object, for many instructions; see `line_of`.

    >>> from soscope.live.python.lines import LineTable
    >>> LineTable(bytes([2, 1, 4, 3]), 10, (3, 9)).line(4)
    11
    """

    __slots__ = ("_ends", "_first", "_lines", "_more")

    def __init__(self, linetable: bytes, firstlineno: int, version: tuple[int, int]) -> None:
        self._first = firstlineno
        self._ends: list[int] = []
        self._lines: list[int | None] = []
        self._more = line_ranges(linetable, firstlineno, version)  # decoded on request

    def line(self, lasti: int) -> int | None:
        """Return the line of the instruction at byte `lasti`, None if the table has none."""
        if lasti < 0:
            return self._first
        ends = self._ends
        if not ends or ends[-1] <= lasti:
            for _, end, line in self._more:
                ends.append(end)
                self._lines.append(line)
                if end > lasti:
                    return line
            return None
        return self._lines[bisect_right(ends, lasti)]


def line_ranges(linetable: bytes, firstlineno: int, version: tuple[int, int]) -> Iterator[Line]:
    """Yield (first offset, offset behind the last, line or None), by rising offset.

    >>> from soscope.live.python.lines import line_ranges
    >>> list(line_ranges(bytes([4, 0, 2, 0x80]), 7, (3, 10)))
    [(0, 4, 7), (4, 6, None)]
    """
    read = {LNOTAB: _of_lnotab, LINETABLE: _of_linetable, LOCATIONS: _of_locations}
    return read[line_table_of(version)](linetable, firstlineno)


def _of_lnotab(table: bytes, line: int) -> Iterator[Line]:
    """Decode pairs of bytes: the length of a line, and the signed step to the next line."""
    start = addr = 0
    for at in range(0, len(table) - 1, 2):
        addr += table[at]
        if addr > start:
            yield start, addr, line
            start = addr
        line += _signed(table[at + 1])
    yield start, _MOST, line


def _of_linetable(table: bytes, line: int) -> Iterator[Line]:
    """Decode pairs of bytes: the length of a range, and the step from the last line to its own."""
    start = 0
    for at in range(0, len(table) - 1, 2):
        length, delta = table[at], table[at + 1]
        if delta != _NO_LINE:
            line += _signed(delta)
        if length:
            yield start, start + length, None if delta == _NO_LINE else line
            start += length


def _of_locations(table: bytes, line: int) -> Iterator[Line]:
    """Decode entries whose first byte is above 127: a kind, and the number of code units."""
    start = 0
    begins = table.translate(_BEGINS)
    at = begins.find(1)
    while at >= 0:
        here, at = at, begins.find(1, at + 1)
        kind, units = table[here] >> 3 & 15, (table[here] & 7) + 1
        if kind in (_LONG, _NO_COLUMNS):
            value = table[here + 1] if here + 1 < len(table) else 0
            if value >= 64:
                line += _svarint(table[here + 1 : at if at >= 0 else None])
            else:  # nearly always
                line += -(value >> 1) if value & 1 else value >> 1
        elif _FIRST_ONE_LINE <= kind <= _LAST_ONE_LINE:
            line += kind - _FIRST_ONE_LINE
        end = start + 2 * units
        yield start, end, None if kind == _NOWHERE else line
        start = end  # the rest of the entry are columns


def _svarint(entry: bytes) -> int:
    """Read a number: six bits a byte, lowest first; bit 6 goes on, the lowest bit is the sign."""
    value = shift = 0
    for byte in entry[:10]:
        value |= (byte & 63) << shift
        shift += 6
        if not byte & 64:
            break
    return -(value >> 1) if value & 1 else value >> 1


def _signed(byte: int) -> int:
    return byte - 256 if byte > 127 else byte


# The agent's copy of a code object of Python or Ruby.

_ENCODINGS = {0: "utf-8", 1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}


class OriginCode:
    """Data of a code object. `lines` is its line table, in the interpreter's own format."""

    __slots__ = ("file", "first_line", "lines", "name")

    def __init__(self, memory: ByteSource, addr: int) -> None:
        """Read the copy at `addr`.

        Raises ValueError if it cannot be read, or is larger than any copy that the agent makes.
        """
        head = layout.CODE
        data = memory.read(addr, head.size)
        if len(data) < head.size:
            raise ValueError("a copy of a code object cannot be read")
        first, file_size, file_width, name_size, name_width, lines_size = head.struct.unpack(data)
        if max(file_size, name_size) > layout.CODE_TEXT or lines_size > layout.CODE_LINES:
            raise ValueError("a copy of a code object is damaged")
        rest = memory.read(addr + head.size, file_size + name_size + lines_size)
        self.first_line: int = first
        self.file = _text(rest[:file_size], file_width)
        self.name = _text(rest[file_size : file_size + name_size], name_width)
        self.lines = rest[file_size + name_size :]


def _text(data: bytes, width: int) -> str:
    return data.decode(_ENCODINGS.get(width, "latin-1"), "replace")
