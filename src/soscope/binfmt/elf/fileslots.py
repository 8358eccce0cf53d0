# SPDX-License-Identifier: Apache-2.0
"""The slots of an ELF file, with symbol, version and the way they are bound: no stubs yet.

What the loader reads comes first: PT_DYNAMIC's tables. A static program has none; its IRELATIVE
relocations are found by section headers or, without them, by what they look like.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.machines import BY_OFFSET, EM_MIPS, EM_PPC64, Machine
from soscope.binfmt.elf.sections import Sections
from soscope.binfmt.elf.versions import Versions
from soscope.errors import FormatError
from soscope.model.filemap import IRELATIVE, LAZY, NOW, PRELINKED, TLSDESC

_T = TypeVar("_T")

_MAX_BYTES = 1 << 30
_MAX_STRINGS = 1 << 28
_MANY = 1 << 15  # bytes of relocations worth an array: nearly all of them are of other types
_SCANNED = 1 << 20  # bytes of a static program in which its relocations are looked for

SYMBOL_TYPES = {
    c.STT_NOTYPE: "none",
    c.STT_OBJECT: "object",
    c.STT_FUNC: "function",
    c.STT_SECTION: "section",
    c.STT_COMMON: "object",
    c.STT_TLS: "tls",
    c.STT_GNU_IFUNC: "ifunc",
}


class Filled(NamedTuple):
    """One relocation that fills a slot: `kind` is its type, `place` its index in DT_JMPREL or -1.

    `addend` is that of the entry, 0 where it stands in the slot. Of slots that no relocation fills
    `kind` is one of Machine's `implied`, and `place` what the lazy resolver is given, or -1.
    """

    vaddr: int
    kind: int
    symbol: int
    addend: int
    place: int


class Named(NamedTuple):
    """What a symbol table says of one symbol; `library` as of model/filemap.py's Slot."""

    name: str
    version: str | None
    type: str
    defined_here: bool
    library: str


_NOBODY = Named("", None, "none", False, "")


