# SPDX-License-Identifier: Apache-2.0
"""The files that glibc's LD_PROFILE writes, and its sprof was to read.

A gmon.out of another version, laid out for programs that map it and count in it all at once: one
histogram, then arcs in a table of fixed size of which the first are used. Their addresses are
counted from the page where the library's code begins, and the histogram's header has that page as
a link-time address. An arc's `from` is a return address, 0 for calls from outside the library; its
`to` is where the callee begins.
"""

from __future__ import annotations

from struct import Struct

from soscope.binfmt.gmon import (
    HEADER,
    Histogram,
    arc_record,
    histogram_header,
    is_gmon,
    read_histogram,
    version_of,
)
from soscope.binfmt.source import ByteSource, broken, take
from soscope.model.record import Record

VERSION = 0x1FFFF
OUTSIDE = 0  # the `from` of calls from outside

_HISTOGRAM, _ARCS = 0, 1
_BIN = 4  # bytes of code
_DENSITY = 3  # arcs for 100 bytes of code
_LEAST, _MOST = 50, 1 << 20  # arcs


class LdProfile(Record):
    """What a file says; all addresses are counted from `low`, a link-time address.

    `arcs` are (from, to, count) as they stand there, `high` is the end of the code. `lost` is how
    many more arcs profile no room: nobody has counted their calls.
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
    """Return whether a file begins as LD_PROFILE's do."""
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
    """Return how wide addresses are: the unit of time stands behind two of them."""
    for bits in (64, 32):
        head = histogram_header(bits, order)
        dimension = head.unpack(take(source, at, head.size, "histogram header"))[4]
        if dimension.rstrip(b"\0") == b"seconds":
            return bits
    raise broken(source, "dimen", at, "is not in seconds, as all of LD_PROFILE's")
