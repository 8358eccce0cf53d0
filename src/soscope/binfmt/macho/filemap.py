# SPDX-License-Identifier: Apache-2.0
"""What one Mach-O image says about its linking, as a FileMap (`soscope.model.filemap`).

A slot's section has its segment in its name ("__DATA,__got"). Symbols keep their underscore. For
a lazy slot, the resolver gets the offset of its record in the lazy bind opcodes; before
LC_DYLD_INFO it gets the slot's own address.
"""

from __future__ import annotations

from functools import cached_property

from soscope.binfmt.macho import constants as c
from soscope.binfmt.macho import ordinals
from soscope.binfmt.macho import records as r
from soscope.binfmt.macho.exports import exports
from soscope.binfmt.macho.fat import Slice
from soscope.binfmt.macho.image import MachoImage
from soscope.binfmt.macho.slots import Cell, Cells
from soscope.binfmt.macho.stubs import MachoStubs
from soscope.binfmt.macho.symbols import MachoSymbols, Nlist
from soscope.binfmt.source import ByteSource
from soscope.binfmt.spans import Spans
from soscope.model.filemap import (
    LAZY,
    MACHO,
    NOW,
    PRELINKED,
    UNBOUND,
    WEAK,
    FileSlot,
    Signed,
    Stub,
    Symbol,
)

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

    def binds(self) -> list[r.Bind]:
        """Return every record of the loader's data, also records of pointers that are not slots."""
        return list(self.cells.binds(r.Ranges(None)))

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
            return ordinals.UNBOUND
        ordinal = self._ordinals.get(slot.vaddr)
        cell = self.cell(slot.vaddr)
        if (cell is None or not cell.records) and slot.defined_here:
            return ordinals.DEFINED_HERE
        if not self.image.header.flags & c.MH_TWOLEVEL and (cell is None or not cell.records):
            return ordinals.NOT_TWO_LEVEL
        return ordinals.reason(ordinal, self.image.libraries)

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
            defined = kind == r.REBASE or (record is not None and self._defines(record))
        lazy = next((bind for bind in reversed(cell.records) if bind.kind == r.LAZY_BIND), None)
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
            library="" if binding == UNBOUND else ordinals.library(ordinal, image.libraries),
            binding=binding,
            resolver_argument=argument,
            helper=helper,
            signed=self._signed(record),
            stubs=stubs,
        )

    def _binding(self, cell: Cell, record: r.Bind | None) -> tuple[str, str]:
        """Return what binds the cell, and when."""
        flags = self.image.header.flags
        if record is not None:
            kinds = {bind.kind for bind in cell.records}
            if r.WEAK_BIND in kinds or record.ordinal == ordinals.WEAK_LOOKUP:
                return record.kind, WEAK
            if record.kind == r.LAZY_BIND and not flags & c.MH_BINDATLOAD:
                return record.kind, LAZY
            return record.kind, NOW
        if cell.row is None:
            return r.REBASE, NOW
        if self.image.dyld_info or self.image.chained[1]:
            # An image extracted from a shared cache has lost its records.
            is_done = cell.row.is_defined or flags & c.MH_DYLIB_IN_CACHE
            return (r.REBASE, NOW) if is_done else (r.INDIRECT_SYMBOL, UNBOUND)
        if cell.target is not None and flags & c.MH_PREBOUND and not self._inside(cell.target):
            return r.INDIRECT_SYMBOL, PRELINKED
        if cell.lazy and not flags & c.MH_BINDATLOAD:
            return r.INDIRECT_SYMBOL, LAZY
        return r.INDIRECT_SYMBOL, NOW

    def _inside(self, vaddr: int) -> bool:
        return self._inner.at(vaddr) is not None

    @cached_property
    def _inner(self) -> Spans:
        return Spans(
            (segment.vaddr, segment.vaddr + segment.size) for segment in self.image.segments
        )

    def _ordinal(self, record: r.Bind | None, row: Nlist | None) -> int | None:
        if record is not None:
            return record.ordinal
        if row is None or row.is_defined:
            return ordinals.SELF
        if not self.image.header.flags & c.MH_TWOLEVEL:
            return ordinals.FLAT_LOOKUP
        return ordinals.of_symbol(row.description)

    def _defines(self, record: r.Bind) -> bool:
        """Return whether this image defines the symbol of `record`, by its name alone."""
        if record.ordinal == ordinals.SELF:
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

    def _signed(self, record: r.Bind | None) -> Signed | None:
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
                library = ordinals.library(export.ordinal, self.image.libraries)
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
            ordinals.library(ordinal, self.image.libraries),
        )


def chosen(cell: Cell) -> r.Bind | None:
    """Return the record that tells a cell's symbol and library best, None if it has none.

    A weak record has no library, but the other record of the same cell has one.
    """
    named = [bind for bind in cell.records if bind.kind != r.WEAK_BIND]
    if named:
        return named[-1]
    return cell.records[-1] if cell.records else None