class Relocations:
    """The relocations of a file that fill slots.

    `partial` says what could not be read; `again` are those that fill a slot once more. `helpers`
    says where lazy slots lead at first, vaddr -> vaddr, where it is not the file's contents of
    the slot that do.
    """

    __slots__ = ("_image", "_machine", "_sections", "again", "helpers", "partial")

    def __init__(self, image: ElfImage, machine: Machine, sections: Sections) -> None:
        self._image = image
        self._machine = machine
        self._sections = sections
        self.partial: list[str] = []
        self.again: list[Filled] = []
        self.helpers: dict[int, int] = {}

    def read(self) -> list[Filled]:
        """Return them in order of the tables, DT_JMPREL's first; a slot once."""
        image, dynamic = self._image, self._image.dynamic
        if not dynamic.entries:
            return self._static()
        has_addend = dynamic.get(c.DT_PLTREL) == c.DT_RELA
        found: dict[int, Filled] = {}
        start, end = self._table(c.DT_JMPREL, c.DT_PLTRELSZ)
        self._take(found, self._rows(start, end, has_addend=has_addend, in_plt=True))
        for table, size, count in (
            (c.DT_RELA, c.DT_RELASZ, c.DT_RELACOUNT),
            (c.DT_REL, c.DT_RELSZ, c.DT_RELCOUNT),
        ):
            first, last = self._table(table, size)
            left = self._behind_relative(first, last, count, has_addend=table == c.DT_RELA)
            if first <= start < end <= last:  # the same entries, listed twice
                parts = ((left, start), (max(end, left), last))
            else:
                parts = ((left, last), (0, 0))
            for at, until in parts:
                rows = self._rows(at, until, has_addend=table == c.DT_RELA, in_plt=False)
                self._take(found, rows)
        number = image.header.machine if image.header else 0
        if number == EM_MIPS:
            from soscope.binfmt.elf import mipsgot

            for word in mipsgot.read(image, self.partial):
                place = word.symbol if word.helper else -1
                found.setdefault(word.vaddr, Filled(word.vaddr, word.kind, word.symbol, 0, place))
                if word.helper:
                    self.helpers[word.vaddr] = word.helper
        elif number == EM_PPC64:
            from soscope.binfmt.elf import ppc64glink

            lazy = [one.vaddr for one in found.values() if one.kind == self._machine.jump_slot]
            self.helpers.update(ppc64glink.helpers(image, lazy))
        for tag, name in _PACKED.items():
            if image.dynamic.get(tag) is not None:
                self.partial.append(f"relocations in {name} are not read")
        return list(found.values())

    def _behind_relative(self, first: int, last: int, count: int, *, has_addend: bool) -> int:
        """Return where the entries behind those without a symbol begin: they come first."""
        number = self._image.dynamic.get(count) or 0
        coding = self._image.encoding
        layout = coding.rela if has_addend else coding.rel
        left = first + number * layout.size
        if not number or left > last:
            return first
        data = self._image.source.read(left - layout.size, layout.size)
        if len(data) < layout.size:
            return first
        info = layout.unpack(data)[1]
        kind = info & (0xFFFF_FFFF if coding.bits == 64 else 0xFF)
        return first if kind in self._machine.types or info != kind else left

    def _take(self, found: dict[int, Filled], rows: list[Filled]) -> None:
        put = found.setdefault
        self.again += [one for one in rows if put(one[0], one) is not one]

    def _table(self, tag: int, size: int) -> tuple[int, int]:
        """Return start and end of a table in the source, (0, 0) where there is none."""
        image = self._image
        length = image.dynamic.get(size)
        try:
            at = image.locate_pointer(tag)
        except FormatError as error:
            if length:
                self.partial.append(str(error))
            return 0, 0
        if at is None or not length:
            return 0, 0
        return at, at + length

    def _rows(self, start: int, end: int, *, has_addend: bool, in_plt: bool) -> list[Filled]:
        machine, coding = self._machine, self._image.encoding
        layout = coding.rela if has_addend else coding.rel
        size = (end - start) // layout.size * layout.size
        if size <= 0:
            return []
        if size > _MAX_BYTES:
            self.partial.append(f"relocations at offset {start:#x}: {size} bytes")
            return []
        data = self._image.source.read(start, size)
        if len(data) < size:
            self.partial.append(
                f"relocations at offset {start:#x}: {size} bytes expected, {len(data)} found"
            )
            data = data[: len(data) // layout.size * layout.size]
        shift, mask = (32, 0xFFFF_FFFF) if coding.bits == 64 else (8, 0xFF)
        types = machine.types
        rows: Iterable[tuple[int, ...]]
        if machine.arch == "mips" and coding.bits == 64:
            mask = 0xFF
            rows = layout.iter_unpack(data)
            if coding.order == "<":
                rows = (_n64_row(row) for row in rows)
        elif in_plt or size <= _MANY or coding.order == ">":
            rows = layout.iter_unpack(data)
        else:
            rows = layout.iter_unpack(_picked(data, layout.size, coding.bits, types))
        if not in_plt:
            rows = [row for row in rows if row[1] & mask in types]
        new = tuple.__new__  # a hundred thousand of them are few
        return [
            new(
                Filled,
                (
                    row[0],
                    row[1] & mask,
                    row[1] >> shift,
                    row[2] if has_addend else 0,
                    index if in_plt else -1,
                ),
            )
            for index, row in enumerate(rows)
            if row[1] & mask in types
        ]

    def _word(self, vaddr: int) -> int:
        """Return what the file has in a slot, 0 where it has nothing."""
        word = self._image.encoding.word
        try:
            data = self._image.source.read(self._image.locate(vaddr), word.size)
        except FormatError:
            return 0
        return int(word.unpack(data)[0]) if len(data) == word.size else 0

    def _static(self) -> list[Filled]:
        """Return the IRELATIVE relocations of a program that has no dynamic section."""
        if not self._machine.irelative:
            return []
        found: dict[int, Filled] = {}
        for section in self._sections.all:
            if section.type in (c.SHT_RELA, c.SHT_REL) and section.flags & c.SHF_ALLOC:
                where = section.offset, section.offset + section.size
                has_addend = section.type == c.SHT_RELA
                for one in self._rows(*where, has_addend=has_addend, in_plt=True):
                    found.setdefault(one.vaddr, one)
        if not self._sections.all:
            for one in self._by_looks():
                found.setdefault(one.vaddr, one)
        return [one for one in found.values() if one.kind in self._machine.irelative]

    def _by_looks(self) -> list[Filled]:
        """Return the entries of the one table that a static program begins with."""
        image, coding = self._image, self._image.encoding
        segment = next((one for one in image.segments if one.type == c.PT_LOAD), None)
        if segment is None:
            return []
        data = image.source.read(segment.offset, min(segment.filesz, _SCANNED))
        for layout in (coding.rela, coding.rel):
            found = []
            for kind in self._machine.irelative:
                info = coding.word.pack(kind)
                at = data.find(info)
                while at >= 0:
                    start = at - coding.word.size
                    row = data[start : start + layout.size]
                    if start >= 0 and not start % coding.word.size and len(row) == layout.size:
                        vaddr, _, *rest = layout.unpack(row)
                        addend = rest[0] if rest else self._word(vaddr)
                        if self._is_slot(vaddr) and self._is_function(addend):
                            found.append(Filled(vaddr, kind, 0, addend, -1))
                    at = data.find(info, at + 1)
            if found:
                return found
        return []

    def _is_slot(self, vaddr: int) -> bool:
        return any(
            one.type == c.PT_LOAD
            and one.flags & c.PF_W
            and one.vaddr <= vaddr < one.vaddr + one.memsz
            for one in self._image.segments
        )

    def _is_function(self, vaddr: int) -> bool:
        if self._is_code(vaddr):
            return True
        header = self._image.header
        if header is None or header.machine != EM_PPC64:
            return False
        return self._is_slot(vaddr) and self._is_code(self._word(vaddr))  # ELFv1's descriptor

    def _is_code(self, vaddr: int) -> bool:
        return any(
            one.type == c.PT_LOAD
            and one.flags & c.PF_X
            and one.vaddr <= vaddr < one.vaddr + one.memsz
            for one in self._image.segments
        )


# tables of relocations in other forms than gABI's
_PACKED = {0x6000000F: "DT_ANDROID_REL", 0x60000011: "DT_ANDROID_RELA", 0x40000026: "DT_CREL"}


def _n64_row(row: tuple[int, ...]) -> tuple[int, ...]:
    """Bring r_info of 64-bit MIPS into the usual order.

    There it is no number but a 32-bit symbol and four bytes, the last of them the type.
    """
    return row[0], (row[1] & 0xFFFF_FFFF) << 32 | row[1] >> 56, *row[2:]


def _picked(data: bytes, step: int, bits: int, kinds: Iterable[int]) -> bytes:
    """Return the entries of the wanted types alone."""
    import numpy as np

    words = np.frombuffer(data, dtype=f"<u{bits // 8}").reshape(-1, step // (bits // 8))
    types = words[:, 1] & (0xFFFF_FFFF if bits == 64 else 0xFF)
    return bytes(words[np.isin(types, list(kinds))].tobytes())


def is_bound_now(image: ElfImage) -> bool:
    """Say whether the loader binds every slot of this file before the program runs.

    The loaders of musl and Android always do; their C library is called libc.so.
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
    except FormatError:
        return False
    return "/ld-musl-" in interpreter or any(
        one == "libc.so" or one.startswith("libc.musl-") for one in needed
    )


def binding_of(kind: int, machine: Machine, *, is_now: bool, is_prelinked: bool) -> str:
    """Return the word of model/filemap.py for how a slot is bound."""
    if kind in machine.irelative:
        return IRELATIVE
    if is_prelinked:
        return PRELINKED
    if kind == machine.tlsdesc:
        return TLSDESC
    is_lazy = kind == machine.jump_slot or (kind == machine.stubbed and kind > 0)
    return LAZY if is_lazy and not is_now else NOW


def argument_step(image: ElfImage, machine: Machine) -> int:
    """Return by how much what the lazy resolver is given grows from entry to entry of DT_JMPREL."""
    if machine.argument != BY_OFFSET:
        return 1
    coding = image.encoding
    is_rela = image.dynamic.get(c.DT_PLTREL) == c.DT_RELA
    return (coding.rela if is_rela else coding.rel).size


class Names:
    """The symbols that relocations name, as far as they are asked for."""

    __slots__ = (
        "_at",
        "_image",
        "_is_64",
        "_known",
        "_numbers",
        "_step",
        "_strings",
        "_table",
        "_unpack",
        "_versions",
        "_versions_known",
        "partial",
    )

    def __init__(self, image: ElfImage, most: int) -> None:
        """Read the table up to the symbol `most`."""
        self._image = image
        self._known: dict[int, Named] = {0: _NOBODY}
        self._versions_known: dict[tuple[int, bool], tuple[str | None, str]] = {}
        self.partial: list[str] = []
        self._table = self._strings = b""
        self._at = 0
        self._unpack = image.encoding.symbol.unpack_from
        self._is_64 = image.encoding.bits == 64
        self._step = step = image.encoding.symbol.size
        self._numbers: Sequence[int] = ()
        self._versions: Versions | None = None
        if image.dynamic.get(c.DT_VERSYM) is not None:
            self._versions = self._quietly(lambda: Versions(image))
        if not most:
            return
        symbols = self._quietly(lambda: image.locate_pointer(c.DT_SYMTAB))
        strings = self._quietly(lambda: image.locate_pointer(c.DT_STRTAB))
        if symbols is None or strings is None:
            self.partial.append("no DT_SYMTAB or DT_STRTAB: symbols have no names")
            return
        self._at = symbols
        self._table = image.source.read(symbols, min((most + 1) * step, _MAX_BYTES))
        size = image.dynamic.get(c.DT_STRSZ) or 0
        self._strings = image.source.read(strings, min(size, _MAX_STRINGS))
        if len(self._strings) < size:
            self.partial.append(
                f"DT_STRTAB at offset {strings:#x}: {size} bytes expected,"
                f" {len(self._strings)} found"
            )
        if self._versions is not None:
            self._numbers = self._versions.read_numbers(min(most + 1, len(self._table) // step))

    def _quietly(self, read: Callable[[], _T]) -> _T | None:
        try:
            return read()
        except FormatError as error:
            self.partial.append(str(error))
            return None

    def get(self, index: int) -> Named:
        """Return one symbol, without a name where the file has none."""
        found = self._known.get(index)
        if found is None:
            found = self._known[index] = self._make(index)
        return found

    def other(self, index: int) -> int:
        """Return st_other of one symbol, 0 where the file does not have it."""
        coding = self._image.encoding
        at = index * coding.symbol.size + (5 if coding.bits == 64 else 13)
        return self._table[at] if at < len(self._table) else 0

    def _make(self, index: int) -> Named:
        strings = self._strings
        try:
            raw = self._unpack(self._table, index * self._step)
        except struct.error:
            self.partial.append(
                f"DT_SYMTAB at offset {self._at:#x}: symbol {index} is outside of the file"
            )
            return _NOBODY
        if self._is_64:
            at, info, _, section, _, _ = raw
        else:
            at, _, _, info, _, section = raw
        end = strings.find(b"\0", at)
        if end < 0:
            self.partial.append(f"st_name of symbol {index}: {at:#x} is outside of DT_STRTAB")
            end = at
        is_defined = section != c.SHN_UNDEF
        numbers = self._numbers
        if index < len(numbers):
            number = numbers[index] & ~c.VERSYM_HIDDEN
            known = self._versions_known.get((number, is_defined))
        else:
            number, known = None, None
        version, library = known or self._version(index, number, is_defined)
        return tuple.__new__(
            Named,
            (
                strings[at:end].decode("utf-8", "surrogateescape"),
                version,
                SYMBOL_TYPES.get(info & 15, "unknown"),
                is_defined,
                library,
            ),
        )

    def _version(self, index: int, number: int | None, is_defined: bool) -> tuple[str | None, str]:
        """Return version and library of a symbol, whose version number may be known."""
        versions = self._versions
        if versions is None:
            return None, ""
        try:
            if number is None:
                number, _ = versions.number(index)
            name = versions.name(number, is_defined=is_defined)
            library = "" if is_defined or name is None else versions.file(number)
        except FormatError as error:
            self.partial.append(str(error))
            self._versions = None
            self._numbers = ()
            return None, ""
        self._versions_known[number, is_defined] = name, library
        return name, library
