# SPDX-License-Identifier: Apache-2.0
"""Section headers of an ELF file, and the data that only sections lead to."""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from struct import Struct

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf import image as notes
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.reader import ElfReader, Encoding, Header
from soscope.binfmt.elf.slots import entries, tables
from soscope.binfmt.source import BufferSource, ByteSource, broken, take
from soscope.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from soscope.binfmt.search import Spans


# GNU properties: what an image says about control-flow enforcement.
#
# The x86-64 psABI, "Program Property", and the ELF ABI for the Arm 64-bit architecture, "Program
# Property"; the note is NT_GNU_PROPERTY_TYPE_0 in a PT_NOTE.

_NT_GNU_PROPERTY_TYPE_0 = 5
_MAX_NOTES = 1 << 20


def features(image: ElfReader) -> list[str]:
    """Return the names of its machine's hardening features that an image was built for.

    Properties that are cut off count as absent, because only a remark depends on them.
    """
    arch = image.header.arch if image.header is not None else None
    if arch is None:
        return []
    wanted, known = arch.features
    bits = _bits(image, wanted) if known else 0
    return [name for bit, name, _ in known if bits & bit]


def _bits(image: ElfReader, wanted: int) -> int:
    """Return the bits of a property, 0 if the image does not have it."""
    word = 8 if image.encoding.bits == 64 else 4
    for segment in image.segments:
        if segment.type != c.PT_NOTE or segment.filesz > _MAX_NOTES:
            continue
        data = image.source.read(image.locate(segment.vaddr), segment.filesz)
        align = 8 if segment.align == 8 else 4
        bits = _in_notes(data, image.encoding.u32, align, word, wanted)
        if bits:
            return bits
    return 0


def _in_notes(data: bytes, number: Struct, align: int, word: int, wanted: int) -> int:
    unpack = number.unpack_from
    at = 0
    while at + 12 <= len(data):
        (name_size,), (size,), (kind,) = (unpack(data, at + step) for step in (0, 4, 8))
        desc = at + 12 + name_size
        desc += -desc % align
        if kind == _NT_GNU_PROPERTY_TYPE_0 and data[at + 12 : at + 16] == b"GNU\0":
            end = min(desc + size, len(data))
            while desc + 8 <= end:
                (tag,), (length,) = unpack(data, desc), unpack(data, desc + 4)
                if tag == wanted and length == 4 and desc + 12 <= end:
                    return int(unpack(data, desc + 8)[0])
                desc += 8 + length + -length % word
        at = desc + size
        at += -at % align
    return 0


# Words to which the loader adds the load bias, and the link-time address in each of them.
#
# These are the words of relocations without a symbol (R_*_RELATIVE). The address is the entry's
# addend, or it is in the word already (REL; also DT_RELR, which has no entry for each word).


def relative_words(image: ElfImage) -> dict[int, int]:
    """Return vaddr -> link-time address of the words whose relocation has an addend.

    Raises FormatError if the relocations are cut.
    """
    arch = image.header.arch if image.header is not None else None
    kind = arch.relocations.relative if arch is not None else 0
    if arch is None or not kind or arch.has_split_info:
        return {}
    coding = image.encoding
    mask, all_bits = 0xFFFF_FFFF if coding.bits == 64 else 0xFF, (1 << coding.bits) - 1
    words = {}
    for table in tables(image):
        if not table[2]:
            continue
        data, _ = entries(image, table, (kind,))
        for vaddr, info, addend in coding.rela.iter_unpack(data):
            if info & mask == kind:
                words[vaddr] = addend & all_bits
    return words


# Sets of numbers, as ranges.


class Stretches:
    """A set of numbers, stored as ranges [start, end)."""

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, start: int, end: int) -> list[tuple[int, int]]:
        """Add a range; return the parts of it that were not in the set."""
        starts, ends = self._starts, self._ends
        low, high = bisect_left(ends, start), bisect_right(starts, end)
        fresh, at = [], start
        for index in range(low, high):
            if at < starts[index]:
                fresh.append((at, starts[index]))
            at = max(at, ends[index])
        if at < end:
            fresh.append((at, end))
        if low < high:
            start, end = min(start, starts[low]), max(end, ends[high - 1])
        starts[low:high], ends[low:high] = [start], [end]
        return fresh


# Section headers of a file, which lead to names that a loader does not need.
#
# No process depends on section headers, so strippers, packers and protectors remove them or fill
# them with garbage. A table that cannot be valid is treated as missing. A valid section that lies
# outside of its file raises FormatError when it is read.

_MAX_SECTIONS = 1 << 17
_MAX_NAMES = 1 << 26
_MAX_NAME = 1 << 16
_ZLIB = 1  # ELFCOMPRESS_ZLIB


