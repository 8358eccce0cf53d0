# SPDX-License-Identifier: Apache-2.0
"""Code that was changed to bypass a slot: re-aimed stubs and call sites.

If a function's address is taken, its slot must not be changed. A hooking library then changes the
code that calls through the slot: the displacement of `jmp *slot(%rip)` or `call *slot(%rip)`
leads to a word of that library. Only the file has the old bytes. So pages of code are compared
with the file, but only pages of which the process has its own copy.
"""

from __future__ import annotations

import re

from soscope.binfmt.elf import constants as c
from soscope.errors import FormatError
from soscope.live.images.loadedimage import LoadedImage
from soscope.live.slots.bindings import Binding, Bindings

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
