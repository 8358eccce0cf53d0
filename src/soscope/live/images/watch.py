# SPDX-License-Identifier: Apache-2.0
"""Check whether the images have changed: compare the loader's lists in one system call.

Each node of every link map, each `struct r_debug` and the global scope's list are read again and
compared. process_vm_readv(2) reads a thousand ranges at once. Its answer only counts while the
address space that was opened still exists.
"""

from __future__ import annotations

import os

from soscope.live.images.images import Images
from soscope.live.images.space import Space
from soscope.proc import maps

_FEW = 24  # ranges for which single reads are as quick as ctypes
_NEAR = 4096  # bytes between ranges that are read together


class Watch:
    """The memory ranges that change when images are loaded or closed."""

    __slots__ = ("_batches", "_images", "_known", "_pieces", "_tid")

    def __init__(self, images: Images) -> None:
        self._images = images
        self._tid = images.space.tid
        self._known = -1
        self._pieces: list[_WatchedPlaces] = []
        self._batches: list[HeldPlaces] | None = None

    def holds(self, *, thoroughly: bool = False) -> bool:
        """Return whether no range has changed; if `thoroughly`, compare the mappings, too.

        Only the mappings show images that are in no link map. They are always compared if there
        is no link map.
        """
        images = self._images
        if images.space.is_still:
            return True
        if (thoroughly or not images.debug) and images.all and self._has_other_mappings():
            return False
        return self._has_same_list()

    def _has_other_mappings(self) -> bool:
        try:
            return maps.text_of(self._tid) != self._images.seen_maps
        except OSError:
            return True

    def _has_same_list(self) -> bool:
        space = self._images.space
        watched = self._images.watched
        if space.is_patchwork:
            return True
        if self._images.private is not None:
            from soscope.live.images.scope import has_same_namespaces

            if not has_same_namespaces(self._images):
                return False
        if len(watched) != self._known:
            # This is the first comparison, and most programs make only one: importing ctypes does
            # not pay off.
            self._known = len(watched)
            self._pieces = _pieces(watched)
            self._batches = None
        elif self._batches is None and len(self._pieces) > _FEW:
            self._batches = _batches(watched)
        try:
            if self._batches is not None:
                return all(batch.hold(self._tid) for batch in self._batches)
        except OSError:  # not allowed here, or a range is not mapped any more
            pass  # read the ranges one by one below
        return all(piece.holds(space) for piece in self._pieces)


class _WatchedPlaces:
    """Memory ranges that lie close together and are read at once."""

    __slots__ = ("_places", "end", "start")

    def __init__(self, start: int) -> None:
        self.start = self.end = start
        self._places: list[tuple[int, int, bytes]] = []  # start, end, bytes

    def take(self, addr: int, data: bytes) -> None:
        """Add a range, which must not lie below the others."""
        begin = addr - self.start
        self._places.append((begin, begin + len(data), data))
        self.end = max(self.end, addr + len(data))

    def holds(self, space: Space) -> bool:
        """Return whether every range has its old contents."""
        start = self.start
        now = space.read(start, self.end - start)
        if start + len(now) == self.end:
            return all(now[begin:end] == data for begin, end, data in self._places)
        # memory between the ranges is not mapped any more
        return all(space.read(start + begin, len(data)) == data for begin, _, data in self._places)


def _pieces(watched: list[tuple[int, bytes]]) -> list[_WatchedPlaces]:
    pieces: list[_WatchedPlaces] = []
    for addr, data in sorted(watched):
        if not pieces or addr - pieces[-1].end > _NEAR:
            pieces.append(_WatchedPlaces(addr))
        pieces[-1].take(addr, data)
    return pieces


def _batches(watched: list[tuple[int, bytes]]) -> list[HeldPlaces]:

    return [HeldPlaces(watched[at : at + MOST]) for at in range(0, len(watched), MOST)]


# Compare memory ranges of a process with their former contents in one system call.

MOST = 1024  # IOV_MAX


class HeldPlaces:
    """Up to `MOST` memory ranges, and their former contents."""

    __slots__ = ("_buffer", "_data", "_ranges", "_read", "_size")

    def __init__(self, places: list[tuple[int, bytes]]) -> None:
        import ctypes  # takes milliseconds, and most programs compare once, by single reads

        self._data = b"".join(data for _, data in places)
        self._size = len(self._data)
        self._buffer = ctypes.create_string_buffer(self._size)
        words = ctypes.c_size_t * (2 * len(places))
        flat = [word for addr, data in places for word in (addr, len(data))]
        local = (ctypes.c_size_t * 2)(ctypes.addressof(self._buffer), self._size)
        self._ranges = (local, 1, words(*flat), len(places), 0)
        self._read = ctypes.CDLL(None, use_errno=True).process_vm_readv
        self._read.restype = ctypes.c_ssize_t
        number, address = ctypes.c_ulong, ctypes.c_void_p
        self._read.argtypes = (ctypes.c_int, address, number, address, number, number)

    def hold(self, tid: int) -> bool:
        """Return whether the ranges still have the same contents. Raises OSError."""
        if self._read(tid, *self._ranges) != self._size:
            import ctypes

            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return self._buffer.raw == self._data