class Section:
    """One section header; `vaddr` is a link-time address, `offset` an offset in the file."""

    __slots__ = (
        "_name",
        "_names",
        "entsize",
        "flags",
        "info",
        "link",
        "offset",
        "size",
        "type",
        "vaddr",
    )

    def __init__(self, names: bytes, fields: tuple[int, ...]) -> None:
        self._names = names
        self._name = fields[0]
        self.type, self.flags, self.vaddr, self.offset, self.size = fields[1:6]
        self.link, self.info = fields[6:8]
        self.entsize = fields[9]

    @property
    def name(self) -> str:
        """Its name, "" if the table of names has none for it."""
        return _text(self._names, self._name)


class Sections:
    """The sections of a file, by index; if there are none, `why` is the reason."""

    __slots__ = ("_loaded", "_owners", "_source", "all", "why")

    def __init__(self, source: ByteSource, sections: list[Section], why: str = "") -> None:
        self._source = source
        self.all = sections
        self.why = why
        self._loaded: list[Section] = []
        self._owners: Spans | None = None

    @classmethod
    def read(cls, image: ElfReader) -> Sections:
        """Read the section headers of an image in the layout of a file.

        An image in memory has none, because they are not mapped.
        """
        header, source = image.header, image.source
        if header is None or image.is_mapped:
            return cls(source, [], "section headers are not mapped")
        if not header.shoff:
            return cls(source, [], "no section headers")
        size = header.encoding.section.size
        if header.shentsize != size:
            return cls(source, [], f"section headers of {header.shentsize} bytes")
        first = source.read(header.shoff, size)
        if len(first) < size:
            return cls(source, [], "section headers outside of the file")
        return cls._read_table(source, header, header.encoding.section.unpack(first))

    @classmethod
    def _read_table(cls, source: ByteSource, header: Header, null: tuple[int, ...]) -> Sections:
        """Read all headers; `null` is header 0, which holds numbers too large for other fields."""
        layout = header.encoding.section
        count = header.shnum or null[5]
        names = null[6] if header.shstrndx == c.SHN_XINDEX else header.shstrndx
        if null[1] != c.SHT_NULL or not 0 < count <= _MAX_SECTIONS:
            return cls(source, [], "no section headers where the ELF header says")
        table = source.read(header.shoff, count * layout.size)
        if len(table) < count * layout.size:
            return cls(source, [], "section headers outside of the file")
        rows = list(layout.iter_unpack(table))
        strings = b""
        if names:
            if names >= count or rows[names][1] != c.SHT_STRTAB or rows[names][5] > _MAX_NAMES:
                return cls(source, [], "section headers without names")
            strings = source.read(rows[names][4], rows[names][5])
            if len(strings) < rows[names][5]:
                return cls(source, [], "names of sections outside of the file")
        return cls(source, [Section(strings, row) for row in rows])

    def named(self, name: str) -> Section | None:
        """Return the first section called `name` that has bytes in the file."""
        for section in self.all:
            if section.name == name and section.type not in (c.SHT_NOBITS, c.SHT_NULL):
                return section
        return None

    def of_type(self, kind: int) -> Section | None:
        """Return the first section of type `kind`."""
        return next((section for section in self.all if section.type == kind), None)

    def containing(self, vaddr: int) -> Section | None:
        """Return the first loaded section that contains `vaddr`, None if there is none."""
        if self._owners is None:
            from soscope.binfmt.search import (
                Spans,  # a trace reads sections, and asks for none here
            )

            self._loaded = [section for section in self.all if section.flags & c.SHF_ALLOC]
            self._owners = Spans(
                (section.vaddr, section.vaddr + section.size) for section in self._loaded
            )
        index = self._owners.at(vaddr)
        return None if index is None else self._loaded[index]

    def is_code(self, vaddr: int) -> bool:
        """Return whether the loaded section that contains `vaddr` holds instructions."""
        section = self.containing(vaddr)
        return section is not None and bool(section.flags & c.SHF_EXECINSTR)

    def data(self, section: Section, limit: int) -> bytes:
        """Return the bytes of a section; empty for SHT_NOBITS.

        Raises FormatError if there are more than `limit`, or if the file does not have all of
        them.
        """
        if section.type == c.SHT_NOBITS:
            return b""
        if section.size > limit:
            raise broken(
                self._source, section.name, section.offset, f"{section.size} bytes, over {limit}"
            )
        return take(self._source, section.offset, section.size, section.name)

    def unpacked(self, section: Section, coding: Encoding, limit: int) -> bytes | None:
        """Return the unpacked bytes of a section, None if this Python cannot unpack them.

        A packed section is an Elf_Chdr, then a zlib stream: gABI, "Section Compression". Old
        linkers made .zdebug_*: "ZLIB", the size, and the stream. Raises FormatError as `data` does.
        """
        data = self.data(section, limit)
        if section.flags & c.SHF_COMPRESSED:
            if data[:4] != coding.u32.pack(_ZLIB):
                return None
            head = 24 if coding.bits == 64 else 12
        elif section.name.startswith(".zdebug_"):
            if data[:4] != b"ZLIB":
                return None
            head = 12
        else:
            return data
        import zlib

        unpacker = zlib.decompressobj()
        try:
            unpacked = unpacker.decompress(data[head:], limit)
        except zlib.error:
            return None
        return unpacked if unpacker.eof else None

    def has_debug(self, *names: str) -> bool:
        """Return whether there are debug sections of these names, packed or not."""
        return all(self.named(name) or self.named(f".z{name[1:]}") for name in names)

    def unpacked_all(
        self, names: Iterable[str], coding: Encoding, limit: int
    ) -> dict[str, bytes] | None:
        """Return the unpacked bytes of debug sections by name; a missing section is empty.

        Return None if one cannot be unpacked, or if all together have more than `limit` bytes.
        Raises FormatError as `data` does.
        """
        contents: dict[str, bytes] = {}
        for name in names:
            section = self.named(name) or self.named(f".z{name[1:]}")
            content: bytes | None = b""
            if section is not None and section.size:
                content = self.unpacked(section, coding, limit) if limit > 0 else None
            if content is None:
                return None
            contents[name] = content
            limit -= len(content)
        return contents


