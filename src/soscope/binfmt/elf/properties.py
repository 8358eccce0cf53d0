# SPDX-License-Identifier: Apache-2.0
"""GNU properties: what an image says about control-flow enforcement.

The x86-64 psABI, "Program Property", and the ELF ABI for the Arm 64-bit architecture, "Program
Property"; the note is NT_GNU_PROPERTY_TYPE_0 in a PT_NOTE.
"""

from __future__ import annotations

from struct import Struct

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.reader import ElfReader

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
