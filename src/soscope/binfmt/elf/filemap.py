# SPDX-License-Identifier: Apache-2.0
"""One ELF file as a `FileMap`: its slots, with their stubs, symbols and versions.

The tables of PT_DYNAMIC tell what fills a slot, and when. If a file has none, its section headers
tell it.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from functools import cached_property, partial
from itertools import count, repeat
from typing import NamedTuple, TypeVar

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.imports import SYMBOL_TYPES, Names
from soscope.binfmt.elf.lookup import Versions
from soscope.binfmt.elf.reader import ElfReader, Encoding
from soscope.binfmt.elf.sections import Sections
from soscope.binfmt.elf.slots import Say, Table, entries, tables
from soscope.binfmt.elf.symboltable import dynamic_table, static_table
from soscope.binfmt.isa import part
from soscope.binfmt.stubs.finder import SlotTable, find_stubs, missing_decoder
from soscope.errors import FormatError
from soscope.model.arch import BY_OFFSET, Arch
from soscope.model.filemap import (
    ELF,
    IRELATIVE,
    LAZY,
    NOW,
    PRELINKED,
    TLSDESC,
    FileSlot,
    Stub,
    Symbol,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# Relocations that fill slots, by the relocation types of each processor.


class Filled(NamedTuple):
    """One relocation that fills a slot: its type `kind`, its index in DT_JMPREL or -1, `place`.

    `addend` is the entry's addend, 0 if the slot itself holds it. For a slot that no relocation
    fills, `kind` is one of Arch's `implied`, and `place` is the argument of the lazy resolver, or
    -1.
    """

    vaddr: int
    kind: int
    symbol: int
    addend: int
    place: int


def filled_by(
    arch: Arch, coding: Encoding, data: bytes, *, has_addend: bool, in_plt: bool
) -> list[Filled]:
    """Return the relocations in `data` whose types fill slots."""
    layout = coding.rela if has_addend else coding.rel
    shift, mask = (32, 0xFFFF_FFFF) if coding.bits == 64 else (8, 0xFF)
    types = arch.relocations.types
    rows: Iterable[tuple[int, ...]] = layout.iter_unpack(data)
    if arch.has_split_info:
        mask = 0xFF
        if coding.order == "<":
            rows = map(_n64_row, rows)
    if not has_addend:
        rows = ((*row, 0) for row in rows)
    places: Iterable[int] = count() if in_plt else repeat(-1)
    new = tuple.__new__  # quicker, as there may be 100,000 of them
    return [
        new(Filled, (vaddr, info & mask, info >> shift, addend, place))
        for place, (vaddr, info, addend) in zip(places, rows, strict=False)
        if info & mask in types
    ]


def _n64_row(row: tuple[int, ...]) -> tuple[int, ...]:
    """Bring r_info of little-endian 64-bit MIPS into the usual order.

    There it is not one number but a 32-bit symbol and four bytes, of which the last is the type.
    """
    return row[0], (row[1] & 0xFFFF_FFFF) << 32 | row[1] >> 56, *row[2:]


# Find sections and file offsets for many addresses in a row.

# start, end, section or None, and what to add to an address for its file offset (None: no bytes)
Place = tuple[int, int, str | None, int | None]


class Places:
    """Section of an address, by the section headers, and file offset, by the program headers.

    The program headers decide about the offset, because a section without bytes of its own may
    overlap bytes in the file (the .plt of ppc64), and section headers may be wrong.
    """

    def __init__(self, image: ElfReader, sections: Sections) -> None:
        self._sections = sorted(
            (section for section in sections.all if section.flags & c.SHF_ALLOC and section.size),
            key=lambda section: section.vaddr,
        )
        self._starts = [section.vaddr for section in self._sections]
        self._segments = [segment for segment in image.segments if segment.type == c.PT_LOAD]

    def around(self, vaddr: int) -> Place:
        """Return the range around an address that has one section and one file offset."""
        start, end, name = vaddr, vaddr + 1, None
        index = bisect_right(self._starts, vaddr) - 1
        if index >= 0 and vaddr - self._starts[index] < self._sections[index].size:
            section = self._sections[index]
            start, end, name = section.vaddr, section.vaddr + section.size, section.name
        for segment in self._segments:
            if segment.vaddr <= vaddr < segment.vaddr + segment.filesz:
                start, end = max(start, segment.vaddr), min(end, segment.vaddr + segment.filesz)
                return start, end, name, segment.offset - segment.vaddr
        return vaddr, vaddr + 1, name, None


# The slots of a program without a dynamic section, which its start-up code fills.
#
# They belong to the IRELATIVE relocations between two symbols, which are gone after stripping. The
# relocations are found by section headers or, without them, by their byte pattern.

_SCANNED = 1 << 20  # bytes that are searched for relocations


def read(image: ElfImage, arch: Arch, sections: Sections, say: Say) -> list[Filled]:
    """Return the relocations that fill slots; errors are reported to `say`."""
    if not arch.relocations.irelative:
        return []
    filled: dict[int, Filled] = {}
    for section in sections.all:
        if section.type in (c.SHT_RELA, c.SHT_REL) and section.flags & c.SHF_ALLOC:
            has_addend = section.type == c.SHT_RELA
            table = section.offset, section.offset + section.size, has_addend, True
            data, _ = entries(image, table, (), say)
            for relocation in filled_by(
                arch, image.encoding, data, has_addend=has_addend, in_plt=True
            ):
                filled.setdefault(relocation.vaddr, relocation)
    if not sections.all:
        for relocation in _Looks(image, arch).find():
            filled.setdefault(relocation.vaddr, relocation)
    return [entry for entry in filled.values() if entry.kind in arch.relocations.irelative]


class _Looks:
    """Finds IRELATIVE relocations by their byte pattern."""

    def __init__(self, image: ElfImage, arch: Arch) -> None:
        self._image = image
        self._types = arch.relocations

    def _word(self, vaddr: int) -> int:
        """Return the word that the file has for a slot, 0 if it has none."""
        word = self._image.encoding.word
        try:
            data = self._image.source.read(self._image.locate(vaddr), word.size)
        except FormatError:
            return 0
        return int(word.unpack(data)[0]) if len(data) == word.size else 0

    def find(self) -> list[Filled]:
        """Return the entries of the one relocation table at the start of a static program."""
        image, coding = self._image, self._image.encoding
        segment = next((load for load in image.segments if load.type == c.PT_LOAD), None)
        if segment is None:
            return []
        data = image.source.read(segment.offset, min(segment.filesz, _SCANNED))
        for layout in (coding.rela, coding.rel):
            filled = []
            for kind in self._types.irelative:
                info = coding.word.pack(kind)
                at = data.find(info)
                while at >= 0:
                    start = at - coding.word.size
                    row = data[start : start + layout.size]
                    if start >= 0 and not start % coding.word.size and len(row) == layout.size:
                        vaddr, _, *rest = layout.unpack(row)
                        addend = rest[0] if rest else self._word(vaddr)
                        if self._is_slot(vaddr) and self._is_function(addend):
                            filled.append(Filled(vaddr, kind, 0, addend, -1))
                    at = data.find(info, at + 1)
            if filled:
                return filled
        return []

    def _is_slot(self, vaddr: int) -> bool:
        return any(
            segment.type == c.PT_LOAD
            and segment.flags & c.PF_W
            and segment.vaddr <= vaddr < segment.vaddr + segment.memsz
            for segment in self._image.segments
        )

    def _is_function(self, vaddr: int) -> bool:
        if self._is_code(vaddr):
            return True
        header = self._image.header
        if header is None or header.arch is None or not header.arch.has_descriptors:
            return False
        return self._is_slot(vaddr) and self._is_code(self._word(vaddr))

    def _is_code(self, vaddr: int) -> bool:
        return any(
            segment.type == c.PT_LOAD
            and segment.flags & c.PF_X
            and segment.vaddr <= vaddr < segment.vaddr + segment.memsz
            for segment in self._image.segments
        )


# Find what fills each slot of an ELF file, and when, without stubs and names. The tables in
# PT_DYNAMIC, which the loader reads, come first.


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
            return read(image, self._arch, self._sections, self.partial.append)
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


_T = TypeVar("_T")

_MAX_REASONS = 20
_MORE = "and more"
_BINDINGS = {
    c.STB_LOCAL: "local",
    c.STB_GLOBAL: "global",
    c.STB_WEAK: "weak",
    c.STB_GNU_UNIQUE: "unique",
}
_CODE = (c.STT_NOTYPE, c.STT_FUNC, c.STT_GNU_IFUNC)
_GOT = (".got", ".toc")  # prefixes of sections in which any word is a slot
_CODE_SIZE = 32  # bytes; no stub is longer
_MAX_WORDS = 1 << 24  # bytes of lazy slots in one read
_HOLLOW = "its code is in another file: this one has only debugging information"


class ElfMap:
    """What an ELF file says about its linking; each part is read when the caller asks for it.

    `partial` has a reason for each thing that could not be read so far.
    """

    format = ELF

    def __init__(self, image: ElfImage) -> None:
        self.image = image
        self.partial: list[str] = []
        self._again: list[Filled] = []
        self._table: SlotTable | None = None

    # ---- the file ----

    @property
    def arch(self) -> str:
        """The architecture's name."""
        header = self.image.header
        return "e_machine 0" if header is None else header.arch_name

    @property
    def bits(self) -> int:
        """The size of an address."""
        return self.image.encoding.bits

    @property
    def endian(self) -> str:
        """The byte order: "little" or "big"."""
        return self.image.encoding.byteorder

    @property
    def _number(self) -> int:
        return self.image.header.machine if self.image.header else 0

    @property
    def _flags(self) -> int:
        return self.image.header.flags if self.image.header else 0

    @cached_property
    def kind(self) -> str:
        """The kind of file."""
        kind = self.image.header.type if self.image.header else 0
        if kind == c.ET_REL:
            return "relocatable"
        if kind == c.ET_CORE:
            return "core"
        has_loader = any(segment.type == c.PT_INTERP for segment in self.image.segments)
        if kind == c.ET_EXEC:
            return "executable" if has_loader or self._dynamic.get(c.DT_NEEDED) else "static"
        if kind != c.ET_DYN:
            return f"e_type {kind}"
        is_pie = bool((self._dynamic.get(c.DT_FLAGS_1) or 0) & c.DF_1_PIE)
        if has_loader and (is_pie or self._dynamic.get(c.DT_SONAME) is None):
            return "pie"
        return "static-pie" if is_pie and not has_loader else "shared"

    @cached_property
    def build_id(self) -> str:
        """The GNU build-id in hexadecimal, "" if it has none."""
        if self.kind == "core":  # the notes of a core file are about a process
            return ""
        return (self._try(lambda: self.image.build_id) or b"").hex()

    @cached_property
    def is_hollow(self) -> bool:
        """Return whether this is a debug file: section headers and debug information, but no code.

        Its program headers then describe the file from which it was split.
        """
        code = [section for section in self.sections.all if section.flags & c.SHF_EXECINSTR]
        is_hollow = bool(code) and all(section.type == c.SHT_NOBITS for section in code)
        if is_hollow:
            self._say(_HOLLOW)
        return is_hollow

    def code(self, vaddr: int) -> bytes:
        """Return the first bytes of code at a link-time address; none if the file has none."""
        try:
            return self.image.source.read(self.image.locate(vaddr), _CODE_SIZE)
        except FormatError:
            return b""

    def tag(self, tag: int) -> int | None:
        """Return the value of a dynamic tag; None if it is missing or cannot be read."""
        return self._dynamic.get(tag)

    @cached_property
    def soname(self) -> str | None:
        """The DT_SONAME."""
        return None if self._dynamic.is_lost else self._try(lambda: self.image.soname)

    @cached_property
    def needed(self) -> tuple[str, ...]:
        """The DT_NEEDED names."""
        return () if self._dynamic.is_lost else tuple(self._try(lambda: self.image.needed) or ())

    @cached_property
    def sections(self) -> Sections:
        """The section headers, empty if the file has none."""
        sections = Sections.read(self.image)
        if not sections.all and self.image.header is not None and self.image.header.shoff:
            self._say(f"section headers: {sections.why}")
        return sections

    @cached_property
    def machine(self) -> Arch | None:
        """The row of model/arch.py for its processor, None if that is unknown."""
        header = self.image.header
        machine = header.arch if header is not None else None
        if machine is None or not machine.relocations.types:
            self._say(f"e_machine {self._number} is not known: no slots, no stubs")
            return None
        return machine

    # ---- slots and stubs ----

    @property
    def slots(self) -> tuple[FileSlot, ...]:
        """The slots by rising address, with their stubs."""
        return self._rows[0]

    @property
    def stubs_without_slot(self) -> tuple[Stub, ...]:
        """The stubs that jump through a word that no relocation fills."""
        return self._rows[1]

    @property
    def slot_table(self) -> SlotTable | None:
        """The table of slots that the stub decoders used, None without a decoder."""
        _ = self._rows
        return self._table

    @property
    def filled_again(self) -> tuple[tuple[int, str], ...]:
        """(vaddr, symbol) of each relocation that fills a slot that an earlier one fills, too."""
        _ = self._rows
        named = Names(self.image, [relocation.symbol for relocation in self._again]).named
        return tuple((relocation.vaddr, named[relocation.symbol][0]) for relocation in self._again)

    @cached_property
    def _rows(self) -> tuple[tuple[FileSlot, ...], tuple[Stub, ...]]:
        return self._try(self._read_rows) or ((), ())

    def _read_rows(self) -> tuple[tuple[FileSlot, ...], tuple[Stub, ...]]:
        machine = self.machine
        if machine is None or self._dynamic.is_lost:
            return (), ()
        _ = self._dynamic  # if damaged, this adds a reason to `partial` and drops all tags
        relocations = Relocations(self.image, machine, self.sections)
        filled = relocations.read()
        if machine.relocations.words:
            filled = [relocation for relocation in filled if self._is_slot(relocation, machine)]
        self._say(*relocations.partial)
        self._again = relocations.again
        by_slot, astray = self._stubs(filled, machine)
        filled.sort()
        names = Names(self.image, [symbol for _, _, symbol, _, _ in filled])
        places = Places(self.image, self.sections)
        start = end = 0
        is_now = is_bound_now(self.image)
        is_prelinked = self._dynamic.get(c.DT_GNU_PRELINKED) is not None
        helpers: dict[int, int] = {}
        if not (is_now or is_prelinked):
            helpers = self._helpers(filled, machine) | relocations.helpers
        resolvers = self._resolvers(filled, machine)
        known = machine.relocations
        types = {kind: known.prefix + name for kind, name in known.types.items()}
        types.update(machine.implied)
        tag, bit = machine.variant
        variants = bit if bit and self._dynamic.get(tag) is not None else 0
        slots = []
        irelative, named, stubs_of = known.irelative, names.named, by_slot.get
        step = argument_step(self.image, machine)
        steps = {kind: 1 if kind in machine.implied else step for kind in types}
        new = tuple.__new__  # quicker, as there are many
        bindings = {
            kind: binding_of(kind, machine, is_now=is_now, is_prelinked=is_prelinked)
            for kind in types
        }
        for vaddr, kind, symbol, _, place in filled:
            binding = bindings[kind]
            if variants and binding == LAZY and names.other(symbol) & variants:
                binding = NOW
                helpers.pop(vaddr, None)
            if not start <= vaddr < end:
                start, end, section, shift = places.around(vaddr)
            text, version, symbol_type, is_here, library = named[symbol]
            if kind in irelative and not symbol:
                text, symbol_type, is_here = resolvers.get(vaddr, ""), "ifunc", True
            slots.append(
                new(
                    FileSlot,
                    (
                        vaddr,
                        None if shift is None else vaddr + shift,
                        section,
                        types[kind],
                        text,
                        version,
                        symbol_type,
                        is_here,
                        library,
                        binding,
                        place * steps[kind] if binding == LAZY and place >= 0 else None,
                        helpers.get(vaddr),
                        None,
                        stubs_of(vaddr, ()),
                    ),
                )
            )
        self._say(*names.partial)
        return tuple(slots), tuple(astray)

    def _is_slot(self, relocation: Filled, machine: Arch) -> bool:
        if relocation.kind not in machine.relocations.words:
            return True
        if not relocation.symbol:
            return False
        section = self.sections.containing(relocation.vaddr)
        if section is not None:
            return section.name.startswith(_GOT)
        start, end = self._got_without_sections
        if start < end:
            return start <= relocation.vaddr < end
        self._say("no section headers: pointers in the GOT are not told from other data")
        return False

    @cached_property
    def _got_without_sections(self) -> tuple[int, int]:
        known = part(self.machine, "got")
        return known.find_got(self.image) if known is not None else (0, 0)

    def _stubs(
        self, filled: list[Filled], machine: Arch
    ) -> tuple[dict[int, tuple[Stub, ...]], list[Stub]]:
        missing = missing_decoder(self.image.header)
        if missing:
            self._say(missing)
            return {}, []
        irelative, types = machine.relocations.irelative, machine.relocations.types
        slots = {vaddr: kind in irelative for vaddr, kind, _, _, _ in filled}
        calls = [vaddr for vaddr, kind, _, _, place in filled if place >= 0 and kind in types]
        table = self._table = SlotTable(self.image, slots, calls, self._bases())
        by_slot: dict[int, tuple[Stub, ...]] = {}
        more: dict[int, list[Stub]] = {}
        astray = []
        for stub in find_stubs(table, self.sections):
            slot = stub[4]
            if slot not in slots:
                astray.append(stub._replace(slot=0))
            elif slot in by_slot:
                more.setdefault(slot, []).append(stub)
            else:
                by_slot[slot] = (stub,)
        for slot, stubs in more.items():
            by_slot[slot] += tuple(stubs)
        self._say(*table.partial)
        return by_slot, astray

    def _bases(self) -> list[int]:
        """Return the base addresses from which position-independent code may count."""
        told = self._dynamic.get(c.DT_PLTGOT)
        listed = [
            section.vaddr for section in self.sections.all if section.name in (".got.plt", ".got")
        ]
        return list(dict.fromkeys([*([] if told is None else [told]), *listed]))

    def _helpers(self, filled: list[Filled], machine: Arch) -> dict[int, int]:
        """Return the addresses that lazy slots hold before binding: the words in the file."""
        lazy = sorted(
            relocation.vaddr
            for relocation in filled
            if relocation.kind == machine.relocations.jump_slot
        )
        word = self.image.encoding.word
        loads = [segment for segment in self.image.segments if segment.type == c.PT_LOAD]
        code = [
            (segment.vaddr, segment.vaddr + segment.filesz)
            for segment in loads
            if segment.flags & c.PF_X
        ]
        start, end = code[0] if code else (0, 0)
        helpers = {}
        data, origin, stop = b"", 0, 0
        for vaddr in lazy:
            if not origin <= vaddr <= stop - word.size:
                held = next(
                    (segment for segment in loads if 0 <= vaddr - segment.vaddr < segment.filesz),
                    None,
                )
                if held is None:
                    continue  # no bytes in the file: the loader fills it
                origin = vaddr
                stop = min(held.vaddr + held.filesz, vaddr + _MAX_WORDS, lazy[-1] + word.size)
                offset = vaddr - held.vaddr + held.offset
                data = self.image.source.read(offset, stop - origin)
            place = vaddr - origin
            if place + word.size > len(data):
                self._say(f"slots: the file ends before the one at {vaddr:#x}")
                break
            (value,) = word.unpack_from(data, place)
            if start <= value < end or any(first <= value < last for first, last in code[1:]):
                helpers[vaddr] = value
        return helpers

    def _resolvers(self, filled: list[Filled], machine: Arch) -> dict[int, str]:
        """Return the names of the functions whose resolvers IRELATIVE relocations call, by slot."""
        asked = {
            relocation.vaddr: self._resolver(relocation)
            for relocation in filled
            if relocation.kind in machine.relocations.irelative and not relocation.symbol
        }
        wanted = set(asked.values()) - {0}
        if not wanted:
            return {}
        best: dict[int, tuple[tuple[bool, bool, int], str]] = {}
        for read in (
            lambda: dynamic_table(self.image),
            lambda: static_table(self.image.source, self.sections, self.image.encoding),
        ):
            table = self._try(read)
            if table is None:
                continue
            for name, info, _, section, value, _ in table.rows():
                if value not in wanted or info & 15 not in _CODE or section == c.SHN_UNDEF:
                    continue
                text = table.text(name).partition("@")[0]
                # prefer the IFUNC's own name, then global names, then names with fewer underscores
                # in front
                marks = len(text) - len(text.lstrip("_"))
                rank = info & 15 != c.STT_GNU_IFUNC, info >> 4 != c.STB_GLOBAL, marks
                if text and (value not in best or rank < best[value][0]):
                    best[value] = rank, text
        return {slot: best[addr][1] for slot, addr in asked.items() if addr in best}

    def _resolver(self, relocation: Filled) -> int:
        """Return the resolver that an IRELATIVE relocation calls; for REL, the slot holds it."""
        word = self.image.encoding.word
        at = None if relocation.addend else self._offset(relocation.vaddr)
        data = b"" if at is None else self.image.source.read(at, word.size)
        (value,) = word.unpack(data) if len(data) == word.size else (relocation.addend,)
        return int(value) & (1 << self.bits) - 1

    def _offset(self, vaddr: int) -> int | None:
        try:
            return self.image.locate(vaddr)
        except FormatError:
            return None

    def label(self, path: str) -> str:
        """Return the path, as an ELF file holds only one image."""
        return path

    def why_no_library(self, slot: FileSlot) -> str:
        """Return why the file names no library for a slot's symbol."""
        return "defined here" if slot.defined_here else "without a version"

    # ---- symbols ----

    @cached_property
    def symbols(self) -> tuple[Symbol, ...]:
        """The dynamic symbols, in order of their table."""
        table = None
        if not self._dynamic.is_lost:
            table = self._try(lambda: dynamic_table(self.image))
        if table is None or table.versions is None:
            return ()
        symbols = []
        for index in range(1, len(table)):
            symbol = table.symbol(index)
            is_here = symbol.section != c.SHN_UNDEF
            library = ""
            if not is_here:
                library = self._try(partial(_library_of, table.versions, index)) or ""
            symbols.append(
                Symbol(
                    symbol.name,
                    symbol.version,
                    SYMBOL_TYPES.get(symbol.type, "unknown"),
                    _BINDINGS.get(symbol.binding, "unknown"),
                    symbol.value if is_here else 0,
                    symbol.size,
                    is_here,
                    library,
                )
            )
        self._say(*table.partial)
        return tuple(symbols)

    # ---- pieces ----

    @cached_property
    def _dynamic(self) -> _Tags:
        return _Tags(self)

    def _try(self, read: Callable[[], _T]) -> _T | None:
        """Return the result of `read`; if it fails, return None and add a reason to `partial`."""
        try:
            return read()
        except FormatError as error:
            self._say(str(error))
            return None

    def _say(self, *reasons: str) -> None:
        name = os.fspath(self.image.source.name) + ": "
        for reason in reasons:
            text = reason.removeprefix(name)
            if text not in self.partial and len(self.partial) <= _MAX_REASONS:
                self.partial.append(text if len(self.partial) < _MAX_REASONS else _MORE)


def _library_of(versions: Versions, index: int) -> str:
    return versions.file(versions.number(index)[0])


class _Tags:
    """The dynamic section's tags; none, with a reason in `partial`, if it cannot be read."""

    def __init__(self, owner: ElfMap) -> None:
        self._dynamic = None if owner.is_hollow else owner._try(lambda: owner.image.dynamic)
        self.is_lost = self._dynamic is None
        if self.is_lost:
            owner.image.lose_dynamic()

    def get(self, tag: int) -> int | None:
        return None if self._dynamic is None else self._dynamic.get(tag)
