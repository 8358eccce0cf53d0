# SPDX-License-Identifier: Apache-2.0
"""x86-64 and i386 under Unicorn: the processor, and what its ABIs define about resolvers."""

from __future__ import annotations

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.filemap import ElfMap
from soscope.inspect.check.emulate import Cpu, Emulator, Processor
from soscope.model.arch import EM_386, Arch


def cpu(arch: Arch, _order: str) -> Cpu | None:
    """Return the processor for ELF files; x32 is not supported."""
    if arch.number == EM_386:
        return _CPU_32._replace(given=_given, bases=_bases)
    return _CPU_64._replace(given=_given) if arch.bits == 64 else None


def macho(bits: int) -> Processor:
    """Return the processor for Mach-O images."""
    return Processor(_CPU_64, _given, "RSI") if bits == 64 else Processor(_CPU_32, _given)


_CPU_64 = Cpu("X86", ("UC_MODE_64",), 64, "<", "RSP", "RIP")
_CPU_32 = Cpu("X86", ("UC_MODE_32",), 32, "<", "ESP", "EIP")


def _given(machine: Emulator) -> tuple[int, int]:
    stack = machine.register("sp")
    return machine.word(stack), machine.word(stack + machine.cpu.bits // 8)


def _bases(mapped: ElfMap) -> list[dict[str, int]]:
    """Return the possible values of %ebx: _GLOBAL_OFFSET_TABLE_, which depends on the linker."""
    named = [
        section.vaddr for section in mapped.sections.all if section.name in (".got.plt", ".got")
    ]
    told = mapped.image.dynamic.get(c.DT_PLTGOT)
    return [{"EBX": base} for base in dict.fromkeys([*([] if told is None else [told]), *named])]
