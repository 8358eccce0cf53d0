# SPDX-License-Identifier: Apache-2.0
"""The symbol tables of an ELF image: .dynsym as the loader uses it, and whole tables."""

from __future__ import annotations

import os
import sys
from struct import error as StructError  # noqa: N812  it is an exception

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf import slots
from soscope.binfmt.elf.lookup import GnuHash, Name, SysvHash, Versions, open_hash
from soscope.binfmt.elf.reader import SHORT, ElfReader, Encoding, LongNames
from soscope.binfmt.source import ByteSource, broken, take
from soscope.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from collections.abc import Set as AbstractSet

    from soscope.binfmt.elf.sections import Section, Sections


# A whole symbol table: .symtab, or a .dynsym that is read at once.
#
# The table is kept as bytes, and symbols are decoded only on request. A name is found by a search
# for its bytes, which takes milliseconds in a table of 100,000s of symbols.

_MAX_REASONS = 20
_MAX_TABLE = 1 << 30
_FEW = 32  # names that are searched for one by one; for more, an index is made
_NO_NAMES = (c.STT_SECTION, c.STT_FILE)
_ENCODING, _ERRORS = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()  # os.fsdecode's

Row = tuple[int, int, int, int, int, int]  # name, info, other, section, value, size


class ElfSymbol:
    """One symbol; `value` is a link-time address, or a number for SHN_ABS.

    `version` is None if it has none. `is_default` is False for a version that only binaries get
    that were linked against it. Link editors write names like `name@VERSION` into .symtab: then
    `name` is the part before `@`, and a single `@` marks a version that is not the default.
    """

    __slots__ = (
        "binding",
        "index",
        "is_default",
        "name",
        "section",
        "size",
        "type",
        "value",
        "version",
    )

    def __init__(
        self, index: int, name: str, row: Row, version: str | None, *, is_default: bool = True
    ) -> None:
        self.index = index
        self.name = name
        _, info, _, self.section, self.value, self.size = row
        self.type, self.binding = info & 15, info >> 4
        self.version = version
        self.is_default = is_default

    @property
    def is_defined(self) -> bool:
        """Return whether the image defines the symbol, rather than only using it."""
        return self.section != c.SHN_UNDEF


