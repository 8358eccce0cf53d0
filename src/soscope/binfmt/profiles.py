# SPDX-License-Identifier: Apache-2.0
"""Read other tools' profiles: `gmon.out` of mcount, and files of glibc's LD_PROFILE."""

from __future__ import annotations

from struct import Struct

from soscope.binfmt.source import AheadSource, ByteSource, broken, take
from soscope.errors import FormatError
from soscope.model.record import Record, fresh

# Profiles of mcount and gprof: `gmon.out` files, 32 or 64 bits, in both byte orders.
#
# A file is a header and records, each with a tag in front. A record is a histogram of program
# counters, an arc (how often code at one address called another) or the counts of basic blocks. The
# file does not tell the size of its addresses: see `read_gmon`.
#
# <https://sourceware.org/binutils/docs/gprof/File-Format.html>

MAGIC = b"gmon"
VERSION = 1  # version of a program's file; LD_PROFILE's has another layout
HEADER = 20  # bytes
DIMENSION = 15  # bytes

_HISTOGRAM, _ARC, _BLOCKS = 0, 1, 2
_PIECE = 1 << 16  # bins in one read


class Histogram(Record):
    """How often the program counter was in each of `bins` equal parts of [low, high).

    `ticks` has the bins with a count. `rate` ticks are one unit of `dimension`, mostly "seconds",
    whose one-letter form is `abbreviation`, mostly "s". `offset` is the position of the bins in
    the file.
    """

    low: int
    high: int
    bins: int
    rate: int
    dimension: str
    abbreviation: str
    offset: int
    ticks: dict[int, int] = fresh(dict)

    def bin(self, number: int) -> tuple[int, int]:
        """Return the addresses (start, end) of a bin."""
        size = self.high - self.low
        start, end = number * size // self.bins, (number + 1) * size // self.bins
        return self.low + start, self.low + end


class GmonFile(Record):
    """The contents of a file; `arcs` sums calls by (from, to), `blocks` is the number of counts.

    A `from` is a return address, which mcount has mostly rounded down. A `to` lies in the callee.
    """

    bits: int
    order: str
    histograms: list[Histogram] = fresh(list)
    arcs: dict[tuple[int, int], int] = fresh(dict)
    blocks: int = 0


def is_gmon(source: ByteSource) -> bool:
    """Return whether a file begins with the magic number of gmon.out, or of LD_PROFILE's file."""
    return source.read(0, len(MAGIC)) == MAGIC


def version_of(source: ByteSource) -> tuple[int, str]:
    """Return the version in the header, and the byte order in which it is a small number.

    Raises FormatError if the file has no such header.
    """
    if not is_gmon(source):
        raise broken(source, "magic", 0, "not a file of gprof's or LD_PROFILE's")
    header = take(source, 0, HEADER, "header")
    little, big = (int.from_bytes(header[4:8], order) for order in ("little", "big"))
    return (little, "<") if little <= big else (big, ">")


def read_gmon(source: ByteSource, bits: int | None = None) -> GmonFile:
    """Read a gmon.out with addresses of `bits` bits.

    If `bits` is None, try 64, then 32. Raises FormatError with field and offset.
    """
    version, order = version_of(source)
    if version != VERSION:
        raise broken(source, "version", len(MAGIC), f"{version:#x} is not known")
    if bits is not None:
        return _read(source, bits, order)
    try:
        return _read(source, 64, order)
    except FormatError:
        try:
            return _read(source, 32, order)
        except FormatError:
            pass  # below, the error of the 64-bit attempt is raised
        raise


