# SPDX-License-Identifier: Apache-2.0
"""The memory of an emulated program, which lies in its emulator's at a fixed distance."""

from __future__ import annotations

import os

from soscope.binfmt.elf.reader import Encoding
from soscope.binfmt.source import ByteSource
from soscope.errors import RemoteError
from soscope.proc import maps
from soscope.proc.memory import ProcessMemory

_RESERVED = "---"  # reserved by an emulator for 32-bit programs


class GuestMemory(ByteSource):
    """Reads and writes the memory, whatever access the program itself has to its pages.

    `base` is the host's address of the program's address 0.
    """

    __slots__ = ("_descriptor", "_memory", "base", "coding", "pid")

    def __init__(self, pid: int, coding: Encoding, base: int) -> None:
        """Open the memory of the emulator's process. Raises RemoteError if that is not allowed."""
        super().__init__(f"the program in process {pid}")
        self.pid = pid
        self.coding = coding
        self.base = base
        try:
            self._memory = ProcessMemory(pid)
            self._descriptor = os.open(f"/proc/{pid}/mem", os.O_WRONLY | os.O_CLOEXEC)
        except OSError as error:
            reason = (error.strerror or "").lower()
            raise RemoteError(
                f"the emulator's memory cannot be opened: {reason}",
                hint="as for ptrace(2): /proc/sys/kernel/yama/ptrace_scope must be 0 or 1",
            ) from error

    def close(self) -> None:
        """Close the memory. May be called twice."""
        self._memory.close()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes at the program's address `offset`."""
        if offset < 0:
            return b""
        return self._memory.read(self.base + offset, size)

    def word(self, addr: int) -> int:
        """Return a word of the program, 0 if no memory is mapped there."""
        word = self.coding.word
        data = self.read(addr, word.size)
        return int(word.unpack(data)[0]) if len(data) == word.size else 0

    def write_word(self, addr: int, value: int) -> bool:
        """Set a word of the program. Return whether that succeeded."""
        mask = (1 << self.coding.bits) - 1
        return self.write(addr, self.coding.word.pack(value & mask))

    def write(self, addr: int, data: bytes) -> bool:
        """Write some bytes. Return whether that succeeded."""
        try:
            return os.pwrite(self._descriptor, data, self.base + addr) == len(data)
        except OSError:
            return False  # nothing is mapped there

    def is_free(self, start: int, end: int) -> bool:
        """Return whether nothing can be read at the program's addresses [start, end)."""
        first, last = self.base + start, self.base + end
        return all(
            each.end <= first or each.start >= last or each.flags.startswith(_RESERVED)
            for each in maps.read(self.pid)
        )


def base_of(pid: int, file: str, addr: int) -> int:
    """Return the host's address of the program's address 0.

    `addr` is the program's address of the beginning of `file`. Raises RemoteError if the emulator
    has not mapped the file.
    """
    wanted = os.stat(file).st_ino
    starts = [each.start for each in maps.read(pid) if not each.offset and each.inode == wanted]
    if not starts:
        raise RemoteError(f"{file} is not in the emulator's memory")
    return min(starts) - addr
