# SPDX-License-Identifier: Apache-2.0
"""Run the stubs of an ELF file.

Unbound lazy slots lead to GOT[2] (or to the word that the processor's ABI uses for the resolver).
That word gets an unmapped address. When the run ends there, the registers tell the resolver's
arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.source import length
from soscope.inspect.check import isa
from soscope.inspect.check.emulatecpu import Cpu
from soscope.inspect.check.emulator import STEP, Emulator, MemoryPart, Ran, cannot, memory
from soscope.model.filemap import CALL_STUB, LAZY, MIPS_STUB, Stub

_LINK_MAP = 0x0123_4568  # value of the loader's own word in the GOT; never used as an address


def run_elf(mapped: ElfMap) -> Iterator[Ran]:
    """Run every stub of an ELF file; stubs of lazy slots run twice, unbound and bound.

    Raises SoscopeError if Unicorn is not installed or does not support the processor.
    """
    arch, order = mapped.machine, mapped.image.encoding.order
    known = isa.known(arch)
    cpu: Cpu | None = None
    if arch is not None and known is not None and arch.bits == mapped.bits:
        cpu = known.cpu(arch, order)
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
