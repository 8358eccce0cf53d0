# SPDX-License-Identifier: Apache-2.0
"""One Mach-O image as a `FileMap`: its slots, and contradictions between its tables."""

from __future__ import annotations

from functools import cached_property
from itertools import chain
from struct import Struct
from typing import NamedTuple

from soscope.binfmt.macho import fixups
from soscope.binfmt.macho import image as c
from soscope.binfmt.macho.fat import Slice
from soscope.binfmt.macho.fixups import (
    FORMATS,
    Fixups,
    binds,
    exports,
    external_relocations,
    is_bind,
)
from soscope.binfmt.macho.image import (
    BIND,
    LAZY_BIND,
    WEAK_BIND,
    Bind,
    MachoImage,
    MachoSection,
    Ranges,
)
from soscope.binfmt.macho.stubs import MachoStubs
from soscope.binfmt.macho.symbols import MachoSymbols, Nlist
from soscope.binfmt.search import Spans
from soscope.binfmt.source import ByteSource
from soscope.model.filemap import (
    LAZY,
    MACHO,
    NOW,
    OBJC_STUB,
    PRELINKED,
    UNBOUND,
    WEAK,
    FileSlot,
    Signed,
    Stub,
    Symbol,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# The pointer cells of one image, and what fills each: records, or the indirect symbol table.

_POINTER_TYPES = frozenset(
    (
        c.S_NON_LAZY_SYMBOL_POINTERS,
        c.S_LAZY_SYMBOL_POINTERS,
        c.S_LAZY_DYLIB_SYMBOL_POINTERS,
        c.S_THREAD_LOCAL_VARIABLE_POINTERS,
    )
)
_LAZY_TYPES = frozenset((c.S_LAZY_SYMBOL_POINTERS, c.S_LAZY_DYLIB_SYMBOL_POINTERS))
# Some linkers, and tools that move sections, do not set the type.
_POINTER_NAMES = frozenset(("__got", "__auth_got", "__la_symbol_ptr", "__nl_symbol_ptr"))

_JUMP_SIZE = 5  # bytes of an entry of __jump_table


class Cell(NamedTuple):
    """One cell: its contents in the file, and everything that the image says about it.

    `target` is the address in this image that it holds before binding, None if it holds none.
    `row` is its symbol in the indirect symbol table. `records` are its records, in the order in
    which the loader applies them. `lazy` is true if its section is lazy.
    """

    vaddr: int
    section: MachoSection
    target: int | None
    row: Nlist | None
    records: tuple[Bind, ...]
    lazy: bool


class Cells:
    """All pointer cells of one image, and all other pointers that the loader binds."""

    __slots__ = ("_fixups", "_image", "_symbols", "jump_tables", "sections")

    def __init__(self, image: MachoImage, symbols: MachoSymbols) -> None:
        self._image = image
        self._symbols = symbols
        self._fixups: Fixups | None = None
        self.sections = image.bounded(
            [section for section in image.sections if _holds_pointers(section)]
        )
        self.jump_tables = image.bounded(
            [
                section
                for section in image.sections
                if section.type == c.S_SYMBOL_STUBS
                and section.flags & c.S_ATTR_SELF_MODIFYING_CODE
                and section.entry_size == _JUMP_SIZE
            ]
        )

    @property
    def fixups(self) -> Fixups:
        """The chained fixups; empty if the image has none."""
        if self._fixups is None:
            self._fixups = Fixups(self._image)
        return self._fixups

    def binds(self, wanted: Ranges) -> Iterator[Bind]:
        """Yield the records of all generations at `wanted` addresses, in the loader's order."""
        image = self._image
        return chain(
            external_relocations(image, self._symbols, wanted),
            binds(image, BIND, wanted),
            binds(image, WEAK_BIND, wanted),
            binds(image, LAZY_BIND, wanted),
            self.fixups.binds(wanted),
        )

    def read(self) -> Iterator[Cell]:
        """Yield each cell; cells that are empty in the file and that nothing fills are left out."""
        image = self._image
        wanted = Ranges(
            [(section.vaddr, section.vaddr + section.size) for section in self.sections]
        )
        records: dict[int, list[Bind]] = {}
        for bind in chain(
            external_relocations(image, self._symbols, wanted),
            binds(image, BIND, wanted),
            binds(image, WEAK_BIND, wanted),
            binds(image, LAZY_BIND, wanted),
        ):
            records.setdefault(bind.vaddr, []).append(bind)
        targets: dict[int, int | None] = {}
        fixups = self.fixups
        for vaddr, word, starts in fixups.words(wanted):
            if not wanted.has(vaddr):
                continue
            if is_bind(word, FORMATS[starts.format]):
                records.setdefault(vaddr, []).append(fixups.bind(vaddr, word, starts))
                targets[vaddr] = None
            else:
                targets[vaddr] = fixups.target(word, starts)
        for section in self.sections:
            yield from self._section(section, records, targets)
        for section in self.jump_tables:
            yield from self._jump_table(section)

    def _section(
        self,
        section: MachoSection,
        records: dict[int, list[Bind]],
        targets: dict[int, int | None],
    ) -> Iterator[Cell]:
        data = self._image.contents(section)
        word: Struct = self._image.encoding.word
        step = word.size
        lazy = section.type in _LAZY_TYPES
        has_table = section.type in _POINTER_TYPES
        mask = (1 << self._image.encoding.bits) - 1
        for index, (value,) in enumerate(word.iter_unpack(data[: len(data) // step * step])):
            vaddr = section.vaddr + index * step & mask
            row = self._row(section.first + index) if has_table else None
            binds = records.get(vaddr, ())
            target = targets.get(vaddr, value or None)
            if not binds and row is None and target is None:
                continue
            yield Cell(vaddr, section, target, row, tuple(binds), lazy)

    def _jump_table(self, section: MachoSection) -> Iterator[Cell]:
        size = min(section.size, max(0, self._image.size - section.offset))
        for index in range(size // _JUMP_SIZE):
            row = self._row(section.first + index)
            if row is not None:
                yield Cell(section.vaddr + index * _JUMP_SIZE, section, None, row, (), lazy=True)

    def _row(self, index: int) -> Nlist | None:
        number = self._symbols.indirect(index)
        if number is None or number & (c.INDIRECT_SYMBOL_LOCAL | c.INDIRECT_SYMBOL_ABS):
            return None
        return self._symbols.row(number)

    def pointer(self, vaddr: int) -> int | None:
        """Return the address in the pointer at `vaddr`, None if the pointer is bound."""
        data = self._image.read(vaddr, self._image.encoding.size)
        if len(data) < self._image.encoding.size:
            return None
        (word,) = self._image.encoding.word.unpack(data)
        starts = self.fixups.around(vaddr)
        if starts is None:
            return int(word)
        if is_bind(word, FORMATS[starts.format]):
            return None
        return self.fixups.target(word, starts)


def _holds_pointers(section: MachoSection) -> bool:
    return section.type in _POINTER_TYPES or (
        section.type == 0 and section.short_name in _POINTER_NAMES
    )


# The linking data of one Mach-O image as a `FileMap` (`soscope.model.filemap`). A slot's section
# has its segment in its name ("__DATA,__got"). Symbols keep their underscore. For a lazy slot, the
# resolver gets the offset of its record in the lazy bind opcodes. Before LC_DYLD_INFO it gets the
# slot's own address.

_NO_STUBS: tuple[Stub, ...] = ()


def read_map(source: ByteSource, part: Slice) -> MachoMap:
    """Read one image of a file; `part` is from `fat.slices` or `fat.embedded`.

    Raises FormatError if the header or the load commands are broken. Other parts that cannot be
    read are listed in `partial`.
    """
    return MachoMap(source, part)


class MachoMap:
    """What one image says about its linking; each part is read when the caller asks for it.

    `image` has the header and the load commands. Raises FormatError as `read_map` does.
    """

    format = MACHO

    def __init__(self, source: ByteSource, part: Slice) -> None:
        self.part = part
        self.image = MachoImage(source, part.offset, part.size)
        self.table = MachoSymbols(self.image)
        self.cells = Cells(self.image, self.table)
        self._cells: dict[int, Cell] = {}
        self._ordinals: dict[int, int | None] = {}
        self._defined: frozenset[str] | None = None

    # ---- the image ----

    @property
    def arch(self) -> str:
        """Apple's name of the architecture."""
        return self.image.header.arch or f"cputype {self.image.header.cpu:#x}"

    @property
    def bits(self) -> int:
        """The size of an address."""
        return self.image.encoding.bits

    @property
    def endian(self) -> str:
        """The byte order: "little" or "big"."""
        return "big" if self.image.encoding.order == ">" else "little"

    @property
    def kind(self) -> str:
        """The kind of file."""
        number = self.image.header.filetype
        return c.FILE_KINDS.get(number, f"filetype {number}")

    @property
    def build_id(self) -> str:
        """The LC_UUID in hexadecimal, "" if there is none."""
        return self.image.uuid

    @property
    def soname(self) -> str | None:
        """The install name (LC_ID_DYLIB)."""
        return self.image.install_name or None

    @property
    def partial(self) -> tuple[str, ...]:
        """Reasons why parts of the file could not be read so far."""
        return tuple(self.image.partial)

    @property
    def needed(self) -> tuple[str, ...]:
        """The install names of the libraries, in the order of their ordinals."""
        return tuple(self.image.libraries)

    @property
    def reexported(self) -> tuple[str, ...]:
        """The libraries in `needed` that this image re-exports (LC_REEXPORT_DYLIB)."""
        return tuple(self.image.reexported)

    # ---- stubs ----

    @cached_property
    def decoded(self) -> MachoStubs:
        """The stubs, with their entries of the indirect symbol table."""
        return MachoStubs(self.image, self.cells.pointer)

    @cached_property
    def stubs(self) -> tuple[Stub, ...]:
        """All stubs, in the order of the sections."""
        return tuple(self.decoded.found)

    @cached_property
    def stubs_without_slot(self) -> tuple[Stub, ...]:
        """The stubs that jump through a word that nothing fills."""
        known = {slot.vaddr for slot in self.slots}
        return tuple(
            stub._replace(slot=0)
            for stub in self.stubs
            if stub.slot not in known and not self._is_empty_entry(stub)
        )

    def stub_symbol(self, vaddr: int) -> str:
        """Return the symbol of the stub at `vaddr` in the indirect symbol table, or ""."""
        entry = self.decoded.entries.get(vaddr)
        number = None if entry is None else self.table.indirect(entry)
        if number is None or number & (c.INDIRECT_SYMBOL_LOCAL | c.INDIRECT_SYMBOL_ABS):
            return ""
        row = self.table.row(number)
        return self.table.name(row) if row is not None else ""

    def _is_empty_entry(self, stub: Stub) -> bool:
        """Return whether this is an entry of a __jump_table that no symbol uses."""
        return stub.slot == stub.vaddr and not self.stub_symbol(stub.vaddr)

    # ---- slots ----

    @cached_property
    def slots(self) -> tuple[FileSlot, ...]:
        """The pointer cells, in the order of their addresses."""
        return self._read_slots()

    def cell(self, vaddr: int) -> Cell | None:
        """Return the cell of the slot at `vaddr` with all its records, None if there is none."""
        return self._cells.get(vaddr) if self.slots else None

    def binds(self) -> list[c.Bind]:
        """Return every record of the loader's data, also records of pointers that are not slots."""
        return list(self.cells.binds(c.Ranges(None)))

    def label(self, path: str) -> str:
        """Return the image's label in the file at `path`: with its member name or hidden offset."""
        if self.part.member:
            return f"{path}({self.part.member})"
        return f"{path}+{self.part.offset:#x}" if self.part.is_hidden else path

    def why_no_library(self, slot: FileSlot) -> str:
        """Return why `slot.library` is "", or "" if it is not."""
        if slot.library:
            return ""
        if slot.binding == UNBOUND:
            return fixups.UNBOUND
        ordinal = self._ordinals.get(slot.vaddr)
        cell = self.cell(slot.vaddr)
        if (cell is None or not cell.records) and slot.defined_here:
            return fixups.DEFINED_HERE
        if not self.image.header.flags & c.MH_TWOLEVEL and (cell is None or not cell.records):
            return fixups.NOT_TWO_LEVEL
        return fixups.reason(ordinal, self.image.libraries)

    def _read_slots(self) -> tuple[FileSlot, ...]:
        stubs: dict[int, list[Stub]] = {}
        for stub in self.stubs:
            if stub.slot:
                stubs.setdefault(stub.slot, []).append(stub)
        cells = {cell.vaddr: cell for cell in self.cells.read()}
        self._cells = cells
        local = {
            cell.target
            for cell in cells.values()
            if cell.row is None and not cell.records and cell.target is not None
        }
        names = {vaddr: self.table.name(row) for vaddr, row in self.table.at(local).items()}
        return tuple(
            self._slot(cells[vaddr], tuple(stubs.get(vaddr, _NO_STUBS)), names)
            for vaddr in sorted(cells)
        )

    def _slot(self, cell: Cell, stubs: tuple[Stub, ...], names: dict[int, str]) -> FileSlot:
        image = self.image
        record = chosen(cell)
        row = cell.row
        kind, binding = self._binding(cell, record)
        if record is not None and record.name:
            symbol = record.name
        elif row is not None:
            symbol = self.table.name(row)
        else:
            symbol = names.get(cell.target or 0, "")
        ordinal = self._ordinal(record, row)
        self._ordinals[cell.vaddr] = ordinal
        if row is not None:
            defined = row.is_defined
        else:
            defined = kind == c.REBASE or (record is not None and self._defines(record))
        lazy = next((bind for bind in reversed(cell.records) if bind.kind == c.LAZY_BIND), None)
        argument = helper = None
        if lazy is not None:
            argument = lazy.argument
            helper = cell.target
        elif binding == LAZY:
            argument = cell.vaddr
            helper = cell.target
        return FileSlot(
            vaddr=cell.vaddr,
            offset=image.offset_of(cell.vaddr),
            section=cell.section.name,
            kind=kind,
            symbol=symbol,
            version=None,
            symbol_type=self._type(cell, stubs),
            defined_here=defined,
            library="" if binding == UNBOUND else fixups.library(ordinal, image.libraries),
            binding=binding,
            resolver_argument=argument,
            helper=helper,
            signed=self._signed(record),
            stubs=stubs,
        )

    def _binding(self, cell: Cell, record: c.Bind | None) -> tuple[str, str]:
        """Return what binds the cell, and when."""
        flags = self.image.header.flags
        if record is not None:
            kinds = {bind.kind for bind in cell.records}
            if c.WEAK_BIND in kinds or record.ordinal == fixups.WEAK_LOOKUP:
                return record.kind, WEAK
            if record.kind == c.LAZY_BIND and not flags & c.MH_BINDATLOAD:
                return record.kind, LAZY
            return record.kind, NOW
        if cell.row is None:
            return c.REBASE, NOW
        if self.image.dyld_info or self.image.chained[1]:
            # An image extracted from a shared cache has lost its records.
            is_done = cell.row.is_defined or flags & c.MH_DYLIB_IN_CACHE
            return (c.REBASE, NOW) if is_done else (c.INDIRECT_SYMBOL, UNBOUND)
        if cell.target is not None and flags & c.MH_PREBOUND and not self._inside(cell.target):
            return c.INDIRECT_SYMBOL, PRELINKED
        if cell.lazy and not flags & c.MH_BINDATLOAD:
            return c.INDIRECT_SYMBOL, LAZY
        return c.INDIRECT_SYMBOL, NOW

    def _inside(self, vaddr: int) -> bool:
        return self._inner.at(vaddr) is not None

    @cached_property
    def _inner(self) -> Spans:
        return Spans(
            (segment.vaddr, segment.vaddr + segment.size) for segment in self.image.segments
        )

    def _ordinal(self, record: c.Bind | None, row: Nlist | None) -> int | None:
        if record is not None:
            return record.ordinal
        if row is None or row.is_defined:
            return fixups.SELF
        if not self.image.header.flags & c.MH_TWOLEVEL:
            return fixups.FLAT_LOOKUP
        return fixups.of_symbol(row.description)

    def _defines(self, record: c.Bind) -> bool:
        """Return whether this image defines the symbol of `record`, by its name alone."""
        if record.ordinal == fixups.SELF:
            return True
        if record.ordinal is not None and record.ordinal > 0:
            return False
        if self._defined is None:
            rows = self.table.external_definitions()
            self._defined = frozenset(self.table.name(row) for row in rows)
        return record.name in self._defined

    def _type(self, cell: Cell, stubs: tuple[Stub, ...]) -> str:
        """Return the type of a cell's symbol; if another image defines it, its use tells."""
        if cell.section.type == c.S_THREAD_LOCAL_VARIABLE_POINTERS:
            return "tls"
        if stubs or cell.lazy:
            return "function"
        return self.type_of(cell.row) if cell.row is not None else "unknown"

    def type_of(self, row: Nlist) -> str:
        """Return the type of a symbol, by its section."""
        sections = self.image.sections
        if row.type & c.N_TYPE != c.N_SECT or not 0 < row.section <= len(sections):
            return "unknown"
        section = sections[row.section - 1]
        if section.type in (
            c.S_THREAD_LOCAL_VARIABLES,
            c.S_THREAD_LOCAL_REGULAR,
            c.S_THREAD_LOCAL_ZEROFILL,
        ):
            return "tls"
        if section.flags & (c.S_ATTR_PURE_INSTRUCTIONS | c.S_ATTR_SOME_INSTRUCTIONS):
            return "function"
        return "object"

    def _signed(self, record: c.Bind | None) -> Signed | None:
        return record.signed if record is not None else None

    # ---- symbols ----

    @cached_property
    def symbols(self) -> tuple[Symbol, ...]:
        """The symbols that a loader sees: first the image's exports, then its imports.

        If there is no symbol table, the exports are read from their trie.
        """
        symbols = [self._symbol(row) for row in self.table.external_definitions()]
        named = {symbol.name for symbol in symbols}
        for export in exports(self.image):
            if export.name not in named:
                library = fixups.library(export.ordinal, self.image.libraries)
                here = export.ordinal is None
                kind = "tls" if export.kind == "tls" else "unknown"
                binding = "weak" if export.weak else "global"
                symbols.append(
                    Symbol(export.name, None, kind, binding, export.vaddr, 0, here, library)
                )
        symbols += [self._symbol(row) for row in self.table.undefined()]
        return tuple(symbols)

    def _symbol(self, row: Nlist) -> Symbol:
        weak = row.description & (c.N_WEAK_DEF if row.is_defined else c.N_WEAK_REF)
        ordinal = self._ordinal(None, row)
        return Symbol(
            self.table.name(row),
            None,
            self.type_of(row),
            "weak" if weak else "global",
            row.value if row.is_defined else 0,
            0,
            row.is_defined,
            fixups.library(ordinal, self.image.libraries),
        )


def chosen(cell: Cell) -> c.Bind | None:
    """Return the record that tells a cell's symbol and library best, None if it has none.

    A weak record has no library, but the other record of the same cell has one.
    """
    named = [bind for bind in cell.records if bind.kind != c.WEAK_BIND]
    if named:
        return named[-1]
    return cell.records[-1] if cell.records else None


# Find contradictions in the data that one image has about its own linking.
#
# Three places tell a stub's symbol: the indirect symbol table's entry for the stub, the same
# table's entry for the slot that the stub jumps through, and the record that binds the slot. A lazy
# slot leads to a helper, which refers to the slot's record as well. At run time nothing compares
# them.

# Kinds of contradictions.
STUB_NAME = "stub-name"  # the stub's symbol differs from its slot's
SLOT_NAME = "slot-name"  # the slot's symbol in the indirect table differs from its record's
TWO_NAMES = "two-names"  # two records bind the slot, to different symbols
NO_CODE = "no-code"  # the stub has code of no known kind
NO_SLOT = "no-slot"  # the stub jumps through a word that nothing binds
NO_RECORD = "no-record"  # no record binds the slot, whatever the file has in it
LAZY_OFFSET = "lazy-offset"  # the helper passes the offset of another record
LAZY_SLOT = "lazy-slot"  # the helper passes the address of another slot
NO_HELPER = "no-helper"  # an unbound lazy slot does not lead to a helper
RECORD_ELSEWHERE = "record-elsewhere"  # a lazy record binds a word that is not a slot


class Disagreement(NamedTuple):
    """One contradiction; fields that do not matter for its kind are 0, "" or None.

    `by_stub` and `by_slot` are the names in the indirect symbol table, `bound` the names in the
    slot's records. `offset` is what the helper at `helper` passes on: the offset of a record, or
    the address of a slot. `expected` is what it should be. `offset_names` is the symbol that
    `offset` stands for, "" if it stands for none.
    """

    what: str
    stub: int
    slot: int
    by_stub: str = ""
    by_slot: str = ""
    bound: tuple[str, ...] = ()
    helper: int | None = None
    offset: int | None = None
    expected: int | None = None
    offset_names: str = ""


def disagreements(image: MachoMap) -> list[Disagreement]:
    """Return all contradictions in one image; a sound image has none."""
    slots = {slot.vaddr: slot for slot in image.slots}
    disagreements: list[Disagreement] = []
    for stub in image.stubs:
        disagreements += _of_stub(image, stub, slots.get(stub.slot))
    lazy = list(binds(image.image, c.LAZY_BIND, c.Ranges(None)))
    records = {bind.argument: bind.name for bind in lazy}
    for slot in image.slots:
        cell = image.cell(slot.vaddr)
        if cell is not None:
            disagreements += _of_slot(image, slot, cell)
            disagreements += _of_helper(image, slot, records, slots)
    for bind in lazy:
        if bind.vaddr not in slots:
            disagreements.append(Disagreement(RECORD_ELSEWHERE, 0, bind.vaddr, bound=(bind.name,)))
    return disagreements


def _of_stub(image: MachoMap, stub: Stub, slot: FileSlot | None) -> Iterator[Disagreement]:
    by_stub = image.stub_symbol(stub.vaddr)
    if not stub.slot:
        yield Disagreement(NO_CODE, stub.vaddr, 0, by_stub)
        return
    if slot is None:
        # An entry of a __jump_table that no symbol uses is no fault.
        if stub.slot != stub.vaddr or by_stub:
            yield Disagreement(NO_SLOT, stub.vaddr, stub.slot, by_stub)
        return
    if by_stub and slot.symbol and by_stub != slot.symbol and stub.kind != OBJC_STUB:
        cell = image.cell(slot.vaddr)
        bound = _bound(cell) if cell is not None else ()
        by_slot = _by_table(image, cell) if cell is not None else ""
        yield Disagreement(STUB_NAME, stub.vaddr, slot.vaddr, by_stub, by_slot, bound)


def _of_slot(image: MachoMap, slot: FileSlot, cell: Cell) -> Iterator[Disagreement]:
    bound = _bound(cell)
    by_slot = _by_table(image, cell)
    stub = slot.stubs[0].vaddr if slot.stubs else 0
    if len(bound) > 1:
        yield Disagreement(TWO_NAMES, stub, slot.vaddr, by_slot=by_slot, bound=bound)
    elif by_slot and bound and by_slot not in bound:
        yield Disagreement(SLOT_NAME, stub, slot.vaddr, by_slot=by_slot, bound=bound)
    is_empty = slot.stubs and not bound and slot.kind == c.REBASE and cell.target is None
    # The record that binds the slot may be among the data that could not be read.
    if is_empty or (slot.binding == UNBOUND and not image.partial):
        yield Disagreement(NO_RECORD, stub, slot.vaddr, by_slot=by_slot)


def _of_helper(
    image: MachoMap, slot: FileSlot, records: dict[int | None, str], slots: dict[int, FileSlot]
) -> Iterator[Disagreement]:
    """Compare what the slot's helper passes on with the slot's own record."""
    if slot.resolver_argument is None or slot.section is None:
        return
    stub = slot.stubs[0].vaddr if slot.stubs else 0
    helper = image.decoded.helper(slot.helper) if slot.helper is not None else None
    if slot.kind in (c.INDIRECT_SYMBOL, c.EXTERNAL_RELOCATION):
        # On ppc, all slots share one helper, which is a function. A __jump_table has none in the
        # file.
        if helper is not None and helper.slot is not None and helper.slot != slot.vaddr:
            other = slots.get(helper.slot)
            yield Disagreement(
                LAZY_SLOT,
                stub,
                slot.vaddr,
                helper=slot.helper,
                offset=helper.slot,
                expected=slot.vaddr,
                offset_names=other.symbol if other is not None else "",
            )
        return
    bound = (slot.symbol,)
    if helper is None or helper.offset is None:
        if slot.binding != "weak":
            yield Disagreement(NO_HELPER, stub, slot.vaddr, bound=bound, helper=slot.helper)
        return
    if helper.offset != slot.resolver_argument:
        yield Disagreement(
            LAZY_OFFSET,
            stub,
            slot.vaddr,
            bound=bound,
            helper=slot.helper,
            offset=helper.offset,
            expected=slot.resolver_argument,
            offset_names=records.get(helper.offset, ""),
        )


def _bound(cell: Cell) -> tuple[str, ...]:
    return tuple(dict.fromkeys(bind.name for bind in cell.records))


def _by_table(image: MachoMap, cell: Cell) -> str:
    return image.table.name(cell.row) if cell.row is not None else ""
