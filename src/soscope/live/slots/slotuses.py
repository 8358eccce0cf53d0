# SPDX-License-Identifier: Apache-2.0
"""The code that goes through a slot: stubs, calls, jumps, and loads.

The module `uses` of the instruction set (binfmt/isa) recognises such code.
"""

from __future__ import annotations

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.sections import Sections
from soscope.binfmt.isa import part
from soscope.live.images.loadedimage import LoadedImage

_PIECE = 1 << 24
_CODE = 16


class Use:
    """One piece of code that goes through a slot.

    `addr` is the run-time address of its first instruction, or of the stub. `displacement` is the
    address of the 32-bit number that addresses the slot. `section` is the section's name in the
    file, "" if it is not known. `code` are the current bytes from `addr` on. `text` is the first
    relevant instruction of them, in AT&T syntax; instructions that are neither in stubs nor calls
    are shown as bytes.
    """

    __slots__ = ("addr", "code", "displacement", "kind", "section", "text")

    def __init__(
        self, kind: str, addr: int, displacement: int, section: str, code: bytes, text: str
    ) -> None:
        self.kind = kind
        self.addr = addr
        self.displacement = displacement
        self.section = section
        self.code = code
        self.text = text


def can_search(image: LoadedImage) -> bool:
    """Return whether `uses_of` can read the code of an image."""
    return part(image.arch, "uses") is not None


def uses_of(image: LoadedImage, slot: int) -> list[Use]:
    """Return the code that goes through the slot at run-time address `slot`, by rising address.

    The code is read from the file, if there is one, because the memory may have been changed. For
    machines that cannot be searched (`can_search`), the list is empty. Raises FormatError.
    """
    known = part(image.arch, "uses")
    if known is None:
        return []
    file, bias = image.file, image.load_bias
    sections = None if file is None else Sections.read(file.elf)
    base = known.base_of(image.arch, image.elf if file is None else file.elf, sections)
    if base:
        base += bias

    def read(segment_at: int, at: int, size: int) -> bytes:
        if file is not None:
            return file.source.read(file.elf.locate(segment_at + at), size)
        return image.space.read(segment_at + bias + at, size)

    uses = []
    for segment in image.segments:
        if segment.type != c.PT_LOAD or not segment.flags & c.PF_X:
            continue
        for at in range(0, segment.filesz, _PIECE):
            data = read(segment.vaddr, at, min(_PIECE + 8, segment.filesz - at))
            addr = segment.vaddr + bias + at

            def named(place: int, vaddr: int = segment.vaddr + at) -> str:
                section = None if sections is None else sections.containing(vaddr + place)
                return "" if section is None else section.name

            for kind, start, place, name in known.places(
                data, addr, slot, named, base, is_where_linked=not bias
            ):
                if place < _PIECE:  # the rest overlaps with the next piece
                    now = image.space.read(addr + start, _CODE)
                    text = known.instruction(now, addr + start, base)
                    uses.append(Use(kind, addr + start, addr + place, name, now, text))
    return uses
