# SPDX-License-Identifier: Apache-2.0
"""Stubs are run, one by one, under the emulator Unicorn (the extra `emulate`).

Nothing of the file's code runs on this machine's processor, and no loader is needed: the slots
are given addresses that nobody else has, and where a stub ends says which of them it went
through. What lazy slots hold in the file leads to GOT[2] (or wherever the processor's ABI keeps the
resolver), which gets such an address, too; the registers there say what the resolver is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf import mipsgot
from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.stubs.mips import SHORTER
from soscope.errors import SoscopeError
from soscope.inspect.emulatecpu import Cpu, cpu_of
from soscope.model.filemap import CALL_STUB, LAZY, MIPS_STUB, Slot, Stub

_MOST = 64  # instructions; no stub with its resolver's half has half of them
_PIECE = 1 << 16  # bytes of the file at once
_LONGEST = 256  # bytes; no stub has as many
_SPARE = 1 << 10  # pieces
_STEP = 16  # between two of our addresses: no processor minds this alignment
_STACK = 1 << 16
_GAP = 1 << 24
_LINK_MAP = 0x0123_4568  # what the loader's own word of the GOT gets; nobody follows it


class End(NamedTuple):
    """Where a run ended: at an address that is in nobody's memory, or in the middle, `why`."""

    addr: int
    why: str


class Ran(NamedTuple):
    """What one stub did.

    `slot` is the vaddr of the slot that it went through once all of them were bound, None
    where it ended elsewhere. `argument` is what the resolver was given when nothing was bound
    yet, None where the slot is not lazy. `why` says what went wrong, "" where nothing did.
    `selector` is the name of the method that an Objective-C stub asks for, None of others.
    """

    stub: Stub
    slot: int | None
    argument: int | None
    why: str
    selector: str | None = None


def the_library() -> Any:
    """Import Unicorn. Raises SoscopeError (no-extra) where it is not installed."""
    try:
        return import_module("unicorn")
    except ImportError as error:
        raise SoscopeError(
            "stubs cannot be run: the emulator Unicorn is not installed",
            hint="pip install 'soscope[emulate]'",
            slug="no-extra",
        ) from error


