# SPDX-License-Identifier: Apache-2.0
"""Run stubs one by one under the emulator Unicorn (the extra `emulate`).

Nothing of the file's code runs on this machine's processor, and no loader is needed.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.isa import part as isa_part
from soscope.binfmt.macho import image as macho_c
from soscope.binfmt.macho.filemap import MachoMap
from soscope.binfmt.macho.fixups import FORMATS, is_bind
from soscope.binfmt.macho.image import MachoImage
from soscope.binfmt.source import ByteSource, length
from soscope.errors import SoscopeError
from soscope.inspect.check.processors import Cpu, Processor, elf_cpu, macho_processor
from soscope.model.arch import arch_of_cputype
from soscope.model.filemap import CALL_STUB, JUMP_TABLE, LAZY, MIPS_STUB, OBJC_STUB, FileSlot, Stub

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

# A processor of the emulator Unicorn (the extra `emulate`), with a file's image in memory.

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


# Run the stubs of an ELF file.
#
# Unbound lazy slots lead to GOT[2] (or to the word that the processor's ABI uses for the resolver).
# That word gets an unmapped address. When the run ends there, the registers tell the resolver's
# arguments.

_LINK_MAP = 0x0123_4568  # value of the loader's own word in the GOT; never used as an address


def run_elf(mapped: ElfMap) -> Iterator[Ran]:
    """Run every stub of an ELF file; stubs of lazy slots run twice, unbound and bound.

    Raises SoscopeError if Unicorn is not installed or does not support the processor.
    """
    arch, order = mapped.machine, mapped.image.encoding.order
    cpu = None if arch is None or arch.bits != mapped.bits else elf_cpu(arch, order)
    if cpu is None or cpu.order != order or (cpu.cannot is not None and cpu.cannot(mapped)):
        raise cannot(f"no emulator for {mapped.arch}")
    machine = Emulator(cpu, *memory_of(mapped), length(mapped.image.source))
    arguments: dict[int, tuple[int | None, str]] = {}
    resolver = machine.free
    magic = {slot.vaddr: resolver + STEP * place for place, slot in enumerate(mapped.slots, 1)}
    slots = {addr: vaddr for vaddr, addr in magic.items()}
    bases = cpu.bases(mapped) if cpu.bases is not None else [{}]
    registers = _fitting(machine, mapped, magic, bases)
    if _is_lazy(mapped):
        for slot in mapped.slots:
            machine.put_back(slot.vaddr)
        _reserve(machine, mapped, resolver)
        for slot in mapped.slots:
            if slot.binding == LAZY:
                machine.map_code(slot.helper or 0)
                for stub in slot.stubs:
                    with_own = _with(machine, mapped, stub, registers)
                    arguments[stub.vaddr] = _first(machine, stub, with_own, resolver)
    elif cpu.asked_for is not None:
        _reserve(machine, mapped, resolver)
    _bind(machine, magic)
    for stub in _stubs(mapped):
        argument, why = arguments.get(stub.vaddr, (None, ""))
        end = machine.run(stub.vaddr, _with(machine, mapped, stub, registers))
        if cpu.asked_for is not None and stub.kind == MIPS_STUB and end.addr == resolver:
            yield Ran(stub, cpu.asked_for(mapped, machine), argument, why)
        elif end.addr in slots:
            yield Ran(stub, slots[end.addr], argument, why)
        else:
            yield Ran(stub, None, argument, why or end.why or f"it goes to {end.addr:#x}")


def _is_lazy(mapped: ElfMap) -> bool:
    return any(slot.binding == LAZY for slot in mapped.slots)


def _stubs(mapped: ElfMap) -> Iterator[Stub]:
    """Yield the stubs to run: not code that the loader writes, nor stubs without a slot."""
    for slot in mapped.slots:
        yield from (stub for stub in slot.stubs if stub.vaddr != slot.vaddr)
    yield from (stub for stub in mapped.stubs_without_slot if stub.kind != CALL_STUB)


def _with(
    machine: Emulator, mapped: ElfMap, stub: Stub, registers: Mapping[str, int]
) -> Mapping[str, int]:
    """Return the registers at a stub's entry."""
    if machine.cpu.set_up is None:
        return registers
    return {**registers, **machine.cpu.set_up(mapped, stub)}


