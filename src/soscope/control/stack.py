# SPDX-License-Identifier: Apache-2.0
"""The stack of a dying thread: copied while it is stopped, walked when it is gone.

The registers, the mappings and the top of the stack are copied. Everything else is read from the
mapped files.
"""

from __future__ import annotations

import os

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.unwind import FrameTable, Registers, Row, caller
from soscope.binfmt.source import FileSource
from soscope.entry.isa import arch
from soscope.errors import FormatError, SoscopeError
from soscope.live.names.locate import Locator
from soscope.live.names.staticnames import ImageNames, open_regular
from soscope.proc import maps
from soscope.proc.memory import ProcessMemory

MOST_FRAMES = 64
_STACK = 1 << 20  # bytes of the stack that are copied
_WORD = 8
_SP, _PC = arch.SP_COLUMN, arch.PC_COLUMN


class Snapshot:
    """The state of a stopped thread. Raises OSError if the thread is gone."""

    __slots__ = ("mappings", "memory", "registers", "start")

    def __init__(self, tid: int) -> None:
        registers = arch.get_registers(tid)
        self.registers: Registers = registers.columns()
        self.mappings = maps.read(tid)
        lowest = max(registers.sp - arch.RED_ZONE, 0)
        home = next((area for area in self.mappings if _is_stack(area, lowest)), None)
        self.start = max(lowest, home.start) if home else lowest
        size = min(home.end - self.start, _STACK) if home else 0
        memory = ProcessMemory(tid)
        try:
            self.memory = memory.read(self.start, size) if size else b""
        finally:
            memory.close()

    def word(self, addr: int) -> int | None:
        """Return a word of the stack, or None if it was not copied."""
        at = addr - self.start
        if at < 0 or at + _WORD > len(self.memory):
            return None
        return int.from_bytes(self.memory[at : at + _WORD], "little")


def _is_stack(area: maps.Mapping, lowest: int) -> bool:
    """Return whether a mapping has the bytes from `lowest` on, or just above after an overflow."""
    return area.flags[0] == "r" and area.end > lowest and area.start < lowest + _STACK


class _File:
    """A mapped file. If it cannot be read, it has no symbols and no frame table."""

    __slots__ = ("_fd", "_frames", "_image", "_locator", "name")

    def __init__(self, path: str) -> None:
        self.name = os.path.basename(path)
        self._image: ElfImage | None = None
        self._frames: FrameTable | None = None
        self._locator: Locator | None = None
        self._fd = open_regular(path)
        if self._fd is None:
            return
        try:
            self._image = image = ElfImage.from_source(FileSource(self._fd, path))
            self.name = image.soname or self.name  # images are printed with this name
            names = ImageNames(image, build_id=image.build_id, path=path, roots=[""])
            self._locator = Locator(image, names)
            self._frames = FrameTable(image)
        except (SoscopeError, OSError):
            pass  # continue with what is known

    def vaddr(self, offset: int) -> int | None:
        """Return the link-time address of an offset in the file."""
        for segment in self._image.segments if self._image else ():
            if segment.type == c.PT_LOAD and 0 <= offset - segment.offset < segment.filesz:
                return offset - segment.offset + segment.vaddr
        return None

    def row(self, vaddr: int) -> Row | None:
        """Return the row of the frame table (CFI) for an address, None without one."""
        return self._frames.row(vaddr) if self._frames else None

    def place(self, vaddr: int, back: int) -> str:
        """Return IMAGE!FUNCTION+0xOFFSET for an address. `vaddr - back` is in the function."""
        place = None
        if self._locator is not None:
            try:
                place = self._locator.at(vaddr - back)
            except (SoscopeError, OSError):
                pass  # damaged symbols
        if place is None or not place.is_found or place.symbol is None:
            return f"{self.name}+{vaddr:#x}"
        return f"{self.name}!{place.symbol.name}+{place.offset + back:#x}"

    def close(self) -> None:
        """Close the file."""
        if self._fd is not None:
            os.close(self._fd)


def walk(snapshot: Snapshot) -> list[str]:
    """Return the frames, innermost first, as IMAGE!FUNCTION+0xOFFSET.

    The walk ends early if a frame has no unwind information.
    """
    walker = _Walker(snapshot)
    try:
        return walker.frames()
    finally:
        walker.close()


class _Walker:
    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._files: dict[str, _File] = {}

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    def frames(self) -> list[str]:
        frames: list[str] = []
        registers = self._snapshot.registers
        back = 0  # 1: a return address may be in the next function
        for _ in range(MOST_FRAMES):
            pc = registers.get(_PC)
            if not pc and frames:
                break
            file, vaddr = self._home(pc or 0, back)
            row = None
            if file is None or vaddr is None:
                frames.append(f"{pc or 0:#x}")
                if len(frames) > 1:
                    break
            else:
                frames.append(file.place(vaddr, back))
                try:
                    row = file.row(vaddr - back)
                except (SoscopeError, OSError):
                    break  # the file's tables are damaged
            if row is None and len(frames) > 1:
                break
            try:
                above = self._caller(registers, row)
            except FormatError:
                break  # registers that cannot be computed, or memory not copied
            if (above[_SP] or 0) <= (registers[_SP] or 0):
                break
            back = 0 if row is not None and row.is_signal else 1
            registers = above
        return frames

    def _home(self, pc: int, back: int) -> tuple[_File | None, int | None]:
        for mapping in self._snapshot.mappings:
            if mapping.start <= pc - back < mapping.end and mapping.path.startswith("/"):
                file = self._files.get(mapping.path)
                if file is None:
                    file = self._files[mapping.path] = _File(mapping.path)
                vaddr = file.vaddr(pc - back - mapping.start + mapping.offset)
                return file, None if vaddr is None else vaddr + back
        return None, None

    def _caller(self, registers: Registers, row: Row | None) -> Registers:
        """Return the caller's registers. Raises FormatError if they cannot be computed."""
        read = self._snapshot.word
        if row is not None:
            return caller(row, registers, read, _SP)
        sp = registers[_SP] or 0  # a leaf: its return address is on top of the stack
        return registers | {_PC: read(sp), _SP: sp + _WORD}
