# SPDX-License-Identifier: Apache-2.0
"""PowerPC under Unicorn: the processor, and what its ABIs define about resolvers."""

from __future__ import annotations

from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.isa.ppc import pic, stubs
from soscope.errors import FormatError
from soscope.inspect.check.emulate import Cpu, Emulator, Processor
from soscope.model.arch import Arch
from soscope.model.filemap import Stub

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_CPU = Cpu("PPC", ("UC_MODE_PPC32", "UC_MODE_BIG_ENDIAN"), 32, ">", "1", "PC")


def cpu(arch: Arch, _order: str) -> Cpu | None:
    """Return the processor for ELF files; not for 64 bits, as Unicorn leaves that mode at once."""
    if arch.bits == 64:
        return None
    return _CPU._replace(link_map=(2,), resolver=1, given=_given, reserved=_got, set_up=_registers)


def macho(bits: int) -> Processor | None:
    """Return the processor for Mach-O images, of 32 bits, too."""
    return None if bits == 64 else Processor(_CPU, _given)


def _given(machine: Emulator) -> tuple[int, int]:
    return machine.register("12"), machine.register("11")


def _got(mapped: ElfMap) -> Sequence[int | None]:
    return (mapped.image.dynamic.get(stubs.DT_PPC_GOT),)


def _registers(mapped: ElfMap, stub: Stub) -> Mapping[str, int]:
    """Return the %r30 with which a stub reaches its slot, as found in the file."""
    try:
        code = mapped.image.source.read(mapped.image.locate(stub.vaddr), stub.size)
    except FormatError:
        return {}
    shape = next(pic.shapes(code), None)
    return {} if shape is None else {"30": stub.slot - shape[2] & 0xFFFF_FFFF}
