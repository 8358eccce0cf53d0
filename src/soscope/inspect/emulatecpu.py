# SPDX-License-Identifier: Apache-2.0
"""The processors that `soscope.inspect.emulator` has, and what their ABIs say of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.stubs import mips, ppc, ppcpic
from soscope.errors import FormatError
from soscope.model.filemap import Stub

if TYPE_CHECKING:
    from soscope.inspect.emulator import Emulator

_LITTLE = "UC_MODE_LITTLE_ENDIAN"
_BIG = "UC_MODE_BIG_ENDIAN"
_MIPS_GP = 0x7FF0  # from the GOT to where %gp leads


class Cpu(NamedTuple):
    """One processor, by the names of Unicorn's constants.

    `link_map` and `resolver` are the words from `reserved` on (DT_PLTGOT where that is None) that
    the loader fills; `given` returns (link map, what _dl_fixup is given) at the entry of the
    resolver, as glibc's sysdeps/*/dl-trampoline.S finds them. `set_up` returns the registers that
    a stub of the file expects of its caller.
    """

    library: str
    mode: tuple[str, ...]
    bits: int
    order: str
    stack: str
    counter: str
    link_map: tuple[int, ...] = (1,)
    resolver: int = 2
    given: Callable[[Emulator], tuple[int, int]] | None = None
    registers: tuple[tuple[str, int], ...] = ()  # at the start of each run
    model: str = ""
    reserved: Callable[[ElfMap], Sequence[int | None]] | None = None
    set_up: Callable[[ElfMap, Stub], Mapping[str, int]] | None = None


def _on_stack(machine: Emulator) -> tuple[int, int]:
    stack = machine.register("sp")
    return machine.word(stack), machine.word(stack + machine.cpu.bits // 8)


def _s390x(machine: Emulator) -> tuple[int, int]:
    stack = machine.register("sp")
    return machine.word(stack + 48), machine.word(stack + 56)


def _aarch64(machine: Emulator) -> tuple[int, int]:
    resolver, slot = machine.register("X16"), machine.word(machine.register("sp"))
    return machine.word(resolver - 8), (slot - resolver - 8) * 3


def _arm(machine: Emulator) -> tuple[int, int]:
    slot, resolver = machine.register("R12"), machine.register("LR")
    return machine.word(resolver - 4), (slot - resolver - 4) * 2


def _riscv(machine: Emulator) -> tuple[int, int]:
    return machine.register("T0"), machine.register("T1") * 3


def _mips(machine: Emulator) -> tuple[int, int]:
    # a stub leaves %gp alone, PLT0 has it lead to .got.plt
    size, got = machine.cpu.bits // 8, machine.register("GP")
    told = machine.word(got - _MIPS_GP + size)
    number = machine.register("T8")
    # the trampoline for PLT0 makes an offset of it: two words are a relocation
    return (told, number) if told else (machine.word(got + size), number * 2 * size)


def _mips_got(mapped: ElfMap) -> Sequence[int | None]:
    tags = mapped.image.dynamic
    return tags.get(mips.DT_MIPS_PLTGOT), tags.get(c.DT_PLTGOT)


def _mips_gp(mapped: ElfMap, _stub: Stub) -> Mapping[str, int]:
    return {"GP": (mapped.image.dynamic.get(c.DT_PLTGOT) or 0) + _MIPS_GP}


def _mips_cpu(bits: int, order: str) -> Cpu:
    mode = (f"UC_MODE_MIPS{bits}", _LITTLE if order == "<" else _BIG)
    return Cpu(
        "MIPS", mode, bits, order, "SP", "PC", (1,), 0, _mips, reserved=_mips_got, set_up=_mips_gp
    )


def _ppc(machine: Emulator) -> tuple[int, int]:
    return machine.register("12"), machine.register("11")


def _ppc_got(mapped: ElfMap) -> Sequence[int | None]:
    return (mapped.image.dynamic.get(ppc.DT_PPC_GOT),)


def _ppc_pic(mapped: ElfMap, stub: Stub) -> Mapping[str, int]:
    """Return the %r30 with which a stub reaches the slot that it is said to have."""
    try:
        code = mapped.image.source.read(mapped.image.locate(stub.vaddr), stub.size)
    except FormatError:
        return {}
    found = next(ppcpic.shapes(code), None)
    return {} if found is None else {"30": stub.slot - found[2] & 0xFFFF_FFFF}


_CPUS = {
    ("x86-64", 64, "<"): Cpu("X86", ("UC_MODE_64",), 64, "<", "RSP", "RIP", given=_on_stack),
    ("i386", 32, "<"): Cpu("X86", ("UC_MODE_32",), 32, "<", "ESP", "EIP", given=_on_stack),
    ("aarch64", 64, "<"): Cpu("ARM64", (_LITTLE,), 64, "<", "SP", "PC", given=_aarch64),
    ("arm", 32, "<"): Cpu("ARM", (_LITTLE,), 32, "<", "SP", "PC", given=_arm),
    ("riscv64", 64, "<"): Cpu("RISCV", ("UC_MODE_RISCV64",), 64, "<", "SP", "PC", (1,), 0, _riscv),
    ("riscv32", 32, "<"): Cpu("RISCV", ("UC_MODE_RISCV32",), 32, "<", "SP", "PC", (1,), 0, _riscv),
    ("mips", 32, ">"): _mips_cpu(32, ">"),
    ("mips", 32, "<"): _mips_cpu(32, "<"),
    ("mips64", 64, ">"): _mips_cpu(64, ">"),
    ("mips64", 64, "<"): _mips_cpu(64, "<"),
    ("ppc", 32, ">"): Cpu(
        "PPC",
        ("UC_MODE_PPC32", _BIG),
        32,
        ">",
        "1",
        "PC",
        (2,),
        1,
        _ppc,
        reserved=_ppc_got,
        set_up=_ppc_pic,
    ),
    # or else addresses have 24 bits
    ("s390x", 64, ">"): Cpu(
        "S390X", (_BIG,), 64, ">", "R15", "PC", given=_s390x, registers=(("PSWM", 0x1_8000_0000),)
    ),
}


def cpu_of(arch: str, bits: int, order: str) -> Cpu | None:
    """Return what runs an architecture's stubs, None where nothing does."""
    return _CPUS.get((arch, bits, order))