class SymbolArray:
    """The symbols of one table; `name` is the name of its file, for messages.

    `shift` is added to every value, because a separate debug file may be linked at another
    address than its image. `versions` has the versions of a dynamic symbol table. `partial` lists
    what could not be read of the symbols that were asked for.
    """

    __slots__ = (
        "_asked",
        "_by_name",
        "_has_numbers",
        "_long",
        "encoding",
        "name",
        "partial",
        "shift",
        "strings",
        "table",
        "versions",
    )

    def __init__(
        self,
        encoding: Encoding,
        table: bytes,
        strings: bytes,
        *,
        name: str,
        shift: int = 0,
        versions: Versions | None = None,
    ) -> None:
        self.encoding = encoding
        self.table = table[: len(table) // encoding.symbol.size * encoding.symbol.size]
        self.strings = strings
        self._long = LongNames(strings)
        self.name = name
        self.shift = shift
        self.versions = versions
        self._has_numbers = versions is not None and versions.are_there
        self.partial: list[str] = []
        self._asked = 0
        self._by_name: dict[bytes, list[int]] | None = None

    def __len__(self) -> int:
        """Return the number of symbols, including the null symbol."""
        return len(self.table) // self.encoding.symbol.size

    def row(self, index: int) -> Row:
        """Return the raw fields of one symbol: name, info, other, section, value, size.

        `name` is an offset. Raises IndexError if the table is shorter.
        """
        coding = self.encoding
        try:
            raw = coding.symbol.unpack_from(self.table, index * coding.symbol.size)
        except StructError:
            raise IndexError(index) from None
        return (
            raw if coding.bits == 64 and not self.shift else in_order(raw, coding.bits, self.shift)
        )

    def rows(self) -> Iterator[Row]:
        """Yield the raw fields of every symbol, as `row` does, in order."""
        bits, shift = self.encoding.bits, self.shift
        raw = self.encoding.symbol.iter_unpack(self.table)
        if bits == 64 and not shift:  # nearly always so, and quick: the stored order
            return raw
        return (in_order(row, bits, shift) for row in raw)

    def bytes_at(self, offset: int) -> bytes | None:
        """Return the string at `offset`, None if there is none or it is too long."""
        end = self.strings.find(b"\0", offset, offset + SHORT)
        return self.strings[offset:end] if end >= 0 else self._long.read(offset)

    def why_no_name(self, index: int) -> str:
        """Return why a symbol has no name, after `bytes_at` found none; "" if that is no error."""
        whose = "" if self._long.is_spent else f"st_name of symbol {index}: "
        return whose + self._long.reason if self._long.reason else ""

    def text(self, offset: int) -> str:
        """Return the string at `offset`, "" if there is none."""
        return (self.bytes_at(offset) or b"").decode(_ENCODING, _ERRORS)

    def symbol(self, index: int) -> ElfSymbol:
        """Return one symbol, with its name and version."""
        row, strings = self.row(index), self.strings
        end = strings.find(b"\0", row[0], row[0] + SHORT)
        if end >= 0:  # `text` inlined, for thousands of symbols
            name = strings[row[0] : end].decode(_ENCODING, _ERRORS)
        else:
            raw = self.bytes_at(row[0])
            if raw is None:
                self._say(self.why_no_name(index))
            name = (raw or b"").decode(_ENCODING, _ERRORS)
        if self.versions is not None:
            if not self._has_numbers:
                return ElfSymbol(index, name, row, None)
            try:
                number, hidden = self.versions.number(index)
                version = self.versions.name(number, is_defined=row[3] != c.SHN_UNDEF)
            except FormatError as error:
                self._say(str(error))
                hidden, version = False, None
            return ElfSymbol(index, name, row, version, is_default=not hidden)
        base, at, version = name.partition("@")
        if not base or not at:
            return ElfSymbol(index, name, row, None)
        is_default = version.startswith("@")
        return ElfSymbol(index, base, row, version.lstrip("@"), is_default=is_default)

    def _say(self, reason: str) -> None:
        if reason not in self.partial and len(self.partial) < _MAX_REASONS:
            self.partial.append(reason)

    def find(self, name: str, version: str | None = None) -> list[ElfSymbol]:
        """Return the symbols defined as `name`, in order of the table.

        Without a `version`, symbols that only binaries linked against them get are left out.
        """
        wanted = os.fsencode(name)
        if not wanted or b"\0" in wanted:
            return []
        self._asked += 1
        if self._by_name is None and self._asked > _FEW:
            self._by_name = self._index()
        known = self._by_name
        indices = self.called(wanted) if known is None else known.get(wanted, [])
        return [
            symbol
            for symbol in map(self.symbol, indices)
            if symbol.name == name
            and (symbol.is_default if version is None else symbol.version == version)
            and _is_definition(symbol)
        ]

    def known(self, wanted: AbstractSet[bytes]) -> set[bytes]:
        """Return the names of `wanted` that the table has, with or without a version."""
        if self._by_name is None:
            self._by_name = self._index()
        return wanted & self._by_name.keys()

    def called(self, wanted: bytes) -> list[int]:
        """Return the indices of the symbols with this name; in .symtab a version may follow it.

        Undefined symbols are included.
        """
        indices: set[int] = set()
        for ending in (b"\0",) if self.versions is not None else (b"\0", b"@"):
            at = self.strings.find(wanted + ending)
            while at >= 0:
                indices.update(self._with_name(at))
                at = self.strings.find(wanted + ending, at + 1)
        return sorted(indices)

    def _index(self) -> dict[bytes, list[int]]:
        """Return the indices of all symbols by name, which pays off for many look-ups."""
        by_name: dict[bytes, list[int]] = {}
        is_versioned = self.versions is None
        for index, name in self.names():
            base = name.partition(b"@")[0] if is_versioned else name
            by_name.setdefault(base or name, []).append(index)
        return by_name

    def _with_name(self, offset: int) -> Iterator[int]:
        """Yield the indices of the symbols whose first field, st_name, is `offset`."""
        step = self.encoding.symbol.size
        needle = self.encoding.u32.pack(offset)
        at = self.table.find(needle)
        while at >= 0:
            if at % step == 0:
                yield at // step
            at = self.table.find(needle, (at // step + 1) * step)

    def names(self, part: bytes = b"") -> Iterator[tuple[int, bytes]]:
        """Yield (index, name) of all defined symbols whose name contains `part`."""
        if part and part not in self.strings:
            return
        strings, long = self.strings, LongNames(self.strings)
        for index, (offset, info, _, section, _, _) in enumerate(self.rows()):
            if section == c.SHN_UNDEF or not offset or info & 15 in _NO_NAMES:
                continue
            end = strings.find(b"\0", offset, offset + SHORT)
            name = strings[offset:end] if end >= 0 else long.read(offset)
            if name and (not part or part in name):
                yield index, name


def in_order(raw: tuple[int, ...], bits: int, shift: int = 0) -> Row:
    """Return the fields of a symbol in the order of ELF64, for either class."""
    if bits == 64:
        name, info, other, section, value, size = raw
    else:
        name, value, size, info, other, section = raw
    if shift and section != c.SHN_ABS and info & 15 != c.STT_TLS:
        value = value + shift & (1 << bits) - 1
    return name, info, other, section, value, size


def _is_definition(symbol: ElfSymbol) -> bool:
    return (
        symbol.section not in (c.SHN_UNDEF, c.SHN_COMMON)
        and symbol.type not in _NO_NAMES
        and symbol.binding in (c.STB_LOCAL, c.STB_GLOBAL, c.STB_WEAK, c.STB_GNU_UNIQUE)
    )


def read_table(
    source: ByteSource, sections: Sections, section: Section, encoding: Encoding, *, shift: int = 0
) -> SymbolArray:
    """Read a section of type SHT_SYMTAB or SHT_DYNSYM, with the names of its symbols.

    Raises FormatError if the symbols are not in the file, or if they belong to no string table.
    """
    if section.entsize != encoding.symbol.size:
        raise broken(source, "sh_entsize", section.offset, f"{section.entsize} bytes a symbol")
    if not 0 < section.link < len(sections.all):
        raise broken(source, "sh_link", section.offset, f"no section {section.link}")
    strings = sections.all[section.link]
    if strings.type != c.SHT_STRTAB:
        raise broken(source, "sh_link", section.offset, "not a string table")
    return SymbolArray(
        encoding,
        sections.data(section, _MAX_TABLE),
        sections.data(strings, _MAX_TABLE),
        name=source.name,
        shift=shift,
    )


def static_table(source: ByteSource, sections: Sections, encoding: Encoding) -> SymbolArray:
    """Read .symtab; an empty array if there is none.

    Raises FormatError as `read_table` does.
    """
    section = sections.of_type(c.SHT_SYMTAB)
    if section is None:
        return SymbolArray(encoding, b"", b"", name=source.name)
    return read_table(source, sections, section, encoding)


# The loader's choice among an image's symbols of one name: one rule for all tables.
#
# glibc: check_match and do_lookup_x of elf/dl-lookup.c. The first symbol of the chain that
# check_match accepts decides. If do_lookup_x then rejects it, for its binding or visibility, the
# loader goes on with the next image, even if this image has further symbols of the name. musl:
# find_sym2 of ldso/dynlink.c, where the first symbol that has no hidden version decides in the same
# way.

# Uses for which a symbol is looked up.
DLSYM = "dlsym"  # dlsym, or dlvsym with a version
CALL = "call"  # a slot for calls; a program's own stub does not count as a definition
REFERENCE = "reference"  # any other relocation

_TYPES = (c.STT_NOTYPE, c.STT_OBJECT, c.STT_FUNC, c.STT_COMMON, c.STT_TLS)
_GLIBC_TYPES = frozenset((*_TYPES, c.STT_GNU_IFUNC))
_MUSL_TYPES = frozenset(_TYPES)
_BINDINGS = frozenset((c.STB_GLOBAL, c.STB_WEAK, c.STB_GNU_UNIQUE))
_HIDDEN = frozenset((c.STV_HIDDEN, c.STV_INTERNAL))


class SymbolEntry:
    """One candidate of a look-up; `value` is the link-time value in the table.

    `index` is its index in the table. `number` is its word of DT_VERSYM, None if the image has no
    versions.
    """

    __slots__ = ("binding", "index", "number", "other", "section", "size", "type", "value")

    def __init__(
        self,
        index: int,
        info: int,
        other: int,
        section: int,
        value: int,
        size: int,
        number: int | None,
    ) -> None:
        self.index = index
        self.type = info & 15
        self.binding = info >> 4
        self.other = other
        self.section = section
        self.value = value
        self.size = size
        self.number = number

    @property
    def is_hidden_version(self) -> bool:
        """Return whether only look-ups with its version find it."""
        return self.number is not None and bool(self.number & c.VERSYM_HIDDEN)

    @property
    def is_stub(self) -> bool:
        """Return whether it is a program's own stub for a function of another image."""
        return self.section == c.SHN_UNDEF


def choose(
    entries: Iterable[SymbolEntry],
    version: str | None,
    versions: Versions,
    *,
    use: str = DLSYM,
    musl: bool = False,
) -> SymbolEntry | None:
    """Return the symbol that a loader takes among an image's symbols of one name, or None.

    `entries` are in order of the hash chain. Raises FormatError if the names of versions are
    damaged.
    """
    if musl:
        return _musl_choice(entries, version, versions, use)
    entry = _checked(entries, version, versions, use)
    return entry if entry is not None and _is_bound_to(entry) else None


def is_definition(entry: SymbolEntry, *, musl: bool = False) -> bool:
    """Return whether a loader accepts a symbol as a definition, whatever the version."""
    if musl:
        return _is_musls(entry, REFERENCE)
    return _is_code_or_data(entry, REFERENCE) and _is_bound_to(entry)


def _checked(
    entries: Iterable[SymbolEntry], version: str | None, versions: Versions, use: str
) -> SymbolEntry | None:
    """Return the symbol that check_match accepts, else the default version if there is only one."""
    defaults: list[SymbolEntry] = []
    for entry in entries:
        if not _is_code_or_data(entry, use):
            continue
        number = entry.number
        if number is None:
            return entry
        plain, is_hidden = number & ~c.VERSYM_HIDDEN, number & c.VERSYM_HIDDEN
        if version is not None:
            name = versions.name(plain, is_defined=not entry.is_stub)
            if name == version or (use != DLSYM and name is None and not is_hidden):
                return entry
        elif plain < (2 if use == DLSYM else 3):  # 2 is the oldest version, for old binaries
            return entry
        elif not is_hidden:
            defaults.append(entry)
    return defaults[0] if len(defaults) == 1 else None


def _is_code_or_data(entry: SymbolEntry, use: str) -> bool:
    """Return whether check_match accepts a symbol, before it compares versions."""
    if entry.type not in _GLIBC_TYPES:
        return False
    if entry.section == c.SHN_UNDEF:
        # no reference is bound to an undefined thread-local variable; only dlsym would accept one
        return bool(entry.value) and use != CALL and entry.type != c.STT_TLS
    return bool(entry.value) or entry.section == c.SHN_ABS or entry.type == c.STT_TLS


def _is_bound_to(entry: SymbolEntry) -> bool:
    """Return whether do_lookup_x accepts a symbol that check_match has accepted."""
    return entry.binding in _BINDINGS and entry.other & 3 not in _HIDDEN


def _musl_choice(
    entries: Iterable[SymbolEntry], version: str | None, versions: Versions, use: str
) -> SymbolEntry | None:
    """Return the symbol that musl takes; musl has no dlvsym, so soscope compares versions."""
    for entry in entries:
        if version is not None and use == DLSYM and entry.number is not None:
            if versions.name(entry.number, is_defined=not entry.is_stub) != version:
                continue
        elif entry.is_hidden_version:
            continue
        return entry if _is_musls(entry, use) else None
    return None


def _is_musls(entry: SymbolEntry, use: str) -> bool:
    """Return whether find_sym2 accepts it: no IFUNC, no absolute 0, any visibility."""
    if entry.type not in _MUSL_TYPES or entry.binding not in _BINDINGS:
        return False
    if not entry.value and entry.type != c.STT_TLS:
        return False
    return not entry.is_stub or (use != CALL and entry.type != c.STT_TLS)


# The dynamic symbol table of an image: look-ups by name or index, or the whole table.
#
# A single question reads a single symbol. `read_all` reads every table at once, for callers that
# ask a lot or want to close the file.
#
# In memory, no field has the number of symbols. DT_HASH counts them all, DT_GNU_HASH only the
# exported ones. The indices in relocations tell about the rest.

_MAX_SYMBOLS = 1 << 24
_MAX_STRINGS = 1 << 30


class SymbolTable:
    """The dynamic symbols of an image; `versions` are their versions.

    Every look-up raises FormatError if the tables are damaged or gone.
    """

    __slots__ = (
        "_array",
        "_at",
        "_count",
        "_hash",
        "_image",
        "_is_whole",
        "_strings_at",
        "versions",
    )

    def __init__(self, image: ElfReader) -> None:
        self._image = image
        self._at = image.locate_pointer(c.DT_SYMTAB)
        self._strings_at = image.locate_pointer(c.DT_STRTAB)
        self.versions = Versions(image)
        self._hash: GnuHash | SysvHash | bool | None = False  # not opened yet
        self._count: int | None = None
        self._array: SymbolArray | None = None
        self._is_whole = False

    @property
    def places(self) -> tuple[int, int]:
        """Positions of DT_SYMTAB and DT_STRTAB in the source, 0 if there are none."""
        return self._at or 0, self._strings_at or 0

    @property
    def hash(self) -> GnuHash | SysvHash | None:
        """The hash table that a loader would use, None if there is none."""
        if isinstance(self._hash, bool):
            self._hash = open_hash(self._image)
        return self._hash

    # ---- look-up by name ----

    def named(self, name: Name) -> list[SymbolEntry]:
        """Return the symbols with this name, in the order in which a loader looks at them."""
        table = self._hash
        if isinstance(table, bool):
            table = self.hash
        if table is None:
            if not self._said_count():
                return []
            indices = self.array.called(name.text[:-1])
        else:
            indices = table.indices(name)
            if not indices:
                return []
        return [self.entry(index) for index in indices if self._is_called(index, name.text)]

    def find(
        self, name: Name, version: str | None = None, *, use: str = DLSYM, musl: bool = False
    ) -> SymbolEntry | None:
        """Return the symbol that a loader takes in this image, or None; see `match.choose`."""
        entries = self.named(name)
        return self.choose(entries, version, use=use, musl=musl) if entries else None

    def choose(
        self,
        entries: list[SymbolEntry],
        version: str | None = None,
        *,
        use: str = DLSYM,
        musl: bool = False,
    ) -> SymbolEntry | None:
        """Return the symbol that a loader takes among several of one name, or None."""
        return choose(entries, version, self.versions, use=use, musl=musl)

    def definitions(self, name: Name, *, musl: bool = False) -> list[SymbolEntry]:
        """Return all definitions of this name, of any version."""
        return [entry for entry in self.named(name) if is_definition(entry, musl=musl)]

    def version_of(self, entry: SymbolEntry) -> str | None:
        """Return the name of a symbol's version, None if it has none."""
        if entry.number is None:
            return None
        return self.versions.name(entry.number, is_defined=not entry.is_stub)

    def lookup(self, name: str) -> ElfSymbol | None:
        """Return the definition of `name`, the default version first, None if there is none."""
        entry = self._definition(name)
        return None if entry is None else self._symbol(entry, name)

    def addr(self, name: str) -> int | None:
        """Return the run-time address of `name`, None if this image does not define it.

        It is cheaper than `lookup`, because the names of versions are not read.
        """
        entry = self._definition(name)
        return None if entry is None else entry.value + self._image.load_bias

    def _definition(self, name: str) -> SymbolEntry | None:
        """Return the symbol that dlsym takes, else the first definition of any version."""
        entries = [entry for entry in self.named(Name(os.fsencode(name))) if not entry.is_stub]
        every = [entry for entry in entries if is_definition(entry)]
        return self.choose(entries) or next(iter(every), None)

    def _symbol(self, entry: SymbolEntry, name: str) -> ElfSymbol:
        info = entry.binding << 4 | entry.type
        row = 0, info, entry.other, entry.section, entry.value, entry.size
        version = self.version_of(entry)
        return ElfSymbol(entry.index, name, row, version, is_default=not entry.is_hidden_version)

    # ---- look-up by index ----

    def entry(self, index: int) -> SymbolEntry:
        """Return the symbol at `index`."""
        _, info, other, section, value, size = self._row(index)
        return SymbolEntry(index, info, other, section, value, size, self.versions.raw(index))

    def _row(self, index: int) -> tuple[int, int, int, int, int, int]:
        array, coding = self._array, self._image.encoding
        if array is not None:
            try:
                return array.row(index)
            except IndexError:
                pass  # only the symbols for look-ups were read
        step = coding.symbol.size
        data = take(self._image.source, (self._at or 0) + index * step, step, "DT_SYMTAB")
        return in_order(coding.symbol.unpack(data), coding.bits)

    def _is_called(self, index: int, text: bytes) -> bool:
        """Return whether a symbol has the name `text`, which ends with a NUL byte."""
        if self._at is None or self._strings_at is None:
            return False
        offset = self._row(index)[0]
        if self._array is not None:
            return self._array.strings.startswith(text, offset)
        return self._image.source.read(self._strings_at + offset, len(text)) == text

    def indices_named(self, name: bytes) -> list[int]:
        """Return the indices of all symbols with this name, imports included.

        Imports are in no hash table. So this reads the symbol table up to DT_STRTAB, which every
        linker puts behind it, or else as many symbols as the table has.
        """
        if self._at is None or self._strings_at is None:
            return []
        count = (self._strings_at - self._at) // self._image.encoding.symbol.size
        if not 0 < count < _MAX_SYMBOLS:
            count = len(self)
        return self.leading(count).called(name)

    # ---- the whole table ----

    def __len__(self) -> int:
        """Return the number of symbols with the null symbol, or at least of all that are used."""
        if self._count is None:
            count = self._said_count()
            if count is None:
                table = self.hash
                count = table.end if table is not None else 0
                used = slots.all_symbols(self._image)
                count = max([count, *(index + 1 for index in used)])
            if count > _MAX_SYMBOLS:
                raise broken(self._image.source, "DT_SYMTAB", self._at or 0, f"{count} symbols")
            self._count = count
        return self._count

    def _said_count(self) -> int | None:
        """Return the count in DT_HASH or DT_MIPS_SYMTABNO, None if there is neither."""
        image = self._image
        at = image.locate_pointer(c.DT_HASH)
        if at is not None:
            return SysvHash(image, at).end
        arch = image.header.arch if image.header else None
        return image.dynamic.get(arch.symbol_count) if arch and arch.symbol_count else None

    def __iter__(self) -> Iterator[ElfSymbol]:
        """Read all symbols but the null symbol at index 0."""
        return self._read()

    def undefined(self) -> Iterator[ElfSymbol]:
        """Read only the symbols that the image uses and does not define."""
        return self._read(undefined_alone=True)

    def _read(self, *, undefined_alone: bool = False) -> Iterator[ElfSymbol]:
        count = len(self)
        if count <= 1 or self._at is None:
            return
        array = self.array
        for index, row in enumerate(array.rows()):
            if not index or (undefined_alone and row[3] != c.SHN_UNDEF):
                continue
            name = array.bytes_at(row[0])
            if name is None:
                where = self._at + index * self._image.encoding.symbol.size
                raise broken(self._image.source, "st_name", where, array.why_no_name(index))
            number, is_hidden = self.versions.number(index)
            version = self.versions.name(number, is_defined=row[3] != c.SHN_UNDEF)
            yield ElfSymbol(index, os.fsdecode(name), row, version, is_default=not is_hidden)

    @property
    def array(self) -> SymbolArray:
        """The whole table; an empty one if the image has none."""
        if self._array is None or not self._is_whole:
            self._array = self._read_whole(len(self))
            self._is_whole = True
        return self._array

    def read_all(self) -> None:
        """Read what look-ups need: the hash table, the symbols in it, their versions."""
        table = self.hash
        if table is None:
            count = self._said_count() or 0
        else:
            table.read_all()
            count = table.end
        if self._array is None:
            self._array = self._read_whole(min(count, _MAX_SYMBOLS))
        self.versions.read_own()

    def leading(self, count: int) -> SymbolArray:
        """Return the first `count` symbols, fewer if the source has fewer bytes."""
        image, empty = self._image, b""
        if self._array is not None and len(self._array) >= count:
            return self._array
        if self._at is None or self._strings_at is None:
            return SymbolArray(image.encoding, empty, empty, name=image.source.name)
        size = min(image.dynamic.get(c.DT_STRSZ) or 0, _MAX_STRINGS)
        self.versions.strings = strings = image.source.read(self._strings_at, size)
        return SymbolArray(
            image.encoding,
            image.source.read(self._at, count * image.encoding.symbol.size),
            strings,
            name=image.source.name,
            versions=self.versions,
        )

    def _read_whole(self, count: int) -> SymbolArray:
        image, coding = self._image, self._image.encoding
        size = image.dynamic.get(c.DT_STRSZ)
        if self._at is None or self._strings_at is None or not size or not count:
            return SymbolArray(coding, b"", b"", name=image.source.name)
        if size > _MAX_STRINGS:
            raise broken(image.source, "DT_STRSZ", self._strings_at, f"{size} bytes")
        self.versions.read_numbers(count)
        table = take(image.source, self._at, count * coding.symbol.size, "DT_SYMTAB")
        strings = take(image.source, self._strings_at, size, "DT_STRTAB")
        self.versions.strings = strings
        return SymbolArray(coding, table, strings, name=image.source.name, versions=self.versions)

    def named_all(self, wanted: dict[int, list[bytes]]) -> dict[bytes, list[SymbolEntry]]:
        """Return the symbols of many names at once, in the order in which a loader looks at them.

        `wanted` maps each gnu_hash, with its lowest bit set, to the names that have it. These
        names, and the keys of the result, end with a NUL byte.
        """
        table = self.hash
        entries: dict[bytes, list[SymbolEntry]] = {}
        if not isinstance(table, GnuHash):
            if not self._said_count():
                return entries
            every = {name for names in wanted.values() for name in names}
            here = {(self.array.bytes_at(row[0]) or b"") + b"\0" for row in self.array.rows()}
            return {name: self.named(Name(name[:-1])) for name in every & here}
        first, hashes = table.first, table.hashes
        hits = [at + first for at, value in enumerate(hashes) if value | 1 in wanted]
        if not hits:
            return entries
        array, low = self._array, 0
        if array is None or len(array) <= hits[-1]:
            low = hits[0]
            array = self._stretch(low, hits[-1] + 1)
        numbers = self.versions.demand_numbers(hits[-1] + 1)
        row, is_called = array.row, array.strings.startswith
        for index in hits:
            offset, info, other, section, value, size = row(index - low)
            for name in wanted[hashes[index - first] | 1]:
                if is_called(name, offset):
                    number = numbers[index] if numbers else None
                    entry = SymbolEntry(index, info, other, section, value, size, number)
                    entries.setdefault(name, []).append(entry)
        return entries

    def _stretch(self, low: int, high: int) -> SymbolArray:
        """Return only the symbols from index `low` up to `high`."""
        image, step = self._image, self._image.encoding.symbol.size
        at, strings = self.places
        return SymbolArray(
            image.encoding,
            take(image.source, at + low * step, (high - low) * step, "DT_SYMTAB"),
            image.source.read(strings, image.dynamic.get(c.DT_STRSZ) or 0),
            name=image.source.name,
        )

    def undefined_weak(self) -> set[str]:
        """Return the names of undefined weak symbols, which the image can do without."""
        # DT_GNU_HASH begins behind the last undefined symbol
        first = self.hash.first if isinstance(self.hash, GnuHash) else 0
        array = self.leading(min(first, _MAX_SYMBOLS) if first > 1 else len(self))
        return {
            os.fsdecode(array.bytes_at(row[0]) or b"")
            for row in array.rows()
            if row[3] == c.SHN_UNDEF and row[1] >> 4 == c.STB_WEAK
        } - {""}


def dynamic_table(image: ElfReader) -> SymbolArray:
    """Read the whole dynamic symbol table of an image; an empty array if it has none.

    Raises FormatError if the table is cut.
    """
    return SymbolTable(image).array
