# SPDX-License-Identifier: Apache-2.0
"""A processor of the emulator Unicorn (the extra `emulate`), with a file's image in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

from soscope.binfmt.source import ByteSource
from soscope.errors import SoscopeError
from soscope.inspect.check.emulatecpu import Cpu
from soscope.model.filemap import Stub

STEP = 16  # between two of soscope's addresses; a valid alignment everywhere
_MOST = 64  # instructions; no stub with its resolver's half has half as many
_PIECE = 1 << 16  # bytes of the file in one read
_LONGEST = 256  # bytes; no stub is longer
_SPARE = 1 << 10  # pieces
_MOST_PARTS = 1 << 8  # parts of an image; kernels have less than half as many
_STACK = 1 << 16
_GAP = 1 << 24


class End(NamedTuple):
    """The end of a run: at an unmapped address, or in the middle, with the reason `why`."""

    addr: int
    why: str


class Ran(NamedTuple):
    """The results of running one stub.

    `slot` is the vaddr of the slot that it went through when all slots were bound, None if it
    ended elsewhere. `argument` is the resolver's argument when no slot was bound, None if the
    slot is not lazy. `why` tells what went wrong, "" if nothing did. `selector` is the method's
    name that an Objective-C stub loads, None for other stubs.
    """

    stub: Stub
    slot: int | None
    argument: int | None
    why: str
    selector: str | None = None


class MemoryPart(NamedTuple):
    """A part of an image's memory; the file has its first `held` bytes, at `offset`."""

    vaddr: int
    size: int
    offset: int
    held: int


def memory(
    parts: Sequence[MemoryPart], source: ByteSource
) -> tuple[Callable[[int, int], bytes], int]:
    """Return a function that reads an image as its loader maps it, and the end of its memory.

    Raises SoscopeError (no-emulator) if it has more parts than any linker makes.
    """
    if len(parts) > _MOST_PARTS:
        raise cannot(f"{len(parts)} segments")

    def read(vaddr: int, size: int) -> bytes:
        data = bytearray(size)
        is_there = False
        for part in parts:
            start, end = max(vaddr, part.vaddr), min(vaddr + size, part.vaddr + part.size)
            if start >= end:
                continue
            is_there = True
            held = min(end, part.vaddr + part.held) - start
            if held > 0:
                piece = source.read(part.offset + start - part.vaddr, held)
                data[start - vaddr : start - vaddr + len(piece)] = piece
        return bytes(data) if is_there else b""

    return read, max((part.vaddr + part.size for part in parts), default=0)


def cannot(why: str) -> SoscopeError:
    """Make the error for an image whose stubs cannot be run."""
    return SoscopeError(f"stubs cannot be run: {why}", slug="no-emulator")


def the_library() -> Any:
    """Import Unicorn. Raises SoscopeError (no-extra) if it is not installed."""
    try:
        return import_module("unicorn")
    except ImportError as error:
        raise SoscopeError(
            "stubs cannot be run: the emulator Unicorn is not installed",
            hint="pip install 'soscope[emulate]'",
            slug="no-extra",
        ) from error


