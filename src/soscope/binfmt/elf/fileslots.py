# SPDX-License-Identifier: Apache-2.0
"""What fills the slots of an ELF file, and when; without stubs and names.

The tables in PT_DYNAMIC, which the loader reads, come first.
"""

from __future__ import annotations

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf import staticslots
from soscope.binfmt.elf.filled import Filled, filled_by
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.relocations import Table, entries, tables
from soscope.binfmt.elf.sections import Sections
from soscope.binfmt.isa import part
from soscope.errors import FormatError
from soscope.model.arch import BY_OFFSET, Arch
from soscope.model.filemap import IRELATIVE, LAZY, NOW, PRELINKED, TLSDESC


class Relocations:
    """The relocations of a file that fill slots.

    `partial` lists what could not be read. `again` are relocations that fill a slot that an
    earlier one fills, too. `helpers` (vaddr -> vaddr) has the addresses of lazy slots before
    binding, if they are not the slots' contents in the file.
    """

    __slots__ = ("_arch", "_image", "_sections", "again", "helpers", "partial")

    def __init__(self, image: ElfImage, arch: Arch, sections: Sections) -> None:
        self._image = image
        self._arch = arch
        self._sections = sections
        self.partial: list[str] = []
        self.again: list[Filled] = []
        self.helpers: dict[int, int] = {}

    def read(self) -> list[Filled]:
        """Return the relocations in order of their tables, DT_JMPREL first, one for each slot."""
        image = self._image
        if not image.dynamic.entries:
            return staticslots.read(image, self._arch, self._sections, self.partial.append)
        filled: dict[int, Filled] = {}
        for table in tables(image, self.partial.append):
            rows = self._rows(self._behind_relative(table))
            fresh = {row[0]: row for row in rows}
            if len(fresh) == len(rows) and fresh.keys().isdisjoint(filled):
                filled |= fresh
                continue
            put = filled.setdefault
            self.again += [row for row in rows if put(row[0], row) is not row]
        beside = part(self._arch, "slots")
        if beside is not None:
            slots, helpers = beside.more(image, filled.values(), self._arch, self.partial)
            for slot in slots:
                filled.setdefault(slot.vaddr, slot)
            self.helpers.update(helpers)
        for tag, name in _PACKED.items():
            if image.dynamic.get(tag) is not None:
                self.partial.append(f"relocations in {name} are not read")
        return list(filled.values())

    def _behind_relative(self, table: Table) -> Table:
        """Skip the relative relocations that begin a table, by DT_RELACOUNT or DT_RELCOUNT."""
        start, end, has_addend, in_plt = table
        count = self._image.dynamic.get(c.DT_RELACOUNT if has_addend else c.DT_RELCOUNT) or 0
        coding = self._image.encoding
        layout = coding.rela if has_addend else coding.rel
        left = start + count * layout.size
        if in_plt or not count or left > end:
            return table
        infos = []
        for at in (start, left - layout.size):
            data = self._image.source.read(at, layout.size)
            if len(data) < layout.size:
                return table
            infos.append(layout.unpack(data)[1])
        kind = infos[0] & (0xFFFF_FFFF if coding.bits == 64 else 0xFF)
        # if the count is wrong, the last of them has another type, or a symbol
        if kind in self._arch.relocations.types or infos != [kind, kind]:
            return table
        return left, end, has_addend, in_plt

    def _rows(self, table: Table) -> list[Filled]:
        arch, coding = self._arch, self._image.encoding
        _, _, has_addend, in_plt = table
        types = arch.relocations.types
        kinds = () if in_plt or arch.has_split_info else types
        data, _ = entries(self._image, table, kinds, self.partial.append)
        return filled_by(arch, coding, data, has_addend=has_addend, in_plt=in_plt)


_LOADERS = ("ld-", "ld.so", "ld64.so")  # prefixes of loaders' DT_SONAMEs

# tables of relocations in formats that are not in the gABI
_PACKED = {0x6000000F: "DT_ANDROID_REL", 0x60000011: "DT_ANDROID_RELA", 0x40000026: "DT_CREL"}


def is_bound_now(image: ElfImage) -> bool:
    """Return whether the loader binds every slot of this file before the program runs.

    The loaders of musl and Android always do so. Their C library is called libc.so. A loader,
    too, relocates itself completely, as nothing could bind its slots later.
    """
    dynamic = image.dynamic
    if dynamic.get(c.DT_BIND_NOW) is not None:
        return True
    if (dynamic.get(c.DT_FLAGS) or 0) & c.DF_BIND_NOW:
        return True
    if (dynamic.get(c.DT_FLAGS_1) or 0) & c.DF_1_NOW:
        return True
    try:
        interpreter = image.interpreter or ""
        needed = image.needed
        soname = image.soname or ""
    except FormatError:
        return False
    if not interpreter and not needed and soname.startswith(_LOADERS):
        return True
    return "/ld-musl-" in interpreter or any(
        name == "libc.so" or name.startswith("libc.musl-") for name in (soname, *needed)
    )


def binding_of(kind: int, arch: Arch, *, is_now: bool, is_prelinked: bool) -> str:
    """Return how a slot is bound, as a constant of model/filemap.py."""
    if kind in arch.relocations.irelative:
        return IRELATIVE
    if is_prelinked:
        return PRELINKED
    if kind == arch.relocations.tlsdesc:
        return TLSDESC
    is_lazy = kind == arch.relocations.jump_slot or (kind == arch.stubbed and kind > 0)
    return LAZY if is_lazy and not is_now else NOW


def argument_step(image: ElfImage, arch: Arch) -> int:
    """Return the difference of resolver arguments between two entries of DT_JMPREL."""
    if arch.argument != BY_OFFSET:
        return 1
    coding = image.encoding
    is_rela = image.dynamic.get(c.DT_PLTREL) == c.DT_RELA
    return (coding.rela if is_rela else coding.rel).size