class Emulator:
    """A processor, and a file's image in its memory; both are made up as far as they are used.

    `read` returns up to so many bytes at a link-time address, padded with zeros where the
    image has memory without bytes, and none outside of it. `end` lies above all of it, `size` is
    that of the file: no more than twice as much of the memory is ever there, and some.
    """

    def __init__(
        self, cpu: Cpu, read: Callable[[int, int], bytes], end: int, size: int = 1 << 28
    ) -> None:
        """Make one; raises SoscopeError where Unicorn is not installed, or has no room."""
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
        # Unicorn has MIPS of 64 bits without their addresses
        room = 31 if cpu.library == "MIPS" else 32 if cpu.bits == 32 else 40
        if stack + 2 * _GAP > 1 << room:
            raise SoscopeError(f"stubs cannot be run: no room above {end:#x}", slug="no-emulator")
        self._uc.mem_map(stack, _STACK)
        self._top = stack + _STACK // 2
        self.free = stack + _GAP  # addresses from here on are in nobody's memory
        if cpu.library == "MIPS":  # Unicorn itself dies of the next run after a jump to nowhere
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
        """Have what lies around `addr` in memory: not all processors survive that it comes late."""
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
        """Return a register of the run that has ended, by Unicorn's name, or "sp" or "pc"."""
        mask = (1 << self.cpu.bits) - 1
        return int(self._uc.reg_read(self._register(name))) & mask

    def word(self, addr: int) -> int:
        """Return the address-sized number at `addr`, 0 where there is no memory."""
        try:
            return int.from_bytes(self._uc.mem_read(addr, self.cpu.bits // 8), self._order)
        except self._error:
            return 0

    def put(self, addr: int, value: int) -> bool:
        """Write an address-sized number; False where there is no memory."""
        size = self.cpu.bits // 8
        value &= (1 << self.cpu.bits) - 1
        if not all(self._map(at // _PIECE) for at in (addr, addr + size - 1)):
            return False
        self._uc.mem_write(addr, value.to_bytes(size, self._order))
        return True

    @property
    def _order(self) -> Any:
        return "little" if self.cpu.order == "<" else "big"

    def run(self, start: int, registers: Mapping[str, int] | None = None) -> End:
        """Run from `start` on until there is no code any more; registers are otherwise reset."""
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
            # which of them says where it went depends on the processor
            there = max(self._missed, self.register("pc"))
            if there >= self.free:
                return End(there, "")
            return End(self.register("pc"), f"{error} at {self._missed:#x}")
        if self._missed >= self.free:
            return End(self._missed, "")
        return End(self.register("pc"), f"no end after {_MOST} instructions")

    def _is_thumb(self, addr: int) -> bool:
        """Say whether a stub on ARM begins in Thumb: with bx pc or movw."""
        first = int.from_bytes(self._read(addr, 2), "little")
        return first == 0x4778 or first & 0xFBF0 == 0xF240


def run_stubs(mapped: ElfMap) -> Iterator[Ran]:
    """Run every stub of an ELF file: those of lazy slots twice, unbound and bound.

    Raises SoscopeError where Unicorn is not installed or does not know the processor.
    """
    order = mapped.image.encoding.order
    cpu = cpu_of(mapped.arch, mapped.bits, order)
    is_short = mapped.arch.startswith("mips") and (
        mapped.image.header and mapped.image.header.flags & SHORTER
    )
    if cpu is None or is_short:
        raise SoscopeError(
            f"stubs cannot be run: no emulator for {mapped.arch}", slug="no-emulator"
        )
    machine = Emulator(cpu, *_memory(mapped))
    arguments: dict[int, tuple[int | None, str]] = {}
    resolver = machine.free
    magic = {one.vaddr: resolver + _STEP * place for place, one in enumerate(mapped.slots, 1)}
    slots = {addr: vaddr for vaddr, addr in magic.items()}
    bases = _bases(mapped) if mapped.arch == "i386" else [{}]
    registers = _fitting(machine, mapped, magic, bases)
    if _is_lazy(mapped):
        _unbind(machine, mapped)
        _reserve(machine, mapped, resolver)
        for slot in mapped.slots:
            if slot.binding == LAZY:
                machine.map_code(slot.helper or 0)
                for stub in slot.stubs:
                    with_own = _with(machine, mapped, stub, registers)
                    arguments[stub.vaddr] = _first(machine, stub, with_own, resolver)
    elif mapped.arch.startswith("mips"):
        _reserve(machine, mapped, resolver)
    _bind(machine, magic)
    for stub in _stubs(mapped):
        argument, why = arguments.get(stub.vaddr, (None, ""))
        end = machine.run(stub.vaddr, _with(machine, mapped, stub, registers))
        if stub.kind == MIPS_STUB and end.addr == resolver:
            yield Ran(stub, _word_of(mapped, machine.register("T8")), argument, why)
        elif end.addr in slots:
            yield Ran(stub, slots[end.addr], argument, why)
        else:
            yield Ran(stub, None, argument, why or end.why or f"it goes to {end.addr:#x}")


def _is_lazy(mapped: ElfMap) -> bool:
    return any(one.binding == LAZY for one in mapped.slots)


def _stubs(mapped: ElfMap) -> Iterator[Stub]:
    """Give the stubs that can be run: not code that the loader writes, nor what has no slot."""
    for slot in mapped.slots:
        yield from (one for one in slot.stubs if one.vaddr != slot.vaddr)
    yield from (one for one in mapped.stubs_without_slot if one.kind != CALL_STUB)


def _with(
    machine: Emulator, mapped: ElfMap, stub: Stub, registers: Mapping[str, int]
) -> Mapping[str, int]:
    """Return the registers that a stub is entered with."""
    if machine.cpu.set_up is None:
        return registers
    return {**registers, **machine.cpu.set_up(mapped, stub)}


def _reserve(machine: Emulator, mapped: ElfMap, resolver: int) -> None:
    """Fill the words that the loader keeps for itself."""
    cpu = machine.cpu
    told = cpu.reserved(mapped) if cpu.reserved else (mapped.image.dynamic.get(c.DT_PLTGOT),)
    for got in told:
        for place in cpu.link_map if got else ():
            machine.put((got or 0) + place * cpu.bits // 8, _LINK_MAP)
        if got:
            machine.put(got + cpu.resolver * cpu.bits // 8, resolver)


def _word_of(mapped: ElfMap, symbol: int) -> int | None:
    """Return the word of a GOT on MIPS that belongs to a symbol."""
    where = mipsgot.first_word(mapped.image)
    return None if where is None else where[0] + (symbol - where[1]) * mapped.bits // 8


def _bind(machine: Emulator, magic: Mapping[int, int]) -> None:
    for vaddr, addr in magic.items():
        machine.put(vaddr, addr)


def _unbind(machine: Emulator, mapped: ElfMap) -> None:
    size = mapped.bits // 8
    for slot in mapped.slots:
        data = machine._read(slot.vaddr, size)
        if len(data) == size:
            machine.put(slot.vaddr, int.from_bytes(data, machine._order))


def _first(
    machine: Emulator, stub: Stub, registers: Mapping[str, int], resolver: int
) -> tuple[int | None, str]:
    """Return (argument, what went wrong) of the first call of a stub."""
    end = machine.run(stub.vaddr, registers)
    if end.addr != resolver or machine.cpu.given is None:
        return None, f"the first call: {end.why or f'it goes to {end.addr:#x}'}"
    link_map, argument = machine.cpu.given(machine)
    if link_map != _LINK_MAP:
        return argument, f"the first call: the resolver is given the link map {link_map:#x}"
    return argument, ""


def _bases(mapped: ElfMap) -> list[dict[str, int]]:
    """Return what %ebx may hold: _GLOBAL_OFFSET_TABLE_, which not every linker puts alike."""
    named = [one.vaddr for one in mapped.sections.all if one.name in (".got.plt", ".got")]
    told = mapped.image.dynamic.get(c.DT_PLTGOT)
    return [{"EBX": one} for one in dict.fromkeys([*([] if told is None else [told]), *named])]


def _fitting(
    machine: Emulator, mapped: ElfMap, magic: Mapping[int, int], choices: list[dict[str, int]]
) -> dict[str, int]:
    """Return the registers with which most stubs reach their slot."""
    if len(choices) < 2:
        return choices[0] if choices else {}
    _bind(machine, magic)
    stubs = [stub for slot in mapped.slots for stub in slot.stubs][:16]

    def fitting(registers: dict[str, int]) -> int:
        return sum(machine.run(one.vaddr, registers).addr == magic[one.slot] for one in stubs)

    return max(choices, key=fitting)


def _memory(mapped: ElfMap) -> tuple[Callable[[int, int], bytes], int]:
    """Return how to read a file as its loader maps it, and where its memory ends."""
    loads = [one for one in mapped.image.segments if one.type == c.PT_LOAD and one.memsz]
    source = mapped.image.source

    def read(vaddr: int, size: int) -> bytes:
        data = bytearray(size)
        is_there = False
        for one in loads:
            start, end = max(vaddr, one.vaddr), min(vaddr + size, one.vaddr + one.memsz)
            if start >= end:
                continue
            is_there = True
            held = min(end, one.vaddr + one.filesz) - start
            if held > 0:
                piece = source.read(one.offset + start - one.vaddr, held)
                data[start - vaddr : start - vaddr + len(piece)] = piece
        return bytes(data) if is_there else b""

    return read, max((one.vaddr + one.memsz for one in loads), default=0)


def disagreement(slot: Slot, ran: Ran) -> str:
    """Say in what a run differs from what the file says of a slot, "" where it does not."""
    if ran.why:
        return ran.why
    if ran.slot != slot.vaddr:
        return f"it goes through the slot at {ran.slot or 0:#x}"
    is_told = slot.binding == LAZY or ran.argument is not None
    if is_told and ran.argument != slot.resolver_argument:
        given, right = ran.argument or 0, slot.resolver_argument or 0
        return f"the resolver is given {given:#x}, not {right:#x}"
    if ran.stub.selector is not None and ran.selector != ran.stub.selector:
        return f"it asks for the method {ran.selector}, not {ran.stub.selector}"
    return ""
