# SPDX-License-Identifier: Apache-2.0
"""The frames of a thread of another process, by the unwind tables of its images.

A walk is reliable only if it comes to an explicit end, because then each step was right.
Compilers and the C library describe every instruction (-fasynchronous-unwind-tables), including
the prologue and epilogue of functions, stubs, signal frames and the vDSO. Code of no image, and
images without tables, end a walk early.
"""

from __future__ import annotations

from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.unwind import FrameTable, Row, caller
from soscope.entry.guest.places import CodePlaces
from soscope.entry.isa import arch
from soscope.entry.memory import RemoteMemory
from soscope.errors import FormatError
from soscope.proc import maps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.binfmt.elf.unwind import Registers, Word
    from soscope.entry.agent.visit import Visit

MOST_FRAMES = 50_000  # takes a twentieth of a second
_ENTRY = 32  # bytes of a program's start code, which has no tables

# The end of a walk.
EARLY = "early"  # the next caller is not known
SAID = "said"  # the tables mark the outermost frame
ZERO = "zero"  # the return address is 0 or in the program's start code


class Walk:
    """A walk from a thread's registers up its stack.

    `places` are the program counter and, for each caller, the last byte of its call instruction.
    `end` tells how the walk ended, and `sp` is the stack pointer there.
    """

    __slots__ = ("end", "places", "sp")

    def __init__(self) -> None:
        self.places: list[int] = []
        self.end = EARLY
        self.sp = 0


class Frames:
    """Walks stacks of one process, which need not be stopped: the tables do not change."""

    __slots__ = ("_entry", "_memory", "_places", "_rows", "_tables")

    def __init__(self, visit: Visit, places: CodePlaces) -> None:
        self._memory: RemoteMemory = visit.memory
        self._places = places
        self._entry = visit.facts.auxv.get(maps.AT_ENTRY, 0)
        self._tables: dict[int, tuple[FrameTable, int] | None] = {}
        self._rows: dict[int, Row | None] = {}

    def walk(self, registers: Registers, read: Word, most: int = MOST_FRAMES) -> Walk:
        """Walk at most `most` frames of a stack, whose words `read` returns."""
        walk = Walk()
        back = 0  # 1: a return address may be in the next function
        for _ in range(most):
            pc, sp = registers.get(arch.PC_COLUMN), registers.get(arch.SP_COLUMN)
            if pc is None or sp is None:
                break
            walk.sp = sp
            if not pc and back:
                walk.end = ZERO
                break
            walk.places.append(pc - back)
            row = self._row(pc - back)
            if row is None:
                if back and 0 < pc - self._entry < _ENTRY:
                    walk.end = ZERO
                break
            if row.is_last:
                walk.end = SAID
                break
            try:
                above = caller(row, registers, read, arch.SP_COLUMN)
            except FormatError:
                break  # damaged rules end the walk like missing ones
            leads_elsewhere = row.is_signal or arch.SP_COLUMN in row.rules
            if not leads_elsewhere and (above[arch.SP_COLUMN] or 0) <= sp:
                break
            back = 0 if row.is_signal else 1
            registers = above
        return walk

    def _row(self, addr: int) -> Row | None:
        """Return the row of the unwind tables for an address, None if there is none."""
        if addr in self._rows:
            return self._rows[addr]
        row = None
        base = self._places.image_at(addr)
        if base and base not in self._tables:
            self._tables[base] = self._table(base)
        home = self._tables[base] if base else None
        if home is not None:
            table, bias = home
            try:
                row = table.row(addr - bias)
            except FormatError:
                row = None
        if row is not None and row.returns != arch.PC_COLUMN:
            row = None
        self._rows[addr] = row
        return row

    def _table(self, base: int) -> tuple[FrameTable, int] | None:
        try:
            image = ElfImage.from_memory(self._memory, base)
            return FrameTable(image), image.load_bias
        except FormatError:
            return None  # the walk ends there, so the thread is not used
