# SPDX-License-Identifier: Apache-2.0
"""The loader's choice among an image's symbols of one name: one rule for all tables.

glibc: check_match and do_lookup_x of elf/dl-lookup.c. The first symbol of the chain that
check_match accepts decides. If do_lookup_x then rejects it, for its binding or visibility, the
loader goes on with the next image, even if this image has further symbols of the name. musl:
find_sym2 of ldso/dynlink.c, where the first symbol that has no hidden version decides in the same
way.
"""

from __future__ import annotations

from soscope.binfmt.elf import constants as c

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from soscope.binfmt.elf.symbols.versions import Versions

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
