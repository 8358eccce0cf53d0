# SPDX-License-Identifier: Apache-2.0
"""Memory for copies of instructions: the rest of a page behind an image's code.

It is mapped, executable and unused. So nothing has to be mapped, for which a thread of the
process would have to be stopped and made to call the kernel.
"""

from __future__ import annotations

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.reader import Segment
from soscope.entry.memory import RemoteMemory

_PAGE = 4096


class _Cave:
    __slots__ = ("before", "end", "free", "start")

    def __init__(self, start: int, end: int, before: bytes, size: int) -> None:
        self.start = start
        self.end = end
        self.before = before
        self.free = list(range(start, end - size + 1, size))


class Caves:
    """Cells of `size` bytes in one process."""

    __slots__ = ("_caves", "_memory", "_size")

    def __init__(self, memory: RemoteMemory, size: int) -> None:
        self._memory = memory
        self._size = size
        self._caves: list[_Cave] = []

    def add(self, segments: list[Segment], bias: int) -> None:
        """Add the free memory of the image with these segments, whose code is mapped already."""
        loads = [each for each in segments if each.type == c.PT_LOAD]
        for each in loads:
            if not each.flags & c.PF_X or each.flags & c.PF_W or each.memsz != each.filesz:
                continue
            start = each.vaddr + each.filesz + 15 & -16
            end = each.vaddr + each.filesz + _PAGE - 1 & -_PAGE
            is_used = any(
                other is not each and other.vaddr < end and other.vaddr + other.memsz > start
                for other in loads
            )
            if is_used or end - start < self._size or self.has(start + bias):
                continue
            before = self._memory.read(start + bias, end - start)
            if len(before) == end - start:
                self._caves.append(_Cave(start + bias, end + bias, before, self._size))

    def has(self, start: int) -> bool:
        """Return whether the memory that begins at an address was added already."""
        return any(cave.start == start for cave in self._caves)

    def take(self, near: int) -> list[int]:
        """Return a free cell of each cave, the nearest first. The caller passes one to `keep`."""
        free = [cave.free[-1] for cave in self._caves if cave.free]
        return sorted(free, key=lambda at: abs(at - near))

    def keep(self, cell: int) -> None:
        """Mark a cell as used."""
        for cave in self._caves:
            if cave.start <= cell < cave.end:
                cave.free.remove(cell)

    def give(self, cell: int) -> None:
        """Take back a cell that no thread runs any more."""
        for cave in self._caves:
            if cave.start <= cell < cave.end:
                cave.free.append(cell)

    def spare(self) -> int | None:
        """Return the address of a byte that is in no copy, None if there is none."""
        return next((cave.free[0] for cave in self._caves if cave.free), None)

    def forget(self, start: int, end: int) -> None:
        """Drop the caves in memory that was unmapped."""
        self._caves = [cave for cave in self._caves if not start <= cave.start < end]

    def __contains__(self, addr: int) -> bool:
        """Return whether an address is in a cave."""
        return any(cave.start <= addr < cave.end for cave in self._caves)

    def copy_for(self, memory: RemoteMemory) -> Caves:
        """Return a copy for a forked process, whose memory is `memory`."""
        caves = Caves(memory, self._size)
        for cave in self._caves:
            copy = _Cave(cave.start, cave.end, cave.before, self._size)
            copy.free = list(cave.free)
            caves._caves.append(copy)
        return caves

    def places(self) -> list[tuple[int, bytes]]:
        """Return each cave's start address and its original bytes."""
        return [(cave.start, cave.before) for cave in self._caves]
