# SPDX-License-Identifier: Apache-2.0
"""Find out where a stripped image has its symbols.

The sources are .gnu_debuglink, .gnu_debugaltlink, .gnu_debugdata, and the build-id, which gives a
path. GDB manual, "Separate Debug Files" and "MiniDebugInfo"; dwz(1) for .gnu_debugaltlink.
"""

from __future__ import annotations

import os

from soscope.binfmt.elf import notes
from soscope.binfmt.elf.reader import ElfReader
from soscope.binfmt.elf.sections import Sections
from soscope.binfmt.source import BufferSource, ByteSource, broken

_MAX_LINK = 8192
_MAX_MINI = 1 << 27  # bytes of an unpacked .gnu_debugdata
_MAX_HELD = 1 << 28  # bytes of all unpacked ones held at a time, one for each image
_MAX_UNPACKER = 1 << 28  # bytes of working memory for the xz decoder
_MAX_NOTES = 1 << 20
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
