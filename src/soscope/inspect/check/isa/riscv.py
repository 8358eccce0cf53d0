# SPDX-License-Identifier: Apache-2.0
"""RISC-V under Unicorn: the processor, and what its ABIs define about resolvers."""

from __future__ import annotations

from soscope.inspect.check.emulate import Cpu, Emulator
from soscope.model.arch import Arch


def cpu(arch: Arch, order: str) -> Cpu | None:
    """Return the processor for ELF files; big-endian files are not supported."""
    if order == ">":
        return None
    return Cpu("RISCV", (f"UC_MODE_RISCV{arch.bits}",), arch.bits, "<", "SP", "PC", (1,), 0, _given)


def _given(machine: Emulator) -> tuple[int, int]:
    return machine.register("T0"), machine.register("T1") * 3
