# SPDX-License-Identifier: Apache-2.0
"""Code that goes through a slot, and code that was changed to bypass a slot."""

from __future__ import annotations

import re

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.sections import Sections
from soscope.binfmt.isa import part
from soscope.errors import FormatError
from soscope.live.images.image import LoadedImage
from soscope.live.slots.bindings import Binding, Bindings
from soscope.model.record import Record

# Code that was changed to bypass a slot: re-aimed stubs and call sites.
#
# If a function's address is taken, its slot must not be changed. A hooking library then changes the
# code that calls through the slot: the displacement of `jmp *slot(%rip)` or `call *slot(%rip)`
# leads to a word of that library. Only the file has the old bytes. So pages of code are compared
# with the file, but only pages of which the process has its own copy.

_PAGE = 4096
_PIECE = 1 << 20
_HEAD = re.compile(rb"([0-9a-f]+)-([0-9a-f]+) ")


def note_reaimed(bindings: Bindings, images: list[LoadedImage]) -> None:
    """Search `images` for re-aimed code, and record its targets."""
    # code of other machines addresses slots differently
    images = [each for each in images if each.arch is not None and each.arch.has_agent]
    changed = _changed_ranges(images)
    for image in images:
        ranges = [
            (max(low, start), min(high, end))
            for low, high in _code(image)
            for start, end in changed
            if start < high and low < end
        ]
        if ranges and image.file is not None:
            try:
                _look(bindings, image, ranges)
            except FormatError:
                continue  # what cannot be read counts as unchanged


def _code(image: LoadedImage) -> list[tuple[int, int]]:
    """Return the run-time ranges of an image's code, as far as they are in its file."""
    return [
        (segment.vaddr + image.load_bias, segment.vaddr + segment.filesz + image.load_bias)
        for segment in image.segments
        if segment.type == c.PT_LOAD and segment.flags & c.PF_X
    ]


def _changed_ranges(images: list[LoadedImage]) -> list[tuple[int, int]]:
    """Return the mappings in which the process has pages of its own, by /proc/PID/smaps.

    If that cannot be read, return all mappings.
    """
    if not images:
        return []
    try:
        text = images[0].space.told("smaps")
    except OSError:
        return [(0, 1 << 64)]
    ranges: list[tuple[int, int]] = []
    current = (0, 0)
    for line in text.splitlines():
        head = _HEAD.match(line)
        if head is not None:
            current = int(head[1], 16), int(head[2], 16)
        elif line.startswith(b"Anonymous:") and line.split()[1] != b"0":
            ranges.append(current)
    return ranges


def _look(bindings: Bindings, image: LoadedImage, ranges: list[tuple[int, int]]) -> None:
    slots = {
        binding.addr: binding for binding in bindings.by_image.get(image, ()) if not binding.is_call
    }
    file = image.file
    if not slots or file is None:
        return
    seen: set[int] = set()
    for low, high in ranges:
        for start in range(low & -_PAGE, high, _PIECE):
            addr = max(start, low)
            size = min(start + _PIECE, high) - addr
            new = image.space.read(addr, size)
            old = file.source.read(file.elf.locate(addr - image.load_bias), size)
            if new == old:
                continue
            for at in _differences(old, new):
                _judge(bindings, image, slots, old, new, addr, at, seen)


def _differences(old: bytes, new: bytes) -> list[int]:
    """Return the offsets of bytes that differ."""
    offsets = []
    for page in range(0, min(len(old), len(new)), _PAGE):
        before, other = old[page : page + _PAGE], new[page : page + _PAGE]
        if before != other:
            offsets += [
                page + at
                for at, pair in enumerate(zip(before, other, strict=False))
                if pair[0] != pair[1]
            ]
    return offsets


def _judge(
    bindings: Bindings,
    image: LoadedImage,
    slots: dict[int, Binding],
    old: bytes,
    new: bytes,
    addr: int,
    at: int,
    seen: set[int],
) -> None:
    """Find the displacement that contains a changed byte, by the slot to which it led before."""
    for place in range(max(at - 3, 0), at + 1):
        where = addr + place
        if where in seen or place + 4 > len(old):
            continue
        before = int.from_bytes(old[place : place + 4], "little", signed=True)
        slot = slots.get(where + 4 + before)
        if slot is None:
            continue
        seen.add(where)
        after = int.from_bytes(new[place : place + 4], "little", signed=True)
        target = image.space.word(where + 4 + after)
        if target is not None and after != before:
            bindings.reaimed(slot, target, where)
        return


# The code that goes through a slot: stubs, calls, jumps, and loads.
#
# The module `uses` of the instruction set (binfmt/isa) recognises such code.

_PIECE_SLOTUSES = 1 << 24
_CODE = 16


class Use(Record):
    """One piece of code that goes through a slot.

    `addr` is the run-time address of its first instruction, or of the stub. `displacement` is the
    address of the 32-bit number that addresses the slot. `section` is the section's name in the
    file, "" if it is not known. `code` are the current bytes from `addr` on. `text` is the first
    relevant instruction of them, in AT&T syntax; instructions that are neither in stubs nor calls
    are shown as bytes.
    """

    kind: str
    addr: int
    displacement: int
    section: str
    code: bytes
    text: str


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
        for at in range(0, segment.filesz, _PIECE_SLOTUSES):
            data = read(segment.vaddr, at, min(_PIECE_SLOTUSES + 8, segment.filesz - at))
            addr = segment.vaddr + bias + at

            def named(place: int, vaddr: int = segment.vaddr + at) -> str:
                section = None if sections is None else sections.containing(vaddr + place)
                return "" if section is None else section.name

            for kind, start, place, name in known.places(
                data, addr, slot, named, base, is_where_linked=not bias
            ):
                if place < _PIECE_SLOTUSES:  # the rest overlaps with the next piece
                    now = image.space.read(addr + start, _CODE)
                    text = known.instruction(now, addr + start, base)
                    uses.append(Use(kind, addr + start, addr + place, name, now, text))
    return uses