def read_histogram(source: ByteSource, at: int, bits: int, order: str) -> Histogram:
    """Read a histogram with its header at `at`, followed by its bins of 16 bits each."""
    head = histogram_header(bits, order)
    low, high, bins, rate, dimension, letter = head.unpack(
        take(source, at, head.size, "histogram header")
    )
    words = 2 * bits // 8
    name = dimension.rstrip(b"\0")
    if not all(0x20 <= byte < 0x7F for byte in name + letter):
        raise broken(source, "dimen", at + words + 8, "is no text")
    if high < low or (bins and high == low):
        raise broken(source, "high_pc", at + words // 2, f"{high:#x} is not above {low:#x}")
    histogram = Histogram(
        low, high, bins, rate, name.decode("ascii"), letter.decode("ascii"), at + head.size
    )
    end = histogram.offset + 2 * bins
    if bins and not source.read(end - 1, 1):
        raise broken(source, "hist_size", at + words, f"{bins} bins are more than there are")
    for first in range(0, bins, _PIECE):
        count = min(_PIECE, bins - first)
        data = take(source, histogram.offset + 2 * first, 2 * count, "histogram")
        if data.count(0) == len(data):
            continue  # nearly all bins are zero
        for number, value in enumerate(Struct(f"{order}{count}H").unpack(data), first):
            if value:
                histogram.ticks[number] = value
    return histogram


def histogram_header(bits: int, order: str) -> Struct:
    """Return the layout of low_pc, high_pc, hist_size, prof_rate, dimen, dimen_abbrev."""
    return Struct(f"{order}2{_word(bits)}2I{DIMENSION}sc")


def arc_record(bits: int, order: str) -> Struct:
    """Return the layout of from_pc, self_pc, count."""
    return Struct(f"{order}2{_word(bits)}I")


def _word(bits: int) -> str:
    return "Q" if bits == 64 else "I"


def _read(source: ByteSource, bits: int, order: str) -> GmonFile:
    gmon = GmonFile(bits, order)
    ahead = AheadSource(source)
    arc, blocks = arc_record(bits, order), Struct(f"{order}I")
    head = histogram_header(bits, order)
    at = HEADER
    while tag := ahead.read(at, 1):
        start = at + 1
        if tag[0] == _ARC:
            from_pc, self_pc, count = arc.unpack(take(ahead, start, arc.size, "arc"))
            key = from_pc, self_pc
            gmon.arcs[key] = gmon.arcs.get(key, 0) + count
            at = start + arc.size
        elif tag[0] == _HISTOGRAM:
            histogram = read_histogram(source, start, bits, order)
            gmon.histograms.append(histogram)
            at = start + head.size + 2 * histogram.bins
        elif tag[0] == _BLOCKS:
            (count,) = blocks.unpack(take(ahead, start, blocks.size, "blocks"))
            at = start + blocks.size + 2 * (bits // 8) * count
            if count and not source.read(at - 1, 1):
                raise broken(source, "blocks", start, f"{count} are more than there are")
            gmon.blocks += count
        else:
            raise broken(source, "tag", at, f"{tag[0]} is not known")
    return gmon


# The files that glibc writes with LD_PROFILE, and that its tool sprof reads.
#
# Such a file is a gmon.out of another version. Its layout lets several programs map it and count in
# it at the same time: one histogram, then arcs in a table of fixed size, of which the first ones
# are in use. Addresses count from the page at which the library's code begins. The histogram's
# header has the link-time address of that page. An arc's `from` is a return address, 0 for calls
# from outside the library. Its `to` is the address of the callee.

LD_PROFILE_VERSION = 0x1FFFF
OUTSIDE = 0  # `from` of calls from outside the library

_LD_PROFILE_HISTOGRAM, _ARCS = 0, 1
_BIN = 4  # bytes of code
_DENSITY = 3  # arcs for each 100 bytes of code
_LEAST, _MOST = 50, 1 << 20  # arcs, at least and at most


class LdProfile(Record):
    """The contents of a file; all addresses count from `low`, a link-time address.

    `arcs` are (from, to, count) as in the file. `high` is the end of the code. `lost` is the
    number of arcs that found no room in the table: their calls are not counted.
    """

    bits: int
    histogram: Histogram
    lost: int
    arcs: list[tuple[int, int, int]] = fresh(list)

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
    return is_gmon(source) and version_of(source)[0] == LD_PROFILE_VERSION


def read_ldprofile(source: ByteSource) -> LdProfile:
    """Read such a file. Raises FormatError with field and offset."""
    version, order = version_of(source)
    if version != LD_PROFILE_VERSION:
        raise broken(source, "version", 4, f"{version:#x} is not LD_PROFILE's")
    number = Struct(f"{order}I")
    _expect(source, number, HEADER, _LD_PROFILE_HISTOGRAM)
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
