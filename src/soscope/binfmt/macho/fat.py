# SPDX-License-Identifier: Apache-2.0
"""Find the Mach-O images in a file: alone, as slices, as members of an archive, or hidden.

A fat file's table is big-endian whatever its slices are. Java's class files begin with the same
word, so a table only counts if its first slices are images themselves.
"""

from __future__ import annotations

from struct import unpack_from
from typing import NamedTuple

from soscope.binfmt.macho import image as c
from soscope.binfmt.macho.image import DECODING, MachoHeader, read_header
from soscope.binfmt.source import ByteSource, broken, length
from soscope.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

ARCHIVE = b"!<arch>\n"
_MOST_SLICES = 64  # no file has more slices: there are fewer architectures
_MOST_DAMAGED = 64  # damaged slices reported one by one
_CHUNK = 1 << 20
_MOST_EMBEDDED = 4096
_OBJECT = 1  # filetype of files whose only segment begins behind the load commands

_THIN_MAGICS = (
    b"\xfe\xed\xfa\xce",
    b"\xce\xfa\xed\xfe",
    b"\xfe\xed\xfa\xcf",
    b"\xcf\xfa\xed\xfe",
)
_FAT_MAGICS = (b"\xca\xfe\xba\xbe", b"\xca\xfe\xba\xbf")


class Slice(NamedTuple):
    """One image in a file: `size` bytes from `offset` on.

    `arch` is Apple's name of its architecture, by its own header. `member` is its name in an
    archive, "" outside of archives. `is_hidden` is true if it lies within a file of another kind.
    """

    offset: int
    size: int
    arch: str
    member: str = ""
    is_hidden: bool = False


def is_macho(source: ByteSource) -> bool:
    """Return whether the file begins as a thin or fat Mach-O file does."""
    magic = source.read(0, 4)
    return magic in _THIN_MAGICS or (magic in _FAT_MAGICS and bool(_Finder(source).fat(0)))


class FatImages(NamedTuple):
    """The images of a file in order, and messages about damaged ones."""

    slices: list[Slice]
    damaged: list[str]


def images(source: ByteSource) -> FatImages:
    """Find the images of a thin or fat file, or of an archive.

    A slice that is an archive is replaced by its members. Members that are not images are left
    out. A slice is damaged if it is no image, or if it overlaps another slice or the end of the
    file. Raises FormatError if the file is of none of these kinds.
    """
    magic = source.read(0, 8)
    if magic[:4] in _THIN_MAGICS:
        return FatImages([Slice(0, length(source), read_header(source).arch)], [])
    if magic == ARCHIVE:
        finder = _Finder(source)
        return FatImages(list(finder.members(0, finder.end)), finder.damaged)
    if magic[:4] in _FAT_MAGICS:
        finder = _Finder(source)
        slices = finder.fat(0)
        if slices:
            return FatImages(slices, finder.damaged)
        raise broken(source, "fat_header", 0, "no slice is a Mach-O image")
    raise broken(source, "magic", 0, "not a Mach-O file")


def slices(source: ByteSource) -> list[Slice]:
    """Return only the images of `images`, without the messages.

    Raises FormatError as `images` does.
    """
    return images(source).slices


class _Finder:
    """Looks for images in the tables of fat files and in archives of one file.

    `left` limits the bytes that may be read, because in a hostile file images overlap.
    """

    def __init__(self, source: ByteSource) -> None:
        self.source = source
        self.end = length(source)
        self.left = 4 * self.end + (1 << 16)
        self.damaged: list[str] = []

    def fat(self, at: int) -> list[Slice]:
        """Return the slices of the fat file that begins at `at`, [] if there is none."""
        source = self.source
        start = source.read(at, 8)
        if len(start) < 8 or start[:4] not in _FAT_MAGICS:
            return []
        count = int.from_bytes(start[4:], "big")
        if not 0 < count <= _MOST_SLICES:
            return []
        wide = start[:4] == _FAT_MAGICS[1]
        step = 32 if wide else 20
        rows = source.read(at + 8, count * step)
        self.left -= 60 * count
        slices: list[Slice] = []
        known = len(self.damaged)
        taken: list[tuple[int, int]] = []
        for row in range(0, count * step, step):
            where = at + 8 + row
            if row + step > len(rows):
                self._damage("fat_arch", where, f"the table has {count} rows, the file ends")
                break
            cpu, subtype, offset, size = unpack_from(">IIQQ" if wide else ">IIII", rows, row)
            arch = c.arch_name(cpu, subtype) or f"cputype {cpu:#x}"
            offset += at
            there = max(0, min(size, self.end - offset))
            before = len(slices), len(self.damaged)
            if there < size:
                self._damage(
                    "fat_arch", where, f"{size} bytes for {arch}, the file has {there} of them"
                )
            if any(offset < end and begin < offset + there for begin, end in taken):
                self._damage("fat_arch", where, f"what is for {arch} lies upon another slice")
                continue
            taken.append((offset, offset + there))
            if source.read(offset, 8) == ARCHIVE:
                slices.extend(self.members(offset, there))
            elif there:
                slices.extend(self._image(offset, there))
            if (len(slices), len(self.damaged)) == before:
                self._damage("fat_arch", where, f"what is for {arch} is no Mach-O image")
        if not slices:  # no fat file, as its rows make no sense
            del self.damaged[known:]
        return slices

    def _damage(self, field: str, offset: int, why: str) -> None:
        if len(self.damaged) < _MOST_DAMAGED:
            self.damaged.append(broken(self.source, field, offset, why).message)

    def _image(self, at: int, size: int, member: str = "") -> list[Slice]:
        """Return the image at `at`, [] if there is none."""
        header = _header(self.source, at, size)
        if header is not None:
            return [Slice(at, size, header.arch, member)]
        if self.source.read(at, 4) in _THIN_MAGICS:
            self._damage("mach_header", at, "not the header of an image")
        return []

    def members(self, start: int, size: int) -> Iterator[Slice]:
        """Yield the members of the archive at `start` that are images."""
        source = self.source
        at = start + 8
        end = start + size
        while at < end and self.left >= 0:
            self.left -= 60
            row = source.read(at, min(60, end - at))
            body = at + 60
            if len(row) < 60 and not row.strip(b"\n\0"):
                return
            try:
                if row[58:] != b"`\n":
                    raise ValueError
                wide = int(row[48:58])
                name, extra = row[:16].rstrip(), 0
                if name.startswith(b"#1/"):  # BSD: the name comes first, padded with zeros
                    extra = int(name[3:])
                    name = source.read(body, max(0, min(extra, 4096))).rstrip(b"\0")
                if not 0 <= extra <= wide:
                    raise ValueError
            except ValueError:
                self._damage("ar_hdr", at, "not the header of a member")
                return
            begin = body + extra
            if body + wide > end:
                self._damage("ar_size", at + 48, f"{wide} bytes, the archive has {end - body}")
            text = name.rstrip(b"/").decode(*DECODING)
            yield from self._image(begin, min(body + wide, end) - begin, text)
            at = body + wide + wide % 2


