# SPDX-License-Identifier: Apache-2.0
"""STB_GNU_UNIQUE: the definition that a whole namespace uses, whoever has others.

glibc keeps the chosen ones in a table for each namespace (`struct unique_sym`: hash, name,
symbol, image; the image last), private, but recognisable: every entry in use points to the
symbol table of an image that we know.
"""

from __future__ import annotations

from soscope.live.images.images import Images
from soscope.live.images.loadedimage import LoadedImage
from soscope.live.images.scope import rtld_global

_MAX_ENTRIES = 1 << 20


def unique_owner(images: Images, namespace: int, name: bytes) -> tuple[LoadedImage, int] | None:
    """Return the image, and the index of the symbol, that a unique name is bound to.

    None where nobody has looked it up yet: the first definition that is found will be it.
    """
    place = rtld_global(images)
    if place is None:
        return None
    size = images.space.bits // 8
    data = images.space.read(*place)
    words = [
        int.from_bytes(data[at : at + size], images.space.endian)
        for at in range(0, len(data), size)
    ]
    for at in range(len(words) - 2):
        table, room, used = words[at : at + 3]
        if not table or table % size or not 0 < used <= room <= _MAX_ENTRIES or room < 31:
            continue
        entries = _entries(images, table, room, used)
        if entries is None:
            continue
        for hit, symbol, image in entries:
            if image.namespace == namespace and hit == name:
                first = image.symbols.places[0]
                return image, (symbol - first) // image.encoding.symbol.size
    return None


def _entries(
    images: Images, table: int, room: int, used: int
) -> list[tuple[bytes, int, LoadedImage]] | None:
    """Return (name, symbol, image) of a table's entries in use, None if it is no such table."""
    size = images.space.bits // 8
    data = images.space.read(table, room * 4 * size)
    if len(data) < room * 4 * size:
        return None
    entries = []
    for at in range(0, len(data), 4 * size):
        _, name, symbol, owner = (
            int.from_bytes(data[at + field * size : at + (field + 1) * size], images.space.endian)
            for field in range(4)
        )
        if not name:
            continue
        image = images.by_link_map.get(owner)
        if image is None or symbol < image.symbols.places[0]:
            return None
        text = images.space.read(name, 4096).split(b"\0", 1)[0]
        entries.append((text, symbol, image))
    return entries if len(entries) == used else None
