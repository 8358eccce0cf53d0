# SPDX-License-Identifier: Apache-2.0
"""Sums in a recording that are overwritten again and again, and survive a kill meanwhile.

Two blocks take turns: while one is overwritten, the other has the previous sums.
"""

from __future__ import annotations

import errno
import os
import struct
import zlib

from soscope.recording import format as form

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_HEAD = struct.Struct("<QQII")  # sequence, bytes, CRC, 0
_LEAST = 1 << 14  # bytes of a block, at least
Block = list[bytes | memoryview]


class SumsPlaces:
    """The places of sums in a file: up to two, each with room for so many bytes."""

    __slots__ = ("_places", "_sequence")

    def __init__(self) -> None:
        self._places: list[tuple[int, int]] = []  # (offset, room), the newest one last
        self._sequence = 0

    def write(self, descriptor: int, data: bytes, append: Callable[[Block], int | None]) -> bool:
        """Write sums. Return whether they are in the file. Raises OSError.

        `append` adds a block at the end and returns its offset, None if there is no room.
        """
        self._sequence += 1
        body = pack(self._sequence, data)
        place = self._places.pop(0) if len(self._places) > 1 else None
        if place is not None and len(body) <= place[1]:
            at = memoryview(body)
            offset = place[0] + form.HEADER.size
            while at:
                done = os.pwrite(descriptor, at, offset)
                at, offset = at[done:], offset + done
            self._places.append(place)
            return True
        if len(body) > form.MAX_LENGTH:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        room = min(max(2 * len(body), _LEAST), form.MAX_LENGTH)
        block = form.block(form.SUMS, body, bytes(room - len(body)), flags=form.REWRITTEN)
        start = append(block)
        if start is None:
            if place is not None:
                self._places.insert(0, place)
            return False
        self._places.append((start, room))
        return True


def pack(sequence: int, data: bytes) -> bytes:
    """Return the body of a block with `data`."""
    head = _HEAD.pack(sequence, len(data), 0, 0)
    return _HEAD.pack(sequence, len(data), zlib.crc32(data, zlib.crc32(head)), 0) + data


def unpack(body: bytes) -> tuple[int, bytes] | None:
    """Return (sequence, data) of a block, None if it is half written."""
    if len(body) < _HEAD.size:
        return None
    sequence, length, crc, _ = _HEAD.unpack_from(body)
    data = body[_HEAD.size : _HEAD.size + length]
    if len(data) != length:
        return None
    head = _HEAD.pack(sequence, length, 0, 0)
    return (sequence, data) if zlib.crc32(data, zlib.crc32(head)) == crc else None