def _text(strings: bytes, at: int) -> str:
    end = strings.find(b"\0", at, at + _MAX_NAME)
    return strings[at:end].decode("utf-8", "surrogateescape") if 0 <= at < end else ""


# The address ranges that DWARF describes, by .debug_aranges, which is cheap to read.
#
# DWARF 5, 6.1.2 "Lookup by Address". Compilers may leave this section out (clang does).

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


# Find out where a stripped image has its symbols.
#
# The sources are .gnu_debuglink, .gnu_debugaltlink, .gnu_debugdata, and the build-id, which gives a
# path. GDB manual, "Separate Debug Files" and "MiniDebugInfo"; dwz(1) for .gnu_debugaltlink.

_MAX_LINK = 8192
_MAX_MINI = 1 << 27  # bytes of an unpacked .gnu_debugdata
_MAX_HELD = 1 << 28  # bytes of all unpacked ones held at a time, one for each image
_MAX_UNPACKER = 1 << 28  # bytes of working memory for the xz decoder
_CRC_PIECE = 1 << 20


class UnpackedSource(BufferSource):
    """The unpacked .gnu_debugdata of image `name`; `held` counts the bytes of all such sources."""

    __slots__ = ("_size",)

    held = 0

    def __init__(self, data: bytes, name: str) -> None:
        super().__init__(data, f"{name} (.gnu_debugdata)")
        self._size = len(data)
        UnpackedSource.held += self._size

    def __del__(self) -> None:
        UnpackedSource.held -= self._size


def debuglink(image: ElfReader, sections: Sections) -> tuple[str, int] | None:
    """Return file name and CRC-32 in .gnu_debuglink, None if there is none.

    Raises FormatError if the section is cut.
    """
    section = sections.named(".gnu_debuglink")
    if section is None:
        return None
    data = sections.data(section, _MAX_LINK)
    end = data.find(b"\0")
    at = end + 1 + -(end + 1) % 4
    if end <= 0 or at + 4 > len(data):
        raise broken(image.source, ".gnu_debuglink", section.offset, "cut")
    return os.fsdecode(data[:end]), int(image.encoding.u32.unpack_from(data, at)[0])


def debugaltlink(image: ElfReader, sections: Sections) -> tuple[str, bytes] | None:
    """Return file name and build-id in .gnu_debugaltlink, None if there is none.

    Raises FormatError if the section is cut.
    """
    section = sections.named(".gnu_debugaltlink")
    if section is None:
        return None
    name, end, build_id = sections.data(section, _MAX_LINK).partition(b"\0")
    if not name or not end:
        raise broken(image.source, ".gnu_debugaltlink", section.offset, "cut")
    return os.fsdecode(name), build_id


