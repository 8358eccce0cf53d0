# SPDX-License-Identifier: Apache-2.0
"""MIPS under Unicorn: the processor, and what its ABIs define about resolvers."""

from __future__ import annotations

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.isa.mips import stubs
from soscope.inspect.check.emulate import Cpu, Emulator
from soscope.model.arch import Arch
from soscope.model.filemap import Stub

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_GP = 0x7FF0  # distance from the GOT to the value of %gp


def cpu(arch: Arch, order: str) -> Cpu | None:
    """Return the processor for ELF files; n32 is not supported."""
    if arch.bits == 32 and arch.flags[1]:
        return None
    mode = f"UC_MODE_MIPS{arch.bits}", f"UC_MODE_{'LITTLE' if order == '<' else 'BIG'}_ENDIAN"
    return Cpu(
        "MIPS",
        mode,
        arch.bits,
        order,
        "SP",
        "PC",
        (1,),
        0,
        _given,
        reserved=_got,
        set_up=_registers,
        cannot=_is_short,
        asked_for=_asked_for,
    )


def _given(machine: Emulator) -> tuple[int, int]:
    # a stub keeps %gp, but PLT0 sets it to .got.plt
    size, got = machine.cpu.bits // 8, machine.register("GP")
    told = machine.word(got - _GP + size)
    number = machine.register("T8")
    # the trampoline of PLT0 turns the number into an offset: a relocation has two words
    return (told, number) if told else (machine.word(got + size), number * 2 * size)


def _got(mapped: ElfMap) -> Sequence[int | None]:
    tags = mapped.image.dynamic
    return tags.get(stubs.DT_MIPS_PLTGOT), tags.get(c.DT_PLTGOT)


def _registers(mapped: ElfMap, _stub: Stub) -> Mapping[str, int]:
    return {"GP": (mapped.image.dynamic.get(c.DT_PLTGOT) or 0) + _GP}


def _is_short(mapped: ElfMap) -> bool:
    """Return whether the code has short instructions, which Unicorn cannot start with."""
    header = mapped.image.header
    return header is not None and bool(header.flags & stubs.SHORTER)


def _asked_for(mapped: ElfMap, machine: Emulator) -> int | None:
    """Return the word of the GOT for whose symbol a stub calls the resolver."""
    where = stubs.first_word(mapped.image)
    symbol = machine.register("T8")
    return None if where is None else where[0] + (symbol - where[1]) * mapped.bits // 8
