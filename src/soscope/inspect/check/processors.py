# SPDX-License-Identifier: Apache-2.0
"""The processors on which Unicorn runs stubs, and what their ABIs define about resolvers.

Two tables at the end have a function for each instruction set: one makes the processor for ELF
files, the other for Mach-O images.
"""

from __future__ import annotations

from typing import NamedTuple

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.isa.mips import stubs as mips_stubs
from soscope.binfmt.isa.ppc import pic
from soscope.binfmt.isa.ppc import stubs as ppc_stubs
from soscope.errors import FormatError
from soscope.model.arch import EM_386, Arch
from soscope.model.filemap import Stub

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from soscope.inspect.check.emulate import Emulator


class Cpu(NamedTuple):
    """One processor, with the names of Unicorn's constants.

    `link_map` and `resolver` are indices of words that the loader fills, counted from `reserved`
    (DT_PLTGOT if that is None). `given` returns (link map, argument of _dl_fixup) at the entry of
    the resolver, as glibc's sysdeps/*/dl-trampoline.S reads them. `set_up` returns the registers
    that a stub of the file expects from its caller. `bases` returns several choices if only a
    trial can decide. `cannot` returns whether a file has code that Unicorn cannot run.
    `asked_for` returns the slot for which a stub called the resolver, even in a file without lazy
    slots.
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
    registers: tuple[tuple[str, int], ...] = ()  # set at the start of each run
    model: str = ""
    reserved: Callable[[ElfMap], Sequence[int | None]] | None = None
    set_up: Callable[[ElfMap, Stub], Mapping[str, int]] | None = None
    bases: Callable[[ElfMap], list[dict[str, int]]] | None = None
    cannot: Callable[[ElfMap], bool] | None = None
    asked_for: Callable[[ElfMap, Emulator], int | None] | None = None


class Processor(NamedTuple):
    """The processor for a Mach-O image, and what its ABI defines.

    `given` returns (word of the image, what to bind) at dyld's entry point. `second` is the
    register of a function's second argument, "" if no Objective-C stubs are known.
    """

    cpu: Cpu
    given: Callable[[Emulator], tuple[int, int]]
    second: str = ""


# x86-64 and i386

_X86_CPU_64 = Cpu("X86", ("UC_MODE_64",), 64, "<", "RSP", "RIP")
_X86_CPU_32 = Cpu("X86", ("UC_MODE_32",), 32, "<", "ESP", "EIP")


def _x86(arch: Arch, _order: str) -> Cpu | None:
    """Return the processor for ELF files; x32 is not supported."""
    if arch.number == EM_386:
        return _X86_CPU_32._replace(given=_x86_given, bases=_x86_bases)
    return _X86_CPU_64._replace(given=_x86_given) if arch.bits == 64 else None


def _x86_macho(bits: int) -> Processor:
    """Return the processor for Mach-O images."""
    return (
        Processor(_X86_CPU_64, _x86_given, "RSI")
        if bits == 64
        else Processor(_X86_CPU_32, _x86_given)
    )


def _x86_given(machine: Emulator) -> tuple[int, int]:
    stack = machine.register("sp")
    return machine.word(stack), machine.word(stack + machine.cpu.bits // 8)


def _x86_bases(mapped: ElfMap) -> list[dict[str, int]]:
    """Return the possible values of %ebx: _GLOBAL_OFFSET_TABLE_, which depends on the linker."""
    named = [
        section.vaddr for section in mapped.sections.all if section.name in (".got.plt", ".got")
    ]
    told = mapped.image.dynamic.get(c.DT_PLTGOT)
    return [{"EBX": base} for base in dict.fromkeys([*([] if told is None else [told]), *named])]


# aarch64

_ARM64_LITTLE = ("UC_MODE_LITTLE_ENDIAN",)
_ARM64_MAX = "UC_CPU_ARM64_MAX"  # other models have no signed pointers


def _aarch64(arch: Arch, order: str) -> Cpu | None:
    """Return the processor for ELF files; ILP32 and big-endian files are not supported."""
    if arch.bits == 32 or order == ">":
        return None
    return Cpu("ARM64", _ARM64_LITTLE, 64, "<", "SP", "PC", given=_aarch64_given)


def _aarch64_macho(bits: int) -> Processor:
    """Return the processor for Mach-O images."""
    return Processor(
        Cpu("ARM64", _ARM64_LITTLE, bits, "<", "SP", "PC", model=_ARM64_MAX), _aarch64_dyld, "X1"
    )


def _aarch64_given(machine: Emulator) -> tuple[int, int]:
    resolver, slot = machine.register("X16"), machine.word(machine.register("sp"))
    return machine.word(resolver - 8), (slot - resolver - 8) * 3


def _aarch64_dyld(machine: Emulator) -> tuple[int, int]:
    stack = machine.register("sp")  # registers have 64 bits, even with addresses of 32 bits
    return machine.word(stack + 8), machine.word(stack)


# 32-bit ARM

_ARM_CPU = Cpu("ARM", ("UC_MODE_LITTLE_ENDIAN",), 32, "<", "SP", "PC")


def _arm(_arch: Arch, order: str) -> Cpu | None:
    """Return the processor for ELF files; big-endian files are not supported."""
    return None if order == ">" else _ARM_CPU._replace(given=_arm_given)


def _arm_macho(_bits: int) -> Processor:
    """Return the processor for Mach-O images."""
    return Processor(_ARM_CPU, _arm_dyld)


def _arm_given(machine: Emulator) -> tuple[int, int]:
    slot, resolver = machine.register("R12"), machine.register("LR")
    return machine.word(resolver - 4), (slot - resolver - 4) * 2


def _arm_dyld(machine: Emulator) -> tuple[int, int]:
    stack = machine.register("sp")
    return machine.word(stack), machine.word(stack + 4)


# RISC-V


def _riscv(arch: Arch, order: str) -> Cpu | None:
    """Return the processor for ELF files; big-endian files are not supported."""
    if order == ">":
        return None
    return Cpu(
        "RISCV", (f"UC_MODE_RISCV{arch.bits}",), arch.bits, "<", "SP", "PC", (1,), 0, _riscv_given
    )


def _riscv_given(machine: Emulator) -> tuple[int, int]:
    return machine.register("T0"), machine.register("T1") * 3


# s390x


def _s390x(_arch: Arch, _order: str) -> Cpu:
    """Return the processor for ELF files."""
    registers = (("PSWM", 0x1_8000_0000),)  # otherwise addresses have 24 bits
    return Cpu(
        "S390X",
        ("UC_MODE_BIG_ENDIAN",),
        64,
        ">",
        "R15",
        "PC",
        given=_s390x_given,
        registers=registers,
    )


def _s390x_given(machine: Emulator) -> tuple[int, int]:
    stack = machine.register("sp")
    return machine.word(stack + 48), machine.word(stack + 56)


# PowerPC

_PPC_CPU = Cpu("PPC", ("UC_MODE_PPC32", "UC_MODE_BIG_ENDIAN"), 32, ">", "1", "PC")


def _ppc(arch: Arch, _order: str) -> Cpu | None:
    """Return the processor for ELF files; not for 64 bits, as Unicorn leaves that mode at once."""
    if arch.bits == 64:
        return None
    return _PPC_CPU._replace(
        link_map=(2,), resolver=1, given=_ppc_given, reserved=_ppc_got, set_up=_ppc_registers
    )


def _ppc_macho(bits: int) -> Processor | None:
    """Return the processor for Mach-O images, of 32 bits, too."""
    return None if bits == 64 else Processor(_PPC_CPU, _ppc_given)


def _ppc_given(machine: Emulator) -> tuple[int, int]:
    return machine.register("12"), machine.register("11")


def _ppc_got(mapped: ElfMap) -> Sequence[int | None]:
    return (mapped.image.dynamic.get(ppc_stubs.DT_PPC_GOT),)


def _ppc_registers(mapped: ElfMap, stub: Stub) -> Mapping[str, int]:
    """Return the %r30 with which a stub reaches its slot, as found in the file."""
    try:
        code = mapped.image.source.read(mapped.image.locate(stub.vaddr), stub.size)
    except FormatError:
        return {}
    shape = next(pic.shapes(code), None)
    return {} if shape is None else {"30": stub.slot - shape[2] & 0xFFFF_FFFF}


# MIPS

_MIPS_GP = 0x7FF0  # distance from the GOT to the value of %gp


def _mips(arch: Arch, order: str) -> Cpu | None:
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
        _mips_given,
        reserved=_mips_got,
        set_up=_mips_registers,
        cannot=_mips_is_short,
        asked_for=_mips_asked_for,
    )


def _mips_given(machine: Emulator) -> tuple[int, int]:
    # a stub keeps %gp, but PLT0 sets it to .got.plt
    size, got = machine.cpu.bits // 8, machine.register("GP")
    told = machine.word(got - _MIPS_GP + size)
    number = machine.register("T8")
    # the trampoline of PLT0 turns the number into an offset: a relocation has two words
    return (told, number) if told else (machine.word(got + size), number * 2 * size)


def _mips_got(mapped: ElfMap) -> Sequence[int | None]:
    tags = mapped.image.dynamic
    return tags.get(mips_stubs.DT_MIPS_PLTGOT), tags.get(c.DT_PLTGOT)


def _mips_registers(mapped: ElfMap, _stub: Stub) -> Mapping[str, int]:
    return {"GP": (mapped.image.dynamic.get(c.DT_PLTGOT) or 0) + _MIPS_GP}


def _mips_is_short(mapped: ElfMap) -> bool:
    """Return whether the code has short instructions, which Unicorn cannot start with."""
    header = mapped.image.header
    return header is not None and bool(header.flags & mips_stubs.SHORTER)


def _mips_asked_for(mapped: ElfMap, machine: Emulator) -> int | None:
    """Return the word of the GOT for whose symbol a stub calls the resolver."""
    where = mips_stubs.first_word(mapped.image)
    symbol = machine.register("T8")
    return None if where is None else where[0] + (symbol - where[1]) * mapped.bits // 8


_ELF: dict[str, Callable[[Arch, str], Cpu | None]] = {
    "x86": _x86,
    "aarch64": _aarch64,
    "arm": _arm,
    "riscv": _riscv,
    "s390x": _s390x,
    "ppc": _ppc,
    "mips": _mips,
}
_MACHO: dict[str, Callable[[int], Processor | None]] = {
    "x86": _x86_macho,
    "aarch64": _aarch64_macho,
    "arm": _arm_macho,
    "ppc": _ppc_macho,
}


def elf_cpu(arch: Arch, order: str) -> Cpu | None:
    """Return the processor for ELF files, None if Unicorn does not support the machine.

    `order` is the file's byte order, "<" or ">".
    """
    make = _ELF.get(arch.isa)
    return None if make is None else make(arch, order)


def macho_processor(arch: Arch) -> Processor | None:
    """Return the processor for Mach-O images, None if Unicorn does not support the machine."""
    make = _MACHO.get(arch.isa)
    return None if make is None else make(arch.bits)
