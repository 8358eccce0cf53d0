# SPDX-License-Identifier: Apache-2.0
"""Search for many byte strings in a long one, or for the range that has an address."""

from __future__ import annotations

from bisect import bisect_right
from heapq import heappop, heappush
from struct import Struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

# Find many short byte strings in one long one.

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


# Find the range that contains an address, among many ranges that may overlap.


class Spans:
    """Ranges of addresses (start, end); if several contain an address, the first counts.

    Ranges that cannot overlap need one `bisect` of their starts, and no object.
    """

    __slots__ = ("_edges", "_holders")

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        rising = sorted((start, number, end) for number, (start, end) in enumerate(ranges))
        rising = [span for span in rising if span[0] < span[2]]
        edges = sorted({edge for start, _, end in rising for edge in (start, end)})
        self._edges: list[int] = []
        self._holders: list[int] = []  # index of the range from each edge on, -1 for none
        waiting: list[tuple[int, int]] = []
        at = 0
        for edge in edges:
            while at < len(rising) and rising[at][0] <= edge:
                heappush(waiting, (rising[at][1], rising[at][2]))
                at += 1
            while waiting and waiting[0][1] <= edge:
                heappop(waiting)
            holder = waiting[0][0] if waiting else -1
            if not self._holders or self._holders[-1] != holder:
                self._edges.append(edge)
                self._holders.append(holder)

    def at(self, vaddr: int) -> int | None:
        """Return the index of the range that contains an address, None if there is none."""
        index = bisect_right(self._edges, vaddr) - 1
        return None if index < 0 or self._holders[index] < 0 else self._holders[index]