def _header(source: ByteSource, at: int, size: int) -> MachoHeader | None:
    """Return the header of the image at `at`, None if the bytes there cannot be one."""
    try:
        header = read_header(source, at)
    except FormatError:
        return None
    if (
        not header.arch
        or header.filetype not in c.FILE_KINDS
        or header.sizeofcmds > size
        or header.ncmds * 8 > header.sizeofcmds
    ):
        return None
    return header


# ---- images hidden in files of other kinds ----


def hidden(source: ByteSource) -> FatImages:
    """Find images anywhere in a file by their magic, and check each candidate.

    Fat files inside are replaced by their slices. Images within images are found, too. The file
    is read once, a megabyte at a time.
    """
    finder = _Finder(source)
    end = finder.end
    slices: dict[int, Slice] = {}
    for start in range(0, end, _CHUNK):
        for at, magic in _candidates(source.read(start, _CHUNK + 3), start):
            if magic in _FAT_MAGICS:
                inner = finder.fat(at)
            else:
                header = _header(source, at, end - at)
                # Load commands of false candidates may overlap.
                finder.left -= header.sizeofcmds if header is not None else 0
                inner = _thin(source, header, end - at) if header is not None else []
            for member in inner:
                slices.setdefault(member.offset, member._replace(is_hidden=True))
            if finder.left < 0 or len(slices) >= _MOST_EMBEDDED:
                why = f"{source.name}: images are not looked for behind {at:#x}: too many"
                return FatImages(list(slices.values()), [*finder.damaged, why])
    return FatImages(list(slices.values()), finder.damaged)


def embedded(source: ByteSource) -> list[Slice]:
    """Return only the images of `hidden`, without the messages."""
    return hidden(source).slices


def _candidates(data: bytes, start: int) -> list[tuple[int, bytes]]:
    """Return the positions of magics in `data`, which lies at `start`, in order."""
    places: set[tuple[int, bytes]] = set()
    for magic in (*_THIN_MAGICS, *_FAT_MAGICS):
        at = data.find(magic)
        while at >= 0:
            places.add((start + at, magic))
            at = data.find(magic, at + 1)
    return sorted(places)


def _thin(source: ByteSource, header: MachoHeader, room: int) -> list[Slice]:
    """Return the image with this header, [] if its load commands are invalid.

    The image ends at the end of its last segment. Images in a shared cache or a kernel collection
    count their offsets from the start of that file, not from their header. So they are not images
    by themselves.
    """
    at = header.start
    coding = header.encoding
    data = source.read(at + coding.header.size, header.sizeofcmds)
    position = 0
    extent = coding.header.size + header.sizeofcmds
    is_whole = header.filetype == _OBJECT
    for _ in range(header.ncmds):
        if position + 8 > len(data):
            return []
        command, size = unpack_from(coding.order + "II", data, position)
        if size < 8 or size % 4 or position + size > len(data):
            return []
        if command in (c.LC_SEGMENT, c.LC_SEGMENT_64) and size >= coding.segment.size:
            _, _, _, offset, filesize, *_ = coding.segment.unpack_from(data, position)
            if offset + filesize > room:
                return []
            extent = max(extent, offset + filesize)
            is_whole |= offset == 0
        position += size
    return [Slice(at, extent, header.arch)] if is_whole else []
