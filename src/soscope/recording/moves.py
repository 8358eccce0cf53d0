# SPDX-License-Identifier: Apache-2.0
"""Finds the image that was at an address, by the address itself or by the time.

Images are loaded and closed, and another image may come to the same addresses. In stacks and
trees, such an address contains the number of its image (IMAGE_SHIFT of soscope/wire.h). Return
addresses of single calls do not, but they have a time, and the agent has recorded when each image
was loaded and closed.
"""

from __future__ import annotations

from bisect import bisect_right

from soscope.model.image import IMAGE_STARTUP, TracedImage
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_PARENTS = 64  # limit, as damaged data may be circular


def in_image(addr: int) -> tuple[int | None, int]:
    """Return the index of the image in an address, and the address without it.

    The index is None if the address has none. An index that no image has means that the address
    was in no recorded image.
    """
    number = addr >> layout.IMAGE_SHIFT & layout.NO_IMAGE
    return number - 1 if number else None, addr & (1 << layout.IMAGE_SHIFT) - 1


def with_image(addr: int, image: TracedImage | None) -> int:
    """Return an address with the index of its image."""
    number = layout.NO_IMAGE if image is None else image.index + 1
    return addr | number << layout.IMAGE_SHIFT


class Moves:
    """The times at which images of one program came and went (`struct sosc_move[]`)."""

    __slots__ = ("_forks", "_holes", "_last", "_moved", "_own", "count")

    def __init__(self) -> None:
        # By process and image: times (tsc), and whether the image is loaded from then on.
        self._own: dict[tuple[int, int], tuple[list[int], list[bool]]] = {}
        # By process: times of the forks that made it, and (parent, the parent's last known move).
        self._forks: dict[int, tuple[list[int], list[tuple[int, int]]]] = {}
        self._moved: set[int] = set()
        self._holes: list[int] = []  # rows that were incomplete when read
        self._last = 0
        self.count = 0

    def read(self, table: bytearray) -> None:
        """Read the new rows of the table."""
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
        """Return the times (tsc) of all changes."""
        own = {time for times, _ in self._own.values() for time in times}
        return sorted(own.union(*(times for times, _ in self._forks.values())))

    def has_moved(self, image: TracedImage) -> bool:
        """Return whether an image may have come or gone while the program was observed."""
        return not image.flags & IMAGE_STARTUP or image.index in self._moved

    def there(
        self, image: TracedImage, pid: int, time: int, ns: Callable[[int], int]
    ) -> bool | None:
        """Return whether process `pid` had an image at a time, None if that is not known.

        `ns` converts the times of moves (tsc) to the unit of `time`.
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
