# SPDX-License-Identifier: Apache-2.0
"""Notes: only the GNU build-id is read."""

from __future__ import annotations

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.encoding import Encoding
from soscope.binfmt.elf.header import Segment
from soscope.binfmt.elf.reader import ElfReader
from soscope.binfmt.source import broken

_MAX_NOTES = 1 << 20


def build_id(image: ElfReader, segment: Segment) -> bytes:
    """Return the build-id in a PT_NOTE segment, empty if there is none.

    Raises FormatError if the notes are longer than their segment.
    """
    size = min(segment.filesz, _MAX_NOTES)
    data = image.read(segment.vaddr, size, "PT_NOTE")
    # Notes are 4-aligned, except .note.gnu.property of ELF64, whose segment has an alignment of 8.
    identity = find_build_id(data, image.encoding, 8 if segment.align == 8 else 4)
    if identity is None:
        raise broken(image.source, "PT_NOTE", image.locate(segment.vaddr), "cut note")
    return identity


def find_build_id(data: bytes, encoding: Encoding, align: int) -> bytes | None:
    """Return the build-id among notes; empty if there is none, None if a note is cut."""
    unpack = encoding.u32.unpack_from
    at = 0
    while at + 12 <= len(data):
        (name_size,), (desc_size,), (kind,) = (
            unpack(data, at),
            unpack(data, at + 4),
            unpack(data, at + 8),
        )
        desc = at + 12 + name_size
        desc += -desc % align
        if desc + desc_size > len(data):
            return None
        if kind == c.NT_GNU_BUILD_ID and data[at + 12 : at + 12 + name_size] == b"GNU\0":
            return data[desc : desc + desc_size]
        at = desc + desc_size
        at += -at % align
    return b""