def _reserve(machine: Emulator, mapped: ElfMap, resolver: int) -> None:
    """Fill the words that are reserved for the loader."""
    cpu = machine.cpu
    told = cpu.reserved(mapped) if cpu.reserved else (mapped.image.dynamic.get(c.DT_PLTGOT),)
    for got in told:
        for place in cpu.link_map if got else ():
            machine.put((got or 0) + place * cpu.bits // 8, _LINK_MAP)
        if got:
            machine.put(got + cpu.resolver * cpu.bits // 8, resolver)


def _bind(machine: Emulator, magic: Mapping[int, int]) -> None:
    for vaddr, addr in magic.items():
        machine.put(vaddr, addr)


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


def _fitting(
    machine: Emulator, mapped: ElfMap, magic: Mapping[int, int], choices: list[dict[str, int]]
) -> dict[str, int]:
    """Return the choice of registers with which most stubs reach their slot."""
    if len(choices) < 2:
        return choices[0] if choices else {}
    _bind(machine, magic)
    stubs = [stub for slot in mapped.slots for stub in slot.stubs][:16]

    def fitting(registers: dict[str, int]) -> int:
        return sum(machine.run(stub.vaddr, registers).addr == magic[stub.slot] for stub in stubs)

    return max(choices, key=fitting)


def memory_of(mapped: ElfMap) -> tuple[Callable[[int, int], bytes], int]:
    """Return a function that reads a file as its loader maps it, and the end of its memory."""
    parts = [
        MemoryPart(segment.vaddr, segment.memsz, segment.offset, segment.filesz)
        for segment in mapped.image.segments
        if segment.type == c.PT_LOAD and segment.memsz
    ]
    return memory(parts, mapped.image.source)


# Run the stubs of a Mach-O image.
#
# The first call through a lazy slot must reach dyld: the address to which dyld_stub_binder is
# bound, or before LC_DYLD_INFO the address that dyld writes to the first word of __dyld. There dyld
# gets two arguments. One is what to bind: the offset of a lazy bind record, or before LC_DYLD_INFO
# the address of the slot. The other identifies the image: the address of a word that dyld keeps for
# the image, or before LC_DYLD_INFO of its header. In dyld's dyld_stub_binder.s and the C start-up
# files' dyld_glue.s both are on the stack, on PowerPC in r11 and r12.

_BINDER = "dyld_stub_binder"
_DYLD = "__dyld"  # its first word is dyld's entry point for unbound slots
_SELREFS = "__objc_selrefs"
_LONGEST_SELECTOR = 4096
_OBJECT = "object"
_WRITABLE = 2  # bit of a segment's protection


def run_macho(mapped: MachoMap) -> Iterator[Ran]:
    """Run every stub of an image; stubs of lazy slots run twice, unbound and bound.

    Entries of a __jump_table are left out, because they are no code before dyld has written them.
    Raises SoscopeError if Unicorn is not installed (no-extra), or if it does not support the
    processor or has no room (no-emulator).
    """
    arch = arch_of_cputype(mapped.image.header.cpu)
    processor = None if arch is None else macho_processor(arch)
    if processor is None or processor.cpu.order != mapped.image.encoding.order:
        raise cannot(f"no emulator for {mapped.arch}")
    if mapped.kind == _OBJECT:
        raise cannot("an object file has no addresses yet")
    yield from _Run(mapped, processor).all()


class _Run:
    """An image in the memory of an emulated processor, with all lazy slots unbound."""

    def __init__(self, mapped: MachoMap, processor: Processor) -> None:
        self.mapped = mapped
        self.processor = processor
        self.machine = Emulator(processor.cpu, *_memory(mapped.image), mapped.image.size)
        free = self.machine.free
        if free + STEP * (len(mapped.slots) + 2) > 1 << mapped.bits:
            raise cannot("more slots than free addresses")
        self.magic = {slot.vaddr: free + STEP * n for n, slot in enumerate(mapped.slots, 2)}
        self.slots = {addr: vaddr for vaddr, addr in self.magic.items()}
        self.binders = set() if mapped.image.dyld_info else {free}
        self._fill()

    def _fill(self) -> None:
        """Do what dyld does when it loads the image."""
        mapped, machine = self.mapped, self.machine
        word = mapped.bits // 8
        for section in mapped.image.sections:
            if section.short_name == _DYLD and section.size >= 2 * word:
                machine.put(section.vaddr, machine.free)
                machine.put(section.vaddr + word, machine.free + STEP)
        if any(stub.kind == OBJC_STUB for stub in mapped.stubs):
            self._rebase_selectors()
        for slot in mapped.slots:
            if slot.symbol == _BINDER:
                self.binders.add(self.magic[slot.vaddr])
            if not _has_lazy_half(slot):
                machine.put(slot.vaddr, self.magic[slot.vaddr])

    def _rebase_selectors(self) -> None:
        """Write the addresses of selectors to their pointers, if the file has chains in them."""
        sections = [
            section
            for section in self.mapped.image.sections
            if section.type == macho_c.S_LITERAL_POINTERS or section.short_name == _SELREFS
        ]
        wanted = macho_c.Ranges(
            [(section.vaddr, section.vaddr + section.size) for section in sections]
        )
        fixups = self.mapped.cells.fixups
        for vaddr, word, starts in fixups.words(wanted):
            if wanted.has(vaddr) and not is_bind(word, FORMATS[starts.format]):
                self.machine.put(vaddr, fixups.target(word, starts) or 0)

    def all(self) -> Iterator[Ran]:
        """Run the stubs."""
        machine = self.machine
        first: dict[int, tuple[int | None, str]] = {}
        for slot in self.mapped.slots:
            if _has_lazy_half(slot):
                machine.map_code(slot.helper or 0)
                for stub in slot.stubs:
                    if stub.kind != JUMP_TABLE:
                        first[stub.vaddr] = self._first(slot, stub)
        for vaddr, addr in self.magic.items():
            machine.put(vaddr, addr)
        stubs = [stub for slot in self.mapped.slots for stub in slot.stubs]
        for stub in sorted({*stubs, *self.mapped.stubs_without_slot}, key=_place):
            if stub.kind != JUMP_TABLE:
                yield self._second(stub, *first.get(stub.vaddr, (None, "")))

    def _first(self, slot: FileSlot, stub: Stub) -> tuple[int | None, str]:
        """Return (what to bind, what went wrong) of the first call of a stub."""
        end = self.machine.run(stub.vaddr)
        if end.addr not in self.binders:
            # A slot that is always bound at load time needs no lazy half.
            why = f"the first call: {end.why or f'it goes to {end.addr:#x}'}"
            return None, why if slot.binding == LAZY else ""
        whose, argument = self.processor.given(self.machine)
        image = self.mapped.image
        if not image.dyld_info:
            is_right = whose == image.base
        else:
            is_right = any(
                segment.protection & _WRITABLE
                and segment.vaddr <= whose < segment.vaddr + segment.size
                for segment in image.segments
            )
        if is_right:
            return argument, ""
        what = "word that dyld may keep" if image.dyld_info else "image's header"
        return argument, f"the first call: dyld is given {whose:#x}, which is no {what}"

    def _second(self, stub: Stub, argument: int | None, why: str) -> Ran:
        end = self.machine.run(stub.vaddr)
        slot = self.slots.get(end.addr)
        if slot is None:
            why = why or end.why or f"it goes to {end.addr:#x}"
        selector = None
        if stub.kind == OBJC_STUB and self.processor.second:
            selector = self._text(self.machine.register(self.processor.second))
        return Ran(stub, slot, argument, why, selector)

    def _text(self, vaddr: int) -> str | None:
        data, separator, _ = self.mapped.image.read(vaddr, _LONGEST_SELECTOR).partition(b"\0")
        return data.decode("utf-8", "surrogateescape") if separator else None


def _place(stub: Stub) -> int:
    return stub.vaddr


def _has_lazy_half(slot: FileSlot) -> bool:
    """Return whether the file has a helper and a record for a slot, or should have them."""
    if slot.binding == LAZY:
        return True
    return slot.resolver_argument is not None and slot.helper is not None


def _memory(image: MachoImage) -> tuple[Callable[[int, int], bytes], int]:
    """Return a function that reads an image as dyld maps it, and the end of its memory."""
    parts = [
        MemoryPart(
            segment.vaddr,
            segment.size,
            image.start + segment.offset,
            min(segment.filesize, image.size - segment.offset),
        )
        for segment in image.segments
        if segment.size and segment.protection
    ]
    return memory(parts, image.source)


# Each slot gets an unmapped address of its own. The address at which a stub ends tells which slot
# it went through. The first call of a lazy slot's stub is run, too: it must reach the loader's
# resolver, which also has such an address.


def run_stubs(mapped: ElfMap | MachoMap) -> Iterator[Ran]:
    """Run every suitable stub of an image; stubs of lazy slots run twice, unbound and bound.

    Raises SoscopeError if Unicorn is not installed (no-extra), or if it does not support the
    processor or has no room (no-emulator).
    """
    return run_elf(mapped) if isinstance(mapped, ElfMap) else run_macho(mapped)


def disagreement(slot: FileSlot, ran: Ran) -> str:
    """Return how a run differs from the file's data about a slot, "" if it does not."""
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


# Find the argument that an unbound slot's code passes to the lazy resolver.


def argument_of(mapped: ElfMap, slot: FileSlot) -> int | None:
    """Return the resolver's argument at the first call through a lazy slot.

    Return None if the code has an unknown form, or if the resolver finds its argument in another
    way.
    """
    known = isa_part(mapped.machine, "lazy")
    if slot.helper is None or known is None:
        return None
    given: int | None = known.argument_of(mapped, slot, slot.helper)
    return given