class Emulator:
    """A processor, and a file's image in its memory, of which only the parts in use are created.

    `read` returns up to a given number of bytes at a link-time address. They are padded with
    zeros if the image has memory without bytes in the file, and there are none outside of the
    image. `end` lies above the whole image. `size` is the file's size: at most about twice as
    much memory is ever mapped.
    """

    def __init__(
        self, cpu: Cpu, read: Callable[[int, int], bytes], end: int, size: int = 1 << 28
    ) -> None:
        """Make one; raises SoscopeError if Unicorn is not installed or has no room."""
        unicorn = the_library()
        self.cpu = cpu
        self._read = read
        self._names: dict[str, int] = {}
        self._constants: Any = import_module(f"unicorn.{cpu.library.lower()}_const")
        self._error: type[Exception] = unicorn.UcError
        mode = sum(getattr(unicorn, name) for name in cpu.mode)
        self._uc: Any = unicorn.Uc(getattr(unicorn, f"UC_ARCH_{cpu.library}"), mode)
        if cpu.model:
            self._uc.ctl_set_cpu_model(getattr(self._constants, cpu.model))
        self._mapped: set[int] = set()
        self._most = 2 * size // _PIECE + _SPARE
        self._missed = 0
        self._uc.hook_add(unicorn.UC_HOOK_MEM_UNMAPPED, self._fill)
        stack = (end + _GAP) // _GAP * _GAP
        # Unicorn has 64-bit MIPS, but without 64-bit addresses
        room = 31 if cpu.library == "MIPS" else 32 if cpu.bits == 32 else 40
        if stack + 2 * _GAP > 1 << room:
            raise cannot(f"no room above {end:#x}")
        self._uc.mem_map(stack, _STACK)
        self._top = stack + _STACK // 2
        self.free = stack + _GAP  # no memory from this address on
        if cpu.library == "MIPS":  # Unicorn crashes in the next run after a jump to unmapped memory
            self._uc.mem_map(self.free, _GAP)
            where = {"begin": self.free, "end": self.free + _GAP - 1}
            self._uc.hook_add(unicorn.UC_HOOK_CODE, self._end, **where)
        self._start = self._uc.context_save()

    def _fill(self, _uc: Any, _access: int, addr: int, size: int, _value: int, _data: Any) -> bool:
        self._missed = addr
        first, last = addr // _PIECE, (addr + max(size, 1) - 1) // _PIECE
        return all(self._map(place) for place in range(first, last + 1))

    def _end(self, _uc: Any, addr: int, _size: int, _data: Any) -> None:
        self._missed = addr
        self._uc.emu_stop()

    def _map(self, place: int) -> bool:
        if place in self._mapped:
            return True
        data = self._read(place * _PIECE, _PIECE) if len(self._mapped) < self._most else b""
        if not data:
            return False
        self._uc.mem_map(place * _PIECE, _PIECE)
        self._uc.mem_write(place * _PIECE, data)
        self._mapped.add(place)
        return True

    def map_code(self, addr: int) -> None:
        """Map the memory around `addr` in advance: not all processors support mapping on demand."""
        self._map(addr // _PIECE)
        self._map((addr + _LONGEST) // _PIECE)

    def _register(self, name: str) -> int:
        number = self._names.get(name)
        if number is None:
            full = {"sp": self.cpu.stack, "pc": self.cpu.counter}.get(name, name)
            number = getattr(self._constants, f"UC_{self.cpu.library}_REG_{full}")
            self._names[name] = number
        return number

    def register(self, name: str) -> int:
        """Return a register after the run, by Unicorn's name, or "sp" or "pc"."""
        mask = (1 << self.cpu.bits) - 1
        return int(self._uc.reg_read(self._register(name))) & mask

    def word(self, addr: int) -> int:
        """Return the address-sized number at `addr`, 0 if there is no memory."""
        try:
            return int.from_bytes(self._uc.mem_read(addr, self.cpu.bits // 8), self._order)
        except self._error:
            return 0

    def put(self, addr: int, value: int) -> bool:
        """Write an address-sized number; return False if there is no memory."""
        size = self.cpu.bits // 8
        value &= (1 << self.cpu.bits) - 1
        if not all(self._map(at // _PIECE) for at in (addr, addr + size - 1)):
            return False
        self._uc.mem_write(addr, value.to_bytes(size, self._order))
        return True

    def put_back(self, addr: int) -> None:
        """Write the file's address-sized number at `addr` back, if it has one."""
        size = self.cpu.bits // 8
        data = self._read(addr, size)
        if len(data) == size:
            self.put(addr, int.from_bytes(data, self._order))

    @property
    def _order(self) -> Any:
        return "little" if self.cpu.order == "<" else "big"

    def run(self, start: int, registers: Mapping[str, int] | None = None) -> End:
        """Run from `start` until there is no code; registers not given are reset."""
        self._uc.context_restore(self._start)
        self._uc.reg_write(self._register("sp"), self._top)
        for name, value in (*self.cpu.registers, *(registers or {}).items()):
            self._uc.reg_write(self._register(name), value)
        self.map_code(start)
        self._missed = 0
        if self.cpu.library == "ARM" and self._is_thumb(start):
            start |= 1
        try:
            self._uc.emu_start(start, (1 << self.cpu.bits) - 2, 0, _MOST)
        except self._error as error:
            # which of them has the target depends on the processor
            there = max(self._missed, self.register("pc"))
            if there >= self.free:
                return End(there, "")
            return End(self.register("pc"), f"{error} at {self._missed:#x}")
        if self._missed >= self.free:
            return End(self._missed, "")
        return End(self.register("pc"), f"no end after {_MOST} instructions")

    def _is_thumb(self, addr: int) -> bool:
        """Return whether a stub on ARM begins with Thumb code: bx pc or movw."""
        first = int.from_bytes(self._read(addr, 2), "little")
        return first == 0x4778 or first & 0xFBF0 == 0xF240
