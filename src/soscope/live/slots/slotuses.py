# SPDX-License-Identifier: Apache-2.0
"""The code that goes through a slot: stubs, calls, jumps, and what only loads it.

The instruction set's own file says what that looks like (`uses` of binfmt/isa).
"""

from __future__ import annotations

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.sections import Sections
from soscope.binfmt.isa import part
from soscope.live.images.loadedimage import LoadedImage

_PIECE = 1 << 24
_CODE = 16


class Use:
    """One place that goes through a slot.

    `addr` is the run-time address of its first instruction (of a stub: of the stub),
    `displacement` that of the 32-bit number that names the slot, `section` the name of the
    section in the file, "" where that is not known. `code` are the bytes that are there now, from
    `addr` on, and `text` the first instruction of them that matters, in AT&T's words; what is not
    a stub's or a call's is shown as bytes.
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
    """Return whether the code of an image is of a kind that `uses_of` reads."""
    return part(image.arch, "uses") is not None


def uses_of(image: LoadedImage, slot: int) -> list[Use]:
    """Return what goes through the slot at run-time address `slot`, by rising address.

    The code of the file is asked where there is one: what is in memory may have been changed.
    Empty for other machines' code (`can_search`). Raises FormatError.
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