def minidebug(image: ElfReader, sections: Sections) -> bytes | None:
    """Return the unpacked ELF file in .gnu_debugdata, None if there is none.

    Raises FormatError if it cannot be unpacked, ImportError if Python has no lzma.
    """
    section = sections.named(".gnu_debugdata")
    if section is None:
        return None
    packed = sections.data(section, _MAX_MINI)
    room = min(_MAX_MINI, _MAX_HELD - UnpackedSource.held)
    if room <= 0:
        why = f"not read: of other images {_MAX_HELD} bytes are unpacked"
        raise broken(image.source, ".gnu_debugdata", section.offset, why)
    import lzma

    unpacker = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_MAX_UNPACKER)
    try:
        data = unpacker.decompress(packed, max_length=room)
    except (lzma.LZMAError, EOFError) as error:
        raise broken(image.source, ".gnu_debugdata", section.offset, str(error)) from None
    if not unpacker.eof:
        why = "cut" if unpacker.needs_input else f"over {room} bytes unpacked"
        raise broken(image.source, ".gnu_debugdata", section.offset, why)
    return data


def build_id_path(build_id: bytes, ending: str = ".debug") -> str:
    """Return the path of the debug file with `build_id`, below a root folder."""
    text = build_id.hex()
    return f"/usr/lib/debug/.build-id/{text[:2]}/{text[2:]}{ending}"


def file_build_id(image: ElfReader, sections: Sections) -> bytes:
    """Return the build-id in a file's notes section, empty if there is none.

    A debug file keeps its notes, but its program headers may not lead to them.
    """
    section = sections.named(".note.gnu.build-id")
    if section is None:
        return b""
    data = sections.data(section, _MAX_NOTES)
    return notes.find_build_id(data, image.encoding, 4) or b""


def crc32(source: ByteSource) -> int:
    """Return the CRC-32 of a whole file, as .gnu_debuglink stores it."""
    import zlib

    value = at = 0
    while piece := source.read(at, _CRC_PIECE):
        value = zlib.crc32(piece, value)
        at += len(piece)
    return value


def debug_files(
    image: ElfReader | None,
    sections: Sections | None,
    build_id: bytes,
    path: str,
    roots: Iterable[str] = ("",),
    note: Callable[[str], None] | None = None,
) -> Iterator[tuple[str, int | None]]:
    """Yield the paths at which gdb looks for the debug file of the image at `path`, best first.

    Each comes with the CRC-32 that the file must have, or None if only its build-id counts. Below
    each of `roots`, files with the name of the build-id come first, then those that .gnu_debuglink
    names. `note` is called with what is wrong with a damaged link. See `another_build`.
    """
    if len(build_id) > 1:
        for root in roots:
            yield root + build_id_path(build_id), None
    link = None
    try:
        if image is not None and sections is not None:
            link = debuglink(image, sections)
    except (FormatError, OSError) as error:
        if note is not None:
            note(str(error))
    if link is None or "/" in link[0] or not path.startswith("/"):
        return
    name, crc = link
    folder = os.path.dirname(path).rstrip("/")
    for root in roots:
        for below in (folder, f"{folder}/.debug", f"/usr/lib/debug{folder}"):
            yield f"{root}{below}/{name}", crc


def another_build(debug: ElfImage, build_id: bytes, crc: int | None, path: str) -> str | None:
    """Return why a file of `debug_files` is of another build than its image, None if it is not.

    The image is at `path`, and its `build_id` is empty if it has none. Raises FormatError if
    `debug` is damaged.
    """
    own = file_build_id(debug, Sections.read(debug))
    if own != build_id and (crc is None or b"" not in (own, build_id)):
        return f"it is of build-id {own.hex() or '-'}"
    if crc is not None and crc32(debug.source) != crc:
        return f"not the checksum that {path} gives"
    return None


# Functions that were compiled with room for a call at their entry.
#
# -fpatchable-function-entry=N of gcc and clang puts N bytes of no-operations at each function's
# entry. It lists their addresses in the section `__patchable_function_entries`, one word each, 0
# for a function that the linker has removed. With N,M they begin M bytes before the function.

SECTION = "__patchable_function_entries"
_MAX_TABLE = 1 << 28  # bytes


def patchable_entries(image: ElfImage, sections: Sections) -> list[int]:
    """Return the link-time address of the first no-operation of each function, sorted.

    The list is empty without such a section, because only section headers lead to it. Raises
    FormatError if the section, or the relocations for it, are damaged.
    """
    # linkers may keep one section for each input file
    lists = [
        section
        for section in sections.all
        if section.name == SECTION and section.type != c.SHT_NOBITS
    ]
    if not lists:
        return []
    word = image.encoding.word
    moved = relative_words(image)
    entries = set()
    for section in lists:
        data = sections.data(section, _MAX_TABLE)
        data = data[: len(data) // word.size * word.size]
        for place, (value,) in enumerate(word.iter_unpack(data)):
            entries.add(moved.get(section.vaddr + place * word.size, value))
    return sorted(entries - {0})
