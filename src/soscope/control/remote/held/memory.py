# SPDX-License-Identifier: Apache-2.0
"""The memory of a program that a stub holds, accessed only by packets."""

from __future__ import annotations

from soscope.binfmt.elf.reader import Encoding
from soscope.control.remote.guest import GuestMemory
from soscope.entry.remote.stub import RemoteStub, StubMemory

_FEW = 64  # bytes too few for reading a whole piece
_PAGE = 4096


class HeldMemory(GuestMemory):
    """Reads and writes the memory while the program is stopped.

    Data that was read is cached until the program goes on, or something is written.
    """

    __slots__ = ("_pieces", "_seen", "_stub")

    def __init__(self, stub: RemoteStub, coding: Encoding) -> None:
        self.name = "the program's memory"
        self._stub = stub
        self._pieces = StubMemory(stub, coding.bits)
        self._seen = -1
        self.pid = stub.pid or stub.tid
        self.coding = coding
        self.base = 0

    def close(self) -> None:
        """Do nothing, because nothing is open."""

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes at the program's address `offset`."""
        if self._seen != self._stub.goes:
            self._seen = self._stub.goes
            self._pieces.forget()
        if size <= _FEW:
            return self._stub.read(offset, size) if offset >= 0 else b""
        return self._pieces.read(offset, size)

    def write_word(self, addr: int, value: int) -> bool:
        """Set a word of the program. Return whether that succeeded."""
        self._seen = -1
        mask = (1 << self.coding.bits) - 1
        return self._stub.write(addr, self.coding.word.pack(value & mask))

    def is_free(self, start: int, end: int) -> bool:
        """Return whether nothing can be read at the program's addresses [start, end)."""
        return not any(self._stub.read(at, 1) for at in range(start, end, _PAGE))
