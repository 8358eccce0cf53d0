# SPDX-License-Identifier: Apache-2.0
"""The memory of a traced native process, with words of the process's size and order."""

from __future__ import annotations

from soscope.binfmt.elf.reader import Encoding
from soscope.entry.memory import RemoteMemory


class NativeMemory(RemoteMemory):
    """The memory of process `pid`, with the words of `coding`."""

    __slots__ = ("coding", "pid")

    def __init__(self, pid: int, coding: Encoding) -> None:
        """Open the memory.

        Raises OSError if that is not allowed.
        """
        super().__init__(pid)
        self.pid = pid
        self.coding = coding

    @property
    def descriptor(self) -> int:
        """The descriptor of its open file, whose offsets are addresses."""
        return self._descriptor

    def word(self, addr: int) -> int:
        """Return a word of the program, 0 if no memory is mapped there."""
        word = self.coding.word
        data = self.read(addr, word.size)
        return int(word.unpack(data)[0]) if len(data) == word.size else 0
