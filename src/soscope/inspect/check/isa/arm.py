# SPDX-License-Identifier: Apache-2.0
"""32-bit ARM under Unicorn: the processor, and what its ABIs define about resolvers."""

from __future__ import annotations

from soscope.inspect.check.emulate import Cpu, Emulator, Processor
from soscope.model.arch import Arch

_CPU = Cpu("ARM", ("UC_MODE_LITTLE_ENDIAN",), 32, "<", "SP", "PC")


def cpu(_arch: Arch, order: str) -> Cpu | None:
    """Return the processor for ELF files; big-endian files are not supported."""
    return None if order == ">" else _CPU._replace(given=_given)


def macho(_bits: int) -> Processor:
    """Return the processor for Mach-O images."""
    return Processor(_CPU, _dyld)


def _given(machine: Emulator) -> tuple[int, int]:
    slot, resolver = machine.register("R12"), machine.register("LR")
    return machine.word(resolver - 4), (slot - resolver - 4) * 2


def _dyld(machine: Emulator) -> tuple[int, int]:
    stack = machine.register("sp")
    return machine.word(stack), machine.word(stack + 4)
