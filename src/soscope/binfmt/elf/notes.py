# SPDX-License-Identifier: Apache-2.0
"""Notes: the GNU build-id is all that is wanted."""

from __future__ import annotations

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.header import Segment
from soscope.binfmt.elf.reader import ElfReader

_MAX_NOTES = 1 << 20


def build_id(image: ElfReader, segment: Segment) -> bytes:
    """Return the build-id in a PT_NOTE segment, empty where there is none in it.

    Raises FormatError where the notes are longer than their segment.
    """
    size = min(segment.filesz, _MAX_NOTES)
    data = image.read(segment.vaddr, size, "PT_NOTE")
    unpack = image.encoding.u32.unpack_from
    # Notes are 4-aligned, but for .note.gnu.property of ELF64, whose segment says 8.
    align = 8 if segment.align == 8 else 4
    at = 0
    while at + 12 <= size:
        (name_size,), (desc_size,), (kind,) = (
            unpack(data, at),
            unpack(data, at + 4),
            unpack(data, at + 8),
        )
        desc = at + 12 + name_size
        desc += -desc % align
        if desc + desc_size > size:
            from soscope.binfmt.elf.encoding import broken

            raise broken(image.source, "PT_NOTE", image.locate(segment.vaddr) + at, "cut note")
        if kind == c.NT_GNU_BUILD_ID and data[at + 12 : at + 12 + name_size] == b"GNU\0":
            return data[desc : desc + desc_size]
        at = desc + desc_size
        at += -at % align
    return b""
