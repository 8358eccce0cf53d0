# SPDX-License-Identifier: Apache-2.0
"""Stubs of a Mach-O image are run, as soscope.inspect.emulate does with ELF files.

The first call through a lazy slot has to reach dyld_stub_binder, or with the older loader data
what dyld writes to __dyld, and to say which record is to be bound: on the stack, on PowerPC in
r11.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from soscope.binfmt.macho.filemap import MachoMap
from soscope.errors import SoscopeError
from soscope.inspect.emulate import Emulator, Ran
from soscope.inspect.emulatecpu import Cpu
from soscope.model.filemap import JUMP_TABLE, LAZY, Stub

_STEP = 16
_BINDER = "dyld_stub_binder"
_OLD_BINDER = "__dyld"  # the section with a word for dyld's address
_MAX_WORDS = 16

_ARM64 = Cpu("ARM64", ("UC_MODE_LITTLE_ENDIAN",), 64, "<", "SP", "PC", model="UC_CPU_ARM64_MAX")
# not ppc64: Unicorn 2.1 leaves its 64-bit mode at once
_CPUS = {
    "x86_64": Cpu("X86", ("UC_MODE_64",), 64, "<", "RSP", "RIP"),
    "x86_64h": Cpu("X86", ("UC_MODE_64",), 64, "<", "RSP", "RIP"),
    "i386": Cpu("X86", ("UC_MODE_32",), 32, "<", "ESP", "EIP"),
    "arm64": _ARM64,
    "arm64e": _ARM64,
    "ppc": Cpu("PPC", ("UC_MODE_PPC32", "UC_MODE_BIG_ENDIAN"), 32, ">", "1", "PC"),
}


def run_macho(mapped: MachoMap) -> Iterator[Ran]:
    """Run every stub of an image: those of lazy slots twice, unbound and bound.

    An entry of a __jump_table is no code before dyld has written it, and is left out. Raises
    SoscopeError where Unicorn is not installed or does not know the processor.
    """
    cpu = _CPUS.get(mapped.arch)
    if cpu is None:
        raise SoscopeError(
            f"stubs cannot be run: no emulator for {mapped.arch}", slug="no-emulator"
        )
    machine = Emulator(cpu, *_memory(mapped))
    magic = {one.vaddr: machine.free + _STEP * place for place, one in enumerate(mapped.slots)}
    slots = {addr: vaddr for vaddr, addr in magic.items()}
    binders = {magic[one.vaddr] for one in mapped.slots if one.symbol == _BINDER}
    for vaddr in _old_binders(mapped):
        addr = machine.free + _STEP * (len(magic) + len(binders))
        binders.add(addr)
        machine.put(vaddr, addr)
    lazy = [one for one in mapped.slots if one.binding == LAZY]
    unbound = {one.vaddr for one in lazy}
    for vaddr, addr in magic.items():
        if vaddr not in unbound:
            machine.put(vaddr, addr)
    arguments: dict[int, tuple[int | None, str]] = {}
    for slot in lazy:
        machine.map_code(slot.helper or 0)
        for stub in slot.stubs:
            if stub.kind != JUMP_TABLE:
                arguments[stub.vaddr] = _first(machine, stub, binders)
    for vaddr in unbound:
        machine.put(vaddr, magic[vaddr])
    for stub in mapped.stubs:
        if stub.kind == JUMP_TABLE:
            continue
        argument, why = arguments.get(stub.vaddr, (None, ""))
        end = machine.run(stub.vaddr)
        reached = slots.get(end.addr)
        if reached is None:
            why = why or end.why or f"it goes to {end.addr:#x}"
        yield Ran(stub, reached, argument, why)


def _first(machine: Emulator, stub: Stub, binders: set[int]) -> tuple[int | None, str]:
    """Return (argument, what went wrong) of the first call of a stub."""
    end = machine.run(stub.vaddr)
    if end.addr not in binders:
        return None, f"the first call: {end.why or f'it goes to {end.addr:#x}'}"
    if machine.cpu.library == "PPC":
        return machine.register("11"), ""
    stack = machine.register("sp")
    second = 0 if machine.cpu.library == "ARM64" else machine.cpu.bits // 8
    return machine.word(stack + second), ""


def _old_binders(mapped: MachoMap) -> Iterator[int]:
    """Give the vaddr of each word of the section that dyld writes addresses of its own to."""
    word = mapped.bits // 8
    for section in mapped.image.sections:
        if section.short_name == _OLD_BINDER:
            for place in range(min(section.size // word, _MAX_WORDS)):
                yield section.vaddr + place * word


def _memory(mapped: MachoMap) -> tuple[Callable[[int, int], bytes], int]:
    """Return how to read an image as dyld maps it, and where its memory ends."""
    image = mapped.image
    segments = [one for one in image.segments if one.size and one.protection]

    def read(vaddr: int, size: int) -> bytes:
        data = bytearray(size)
        is_there = False
        for one in segments:
            start, end = max(vaddr, one.vaddr), min(vaddr + size, one.vaddr + one.size)
            if start < end:
                is_there = True
                piece = image.read(start, end - start)
                data[start - vaddr : start - vaddr + len(piece)] = piece
        return bytes(data) if is_there else b""

    return read, max((one.vaddr + one.size for one in segments), default=0)
