# SPDX-License-Identifier: Apache-2.0
"""aarch64 under Unicorn: the processor, and what its ABIs define about resolvers."""

from __future__ import annotations

from soscope.inspect.check.emulate import Cpu, Emulator, Processor
from soscope.model.arch import Arch

_LITTLE = ("UC_MODE_LITTLE_ENDIAN",)
_MAX = "UC_CPU_ARM64_MAX"  # other models have no signed pointers


def cpu(arch: Arch, order: str) -> Cpu | None:
    """Return the processor for ELF files; ILP32 and big-endian files are not supported."""
    if arch.bits == 32 or order == ">":
        return None
    return Cpu("ARM64", _LITTLE, 64, "<", "SP", "PC", given=_given)


def macho(bits: int) -> Processor:
    """Return the processor for Mach-O images."""
    return Processor(Cpu("ARM64", _LITTLE, bits, "<", "SP", "PC", model=_MAX), _dyld, "X1")


def _given(machine: Emulator) -> tuple[int, int]:
    resolver, slot = machine.register("X16"), machine.word(machine.register("sp"))
    return machine.word(resolver - 8), (slot - resolver - 8) * 3


def _dyld(machine: Emulator) -> tuple[int, int]:
    stack = machine.register("sp")  # registers have 64 bits, even with addresses of 32 bits
    return machine.word(stack + 8), machine.word(stack)
