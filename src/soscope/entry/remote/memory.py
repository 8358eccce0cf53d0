# SPDX-License-Identifier: Apache-2.0
"""The memory of a stopped program, read by a stub's `m` packets and cached in pieces.

Changes that the program makes while it runs are not seen, so `forget` must be called after it has
run.
"""

from __future__ import annotations

from soscope.binfmt.source import ByteSource
from soscope.entry.remote.stub import RemoteStub

_LARGEST, _SMALLEST = 4096, 16  # bytes of a piece; no page is smaller than the largest
_LONGEST = 0x4000  # bytes of one packet
_HEAD = 16  # bytes of a packet beside its content
_MOST_KEPT = 1 << 14  # pieces


class StubMemory(ByteSource):
    """Reads the memory of a program that a stub holds."""

    __slots__ = ("_most", "_pieces", "_size", "_stub", "_top")

    def __init__(self, stub: RemoteStub, bits: int) -> None:
        """`bits` is the size of an address."""
        super().__init__("the program's memory")
        self._stub = stub
        self._top = 1 << bits
        room = (stub.can.packet_size - _HEAD) // 2
        self._size = _LARGEST
        while self._size > room and self._size > _SMALLEST:
            self._size //= 2
        self._most = max(min(room, _LONGEST) // self._size, 1)  # pieces in one packet
        self._pieces: dict[int, bytes] = {}  # b"" if no memory is mapped

    def forget(self) -> None:
        """Clear the cache, because the program has run."""
        self._pieces.clear()

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes at the program's address `offset`, fewer at the end of memory.

        Raises RemoteError if the stub is gone.
        """
        if offset < 0 or size <= 0:
            return b""
        end = min(offset + size, self._top)
        data = bytearray()
        while offset < end:
            start = offset - offset % self._size
            piece = self._pieces.get(start)
            if piece is None:
                piece = self._fetch(start, end)
            part = piece[offset - start : end - start]
            data += part
            offset += len(part)
            if not part or len(piece) < self._size:
                break
        return bytes(data)

    def _fetch(self, start: int, end: int) -> bytes:
        """Read the piece at `start`, and with it further ones up to `end` that are not cached."""
        size = self._size
        if len(self._pieces) >= _MOST_KEPT:
            self._pieces.clear()
        count = 1
        while count < self._most and start + count * size < end:
            if start + count * size in self._pieces:
                break
            count += 1
        data = self._ask(start, count * size)
        if len(data) < count * size and count > 1:
            # Some stubs return nothing if the end of the requested range is not mapped.
            data = self._ask(start, size)
            count = 1
        for at in range(count):
            self._pieces[start + at * size] = data[at * size : (at + 1) * size]
        return self._pieces[start]

    def _ask(self, addr: int, size: int) -> bytes:
        answer = self._stub.ask(b"m%x,%x" % (addr, size))
        try:
            return bytes.fromhex(answer.decode("ascii"))
        except ValueError:
            return b""  # an error number: not mapped
