# SPDX-License-Identifier: Apache-2.0
"""s390x under Unicorn: the processor, and what its ABIs define about resolvers."""

from __future__ import annotations

from soscope.inspect.check.emulate import Cpu, Emulator
from soscope.model.arch import Arch


def cpu(_arch: Arch, _order: str) -> Cpu:
    """Return the processor for ELF files."""
    registers = (("PSWM", 0x1_8000_0000),)  # otherwise addresses have 24 bits
    return Cpu(
        "S390X",
        ("UC_MODE_BIG_ENDIAN",),
        64,
        ">",
        "R15",
        "PC",
        given=_given,
        registers=registers,
    )


def _given(machine: Emulator) -> tuple[int, int]:
    stack = machine.register("sp")
    return machine.word(stack + 48), machine.word(stack + 56)
