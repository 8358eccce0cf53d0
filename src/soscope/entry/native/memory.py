# SPDX-License-Identifier: Apache-2.0
"""The memory of a traced native process, in its own words."""

from __future__ import annotations

from soscope.binfmt.elf.encoding import Encoding
from soscope.entry.memory import RemoteMemory


class NativeMemory(RemoteMemory):
    """That of process `pid`, whose words are those of `coding`."""

    __slots__ = ("coding", "pid")

    def __init__(self, pid: int, coding: Encoding) -> None:
        """Open it. Raises OSError where that is not allowed."""
        super().__init__(pid)
        self.pid = pid
        self.coding = coding

    @property
    def descriptor(self) -> int:
        """The number of its open file, whose offsets are addresses."""
        return self._descriptor

    def word(self, addr: int) -> int:
        """Return one of its words, 0 where there is no memory."""
        word = self.coding.word
        data = self.read(addr, word.size)
        return int(word.unpack(data)[0]) if len(data) == word.size else 0
