# SPDX-License-Identifier: Apache-2.0
"""The files that glibc writes with LD_PROFILE, and that its tool sprof reads.

Such a file is a gmon.out of another version. Its layout lets several programs map it and count in
it at the same time: one histogram, then arcs in a table of fixed size, of which the first ones
are in use. Addresses count from the page at which the library's code begins. The histogram's
header has the link-time address of that page. An arc's `from` is a return address, 0 for calls
from outside the library. Its `to` is the address of the callee.
"""

from __future__ import annotations

from struct import Struct

from soscope.binfmt.profiles import (
    HEADER,
    Histogram,
    arc_record,
    histogram_header,
    is_gmon,
    read_histogram,
    version_of,
)
from soscope.binfmt.source import ByteSource, broken, take
from soscope.model.image import Record

VERSION = 0x1FFFF
OUTSIDE = 0  # `from` of calls from outside the library

_HISTOGRAM, _ARCS = 0, 1
_BIN = 4  # bytes of code
_DENSITY = 3  # arcs for each 100 bytes of code
_LEAST, _MOST = 50, 1 << 20  # arcs, at least and at most


class LdProfile(Record):
    """The contents of a file; all addresses count from `low`, a link-time address.

    `arcs` are (from, to, count) as in the file. `high` is the end of the code. `lost` is the
    number of arcs that found no room in the table: their calls are not counted.
    """

    __slots__ = ("arcs", "bits", "histogram", "lost")

    def __init__(self, bits: int, histogram: Histogram, lost: int) -> None:
        self.bits = bits
        self.histogram = histogram
        self.lost = lost
        self.arcs: list[tuple[int, int, int]] = []

    @property
    def low(self) -> int:
        """The link-time address of the page where the library's code begins."""
        return self.histogram.low

    @property
    def high(self) -> int:
        """The link-time address behind the last page of its code."""
        return self.histogram.high


def is_ldprofile(source: ByteSource) -> bool:
    """Return whether a file begins as the files of LD_PROFILE do."""
    return is_gmon(source) and version_of(source)[0] == VERSION


def read_ldprofile(source: ByteSource) -> LdProfile:
    """Read such a file. Raises FormatError with field and offset."""
    version, order = version_of(source)
    if version != VERSION:
        raise broken(source, "version", 4, f"{version:#x} is not LD_PROFILE's")
    number = Struct(f"{order}I")
    _expect(source, number, HEADER, _HISTOGRAM)
    at = HEADER + number.size
    bits = _bits(source, at, order)
    histogram = read_histogram(source, at, bits, order)
    size = histogram.high - histogram.low
    if histogram.bins != size // _BIN:
        raise broken(
            source,
            "hist_size",
            at + 2 * bits // 8,
            f"{histogram.bins} bins, where {size} bytes of code have {size // _BIN}",
        )
    at = histogram.offset + 2 * histogram.bins
    _expect(source, number, at, _ARCS)
    at += number.size
    (used,) = number.unpack(take(source, at, number.size, "arcs"))
    at += number.size
    room = min(max(size * _DENSITY // 100, _LEAST), _MOST)
    profile = LdProfile(bits, histogram, max(used - room, 0))
    record = arc_record(bits, order)
    data = take(source, at, min(used, room) * record.size, "arcs")
    for from_pc, self_pc, count in record.iter_unpack(data):
        if max(from_pc, self_pc) >= size:
            field = "self_pc" if self_pc >= size else "from_pc"
            place = at + record.size * len(profile.arcs)
            raise broken(source, field, place, f"{max(from_pc, self_pc):#x} is behind the code")
        profile.arcs.append((from_pc, self_pc, count))
    return profile


def _expect(source: ByteSource, number: Struct, at: int, tag: int) -> None:
    (there,) = number.unpack(take(source, at, number.size, "tag"))
    if there != tag:
        raise broken(source, "tag", at, f"{there:#x}, where {tag} was expected")


def _bits(source: ByteSource, at: int, order: str) -> int:
    """Return the bits of an address: the name of the time unit stands behind two addresses."""
    for bits in (64, 32):
        head = histogram_header(bits, order)
        dimension = head.unpack(take(source, at, head.size, "histogram header"))[4]
        if dimension.rstrip(b"\0") == b"seconds":
            return bits
    raise broken(source, "dimen", at, "is not in seconds, as all of LD_PROFILE's")
