# SPDX-License-Identifier: Apache-2.0
"""Find many short byte strings in one long one."""

from __future__ import annotations

from struct import Struct

_MANY = 1 << 26  # bytes that are searched needle by needle: about a tenth of a second
_MOST_PLACES = 1 << 16
_U32 = Struct("<I")


def offsets_of(strings: bytes, names: set[bytes]) -> list[tuple[int, bytes]]:
    """Return (offset, name) of each of `names` that is a whole string of a string table."""
    places: list[tuple[int, bytes]] = []
    if len(names) < 16:
        for name in names:
            at = strings.find(b"\0" + name + b"\0")
            if strings.startswith(name + b"\0"):
                places.append((0, name))
            elif at >= 0:
                places.append((at + 1, name))
        return places
    at = 0
    for text in strings.split(b"\0"):
        if text in names:
            places.append((at, text))
        at += len(text) + 1
    return places


def places_of(data: bytes, needles: dict[bytes, bytes]) -> list[tuple[int, bytes]]:
    """Return (offset, needle) of each place where a needle occurs in `data`, sorted."""
    if len(needles) * len(data) > _MANY and len(needles) > 8:
        return places_of_many(data, needles)
    places: list[tuple[int, bytes]] = []
    for needle in needles:
        at = data.find(needle)
        while at >= 0 and len(places) < _MOST_PLACES:
            places.append((at, needle))
            at = data.find(needle, at + 1)
    return sorted(places)


def places_of_many(data: bytes, needles: dict[bytes, bytes]) -> list[tuple[int, bytes]]:
    """Return the same as `places_of` for many needles, in one pass over the bytes."""
    import numpy as np  # its import takes as long as a few hundred searches

    numbers = {_U32.unpack(needle)[0]: needle for needle in needles if len(needle) == 4}
    places = []
    wanted = np.zeros(max(numbers, default=0) + 1, dtype=bool)
    wanted[list(numbers)] = True
    for shift in range(4):
        words = np.frombuffer(data, "<u4", (len(data) - shift) // 4, shift)
        few = np.flatnonzero(words < len(wanted))
        places += [
            (4 * index + shift, numbers[int(words[index])])
            for index in few[wanted[words[few]]][:_MOST_PLACES].tolist()
        ]
    for needle in needles:
        if len(needle) != 4:
            at = data.find(needle)
            while at >= 0 and len(places) < _MOST_PLACES:
                places.append((at, needle))
                at = data.find(needle, at + 1)
    return sorted(places)
