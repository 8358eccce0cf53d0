# SPDX-License-Identifier: Apache-2.0
"""Which image lay at an address: what the addresses say themselves, and what the time tells.

Images come and go, and another one may come to where one was. Stacks and trees say with such an
address which image it is in (IMAGE_SHIFT of soscope/wire.h). Return addresses of single calls do
not, but they have a time, and the agent has written down when each image came and went.
"""

from __future__ import annotations

from bisect import bisect_right

from soscope.model.image import IMAGE_STARTUP, TracedImage
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_PARENTS = 64  # damage may lead in circles


def in_image(addr: int) -> tuple[int | None, int]:
    """Return the index of the image that an address says it is in, and the address alone.

    None: it says nothing. An index that no image has: it was in none that has a record.
    """
    number = addr >> layout.IMAGE_SHIFT & layout.NO_IMAGE
    return number - 1 if number else None, addr & (1 << layout.IMAGE_SHIFT) - 1


def with_image(addr: int, image: TracedImage | None) -> int:
    """Return an address that says which image it is in."""
    number = layout.NO_IMAGE if image is None else image.index + 1
    return addr | number << layout.IMAGE_SHIFT


class Moves:
    """When images of one program came and went: `struct sosc_move[]`, read as they come."""

    __slots__ = ("_forks", "_holes", "_last", "_moved", "_own", "count")

    def __init__(self) -> None:
        # by process and image: the times (tsc), and whether the image is there from then on
        self._own: dict[tuple[int, int], tuple[list[int], list[bool]]] = {}
        # by process: the times of forks that made it, then (parent, what it knew last)
        self._forks: dict[int, tuple[list[int], list[tuple[int, int]]]] = {}
        self._moved: set[int] = set()
        self._holes: list[int] = []  # rows that were being written
        self._last = 0
        self.count = 0

    def read(self, table: bytearray) -> None:
        """Take what is new in the table."""
        size = layout.MOVE.size
        count = len(table) // size
        rows, self._holes = [*self._holes, *range(self.count, count)], []
        self.count = count
        for row in rows:
            kind, image, pid, parent, tsc, since = layout.MOVE.struct.unpack_from(table, row * size)
            self._last = max(self._last, tsc)
            if not kind:
                self._holes.append(row)
            elif kind == layout.MOVE_FORKED:
                times, parents = self._forks.setdefault(pid, ([], []))
                times.append(tsc)
                parents.append((parent, since))
            else:
                times, there = self._own.setdefault((pid, image), ([], []))
                times.append(tsc)
                there.append(kind == layout.MOVE_CAME)
                self._moved.add(image)

    def times(self) -> list[int]:
        """Return when something has changed (tsc)."""
        own = {time for times, _ in self._own.values() for time in times}
        return sorted(own.union(*(times for times, _ in self._forks.values())))

    def has_moved(self, image: TracedImage) -> bool:
        """Return whether an image may have come or gone while the program was watched."""
        return not image.flags & IMAGE_STARTUP or image.index in self._moved

    def there(
        self, image: TracedImage, pid: int, time: int, ns: Callable[[int], int]
    ) -> bool | None:
        """Return whether process `pid` had an image at a time, None: nobody knows.

        `ns` turns what moves have (tsc) into what `time` is.
        """
        if not time or (self.count >= layout.MAX_MOVES and time >= ns(self._last)):
            return None
        for _ in range(_MOST_PARENTS):
            born, parents = self._forks.get(pid, ([], []))
            fork = max(bisect_right(born, time, key=ns) - 1, 0)
            times, there = self._own.get((pid, image.index), ([], []))
            at = bisect_right(times, time, key=ns) - 1
            if at >= 0 and (not born or times[at] >= born[fork]):
                return there[at]
            if not born:
                return bool(image.flags & IMAGE_STARTUP)
            pid, since = parents[fork]
            time = min(time, ns(since))
        return None
