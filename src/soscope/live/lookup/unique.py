# SPDX-License-Identifier: Apache-2.0
"""STB_GNU_UNIQUE: the one definition that a whole namespace uses, even if others exist.

For each namespace, glibc keeps a table of the definitions that it chose (`struct unique_sym`:
hash, name, symbol, image; the image last). The table is private, but recognisable: every entry in
use points to the symbol table of a known image.
"""

from __future__ import annotations

from soscope.live.images.images import Images
from soscope.live.images.loadedimage import LoadedImage
from soscope.live.images.scope import rtld_global

_MAX_ENTRIES = 1 << 20


def unique_owner(images: Images, namespace: int, name: bytes) -> tuple[LoadedImage, int] | None:
    """Return the image and the symbol index to which a unique name is bound.

    Return None if the loader has not looked it up yet. Then the first definition that a look-up
    finds will be chosen.
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
    """Return (name, symbol, image) of a table's entries in use, None if it is not such a table."""
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
