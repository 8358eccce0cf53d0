# SPDX-License-Identifier: Apache-2.0
"""Finds the debug information of a file: in the file, or in its separate debug file.

See the GDB manual, "Separate Debug Files".
"""

from __future__ import annotations

import os

from soscope.binfmt.elf import sections as debuglink
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.sections import Sections
from soscope.binfmt.source import FileSource
from soscope.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from soscope.binfmt.dwarf.entries import Entries

_SECTIONS = (
    ".debug_info",
    ".debug_abbrev",
    ".debug_str",
    ".debug_line_str",
    ".debug_str_offsets",
    ".debug_line",
)
_MOST = 1 << 28  # bytes that are read of all debug sections, at most


def may_have_entries(image: ElfImage, path: str) -> bool:
    """Return whether `entries_of` can find anything for an open image; mostly it cannot."""
    sections = Sections.read(image)
    return sections.named(".debug_info") is not None or any(
        os.path.exists(candidate) for candidate, _ in _candidates(image, sections, path)
    )


def entries_of(image: ElfImage, path: str) -> tuple[Entries, str] | None:
    """Return the DWARF entries of an open image, and the path of the file that has them.

    Return None if there are none, if they cannot be read, or if they are too large to be read at
    a program's start.
    """
    sections = Sections.read(image)
    entries = _entries(image, sections)
    if entries is not None:
        return entries, path
    for candidate, crc in _candidates(image, sections, path):
        try:
            descriptor = os.open(candidate, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            continue  # most files have no separate debug file
        try:
            debug = ElfImage.from_source(FileSource(descriptor, candidate))
            separate = Sections.read(debug)
            if _belongs(image, debug, separate, crc):
                entries = _entries(debug, separate)
        except (FormatError, OSError):
            continue  # a damaged debug file describes nothing
        finally:
            os.close(descriptor)
        if entries is not None:
            return entries, candidate
    return None


def _entries(image: ElfImage, sections: Sections) -> Entries | None:
    info = sections.named(".debug_info")
    if info is None or image.header is None or info.size > _MOST:
        return None
    from soscope.binfmt.dwarf.entries import Entries

    contents: list[bytes] = []
    room = _MOST
    try:
        for name in _SECTIONS:
            section = sections.named(name)
            content: bytes | None = b""
            if section is not None and section.size:
                content = sections.unpacked(section, image.header.encoding, room) if room else None
            if content is None:
                return None  # too large, or compressed in an unknown way
            contents.append(content)
            room -= len(content)
    except (FormatError, OSError):
        return None  # damaged debug information describes nothing
    return Entries(*contents)


def _candidates(image: ElfImage, sections: Sections, path: str) -> Iterator[tuple[str, int | None]]:
    """Yield paths, each with the CRC-32 that the file must have, or None to compare build-ids."""
    if len(image.build_id) > 1:
        yield debuglink.build_id_path(image.build_id), None
    try:
        link = debuglink.debuglink(image, sections)
    except (FormatError, OSError):
        return  # a damaged link leads nowhere
    if link is None or "/" in link[0]:
        return
    name, crc = link
    folder = os.path.dirname(os.path.abspath(path)).rstrip("/")
    for below in (folder, f"{folder}/.debug", f"/usr/lib/debug{folder}"):
        yield f"{below}/{name}", crc


def _belongs(image: ElfImage, debug: ElfImage, sections: Sections, crc: int | None) -> bool:
    build_id = debuglink.file_build_id(debug, sections)
    if build_id != image.build_id and (crc is None or (build_id and image.build_id)):
        return False
    return crc is None or debuglink.crc32(debug.source) == crc
