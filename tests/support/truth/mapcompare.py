# SPDX-License-Identifier: Apache-2.0
"""One file as soscope reads it, and what objdump and readelf say differently."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.elf.image import ElfImage
from soscope.errors import FormatError
from soscope.model.filemap import LAZY_HALF
from tests.support.truth.elftruth import Row


class Ours(NamedTuple):
    """What soscope says of one file: stubs and slots by vaddr, and what it could not read."""

    machine: int
    stubs: dict[int, tuple[str, str, int]]  # symbol, kind, slot
    slots: dict[int, tuple[str, str, str | None]]  # kind, symbol, version
    partial: tuple[str, ...]
    has_sections: bool
    is_static: bool


def ours(path: str) -> Ours:
    """Read one file; one that is refused has nothing but the reason."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        image = ElfMap(ElfImage.from_descriptor(descriptor, path))
        stubs = {
            stub.vaddr: (slot.symbol, stub.kind, slot.vaddr)
            for slot in image.slots
            for stub in slot.stubs
        }
        stubs |= {one.vaddr: ("", one.kind, 0) for one in image.stubs_without_slot}
        slots = {one.vaddr: (one.kind, one.symbol, one.version) for one in image.slots}
        machine = image.image.header.machine if image.image.header else 0
        has_sections = bool(image.sections.all)
        is_static = all(one.type != c.PT_DYNAMIC for one in image.image.segments)
        return Ours(machine, stubs, slots, tuple(image.partial), has_sections, is_static)
    except FormatError as error:
        return Ours(0, {}, {}, (str(error),), has_sections=False, is_static=False)
    finally:
        os.close(descriptor)


def stub_differences(mine: Ours, theirs: dict[int, str]) -> Iterator[tuple[str, str]]:
    """Give (class, detail) of each stub on which the two differ."""
    for vaddr in sorted(mine.stubs.keys() | theirs.keys()):
        if vaddr not in theirs:
            symbol, kind, slot = mine.stubs[vaddr]
            if kind != LAZY_HALF:
                words = [kind, *([] if slot else ["without slot"])]
                words += [] if mine.has_sections else ["no section headers"]
                words += ["static"] if mine.is_static else []
                yield f"stub: objdump has none ({', '.join(words)})", f"{vaddr:#x} {symbol}"
        elif vaddr not in mine.stubs:
            yield "stub: soscope has none", f"{vaddr:#x} {theirs[vaddr]}"
        else:
            symbol, kind, slot = mine.stubs[vaddr]
            name = theirs[vaddr]
            is_ifunc = name.startswith("*ABS*") and slot and "IRELATIVE" in mine.slots[slot][0]
            if name != symbol and not is_ifunc:
                yield f"stub: other names ({kind})", f"{vaddr:#x} {symbol}, objdump {name}"


def slot_differences(mine: Ours, theirs: dict[int, Row]) -> Iterator[tuple[str, str]]:
    """Give (class, detail) of each slot on which the two differ."""
    for vaddr in sorted(mine.slots.keys() | theirs.keys()):
        if vaddr not in theirs:
            kind, symbol, _ = mine.slots[vaddr]
            why = "" if mine.has_sections else ", no section headers"
            yield f"slot: readelf has none ({kind}{why})", f"{vaddr:#x} {symbol}"
        elif vaddr not in mine.slots:
            row = theirs[vaddr]
            yield f"slot: soscope has none ({row.kind})", f"{vaddr:#x} {row.symbol}"
        else:
            kind, symbol, version = mine.slots[vaddr]
            row = theirs[vaddr]
            said = f"{vaddr:#x} {kind} {symbol}@{version}, readelf {row}"
            if not kind.startswith(row.kind):
                yield "slot: other kinds", said
            elif "IRELATIVE" not in kind and row.symbol != symbol:
                yield "slot: other names", said
            elif row.version != version:
                yield "slot: other versions", said
