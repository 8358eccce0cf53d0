# SPDX-License-Identifier: Apache-2.0
"""Finds how one file was instrumented, and how much of it. Nothing of it is executed."""

from __future__ import annotations

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.elf.sections import patchable_entries
from soscope.binfmt.elf.unwind import FrameTable
from soscope.binfmt.isa import part
from soscope.errors import FormatError, SoscopeError
from soscope.instruments.prof.check.functions import Functions
from soscope.instruments.prof.check.hooks import (
    BARE,
    CYG,
    ENTRIES,
    MCOUNT,
    PATCHABLE,
    ProfilingHooks,
    symbol_tables,
)
from soscope.instruments.prof.check.inlined import count_inlined
from soscope.instruments.prof.check.sites import Sites, find_sites
from soscope.linker.collect import shortfall
from soscope.linker.library import open_image
from soscope.model.image import Record

NO_RELRO, PARTIAL_RELRO, FULL_RELRO = "none", "partial", "full"

_COMMENTS = 1 << 20  # bytes
_COPIES = b"\x41\xff\x72\xf8"  # push -8(%r10): a copy of the return address in a realigned frame
_PROLOGUE = 96  # bytes before a call of mcount in which the agent looks for _COPIES
CALL_ROOM = 5  # bytes of a call instruction
_ENTRY = 64  # bytes; more than any compiler reserves


class Instrumentation(Record):
    """The instrumentation of a file.

    `kind` is a word of hooks.py, None if the file is not instrumented. `sites` are the calls of
    the hook at entries of functions, or the entries with room for a call. `functions` have at
    least one of them. `inlined` sites belong to inlined functions, and `inlined_span` is a
    minimum and a maximum of that number; None means not known. `has_slot` means that the hook is
    called through a slot, and `only_bare` that the only hook is BARE. `loads` is how often code
    loads the hook's address, and `others` are further kinds -> sites. `realigned` functions have
    a copy of the return address in their frame. `resolvers` are IFUNCs with a site. `compilers`
    are "gcc" and "clang", as far as the file tells. `nops` maps the sizes in bytes of the
    no-operations at the start of a function to how many entries have them. `has_code` means that
    the code of its machine can be read.
    """

    __slots__ = (
        "compilers",
        "functions",
        "has_code",
        "has_mcount_table",
        "has_slot",
        "has_xray",
        "inlined",
        "inlined_span",
        "kind",
        "loads",
        "mapped",
        "nops",
        "only_bare",
        "others",
        "path",
        "realigned",
        "relro",
        "resolvers",
        "sites",
    )

    def __init__(self, path: str, mapped: ElfMap) -> None:
        self.path = path
        self.mapped = mapped
        self.kind: str | None = None
        self.sites: int | None = 0
        self.functions: int | None = 0
        self.inlined: int | None = None
        self.inlined_span: tuple[int, int] | None = None
        self.relro = relro_of(mapped)
        self.has_slot = False
        self.only_bare = False
        self.loads = 0
        self.others: dict[str, int] = {}
        self.realigned = 0
        self.resolvers: list[str] = []
        self.compilers = _compilers(mapped)
        self.nops: dict[tuple[int, ...], int] = {}
        self.has_code = part(mapped.machine, "calls") is not None
        self.has_xray = mapped.sections.named("xray_instr_map") is not None
        self.has_mcount_table = mapped.sections.named("__mcount_loc") is not None

    @property
    def rooms(self) -> int:
        """Return how many entries have room for a call."""
        return sum(count for sizes, count in self.nops.items() if sum(sizes) >= CALL_ROOM)


def look_at(path: str) -> Instrumentation:
    """Examine the ELF file at `path`.

    Raises SoscopeError (slug no-such-file) if it cannot be opened, and FormatError if it is no
    ELF file, is not linked, has no code, or is damaged in a relevant part.
    """
    try:
        mapped = ElfMap(open_image(path))
        return _look(path, mapped)
    except (OSError, MemoryError) as error:
        raise SoscopeError(
            f"cannot read '{path}': {shortfall(error)}", slug="no-such-file"
        ) from error


def _look(path: str, mapped: ElfMap) -> Instrumentation:
    unlinked = {"relocatable": "an object file that is not linked", "core": "a core dump"}
    what = "debugging information alone" if mapped.is_hollow else unlinked.get(mapped.kind)
    if what is not None:
        raise FormatError(f"{path}: e_type at offset 0x10: {what}", field="e_type", offset=16)
    library = Instrumentation(path, mapped)
    tables = symbol_tables(mapped)
    hooks = ProfilingHooks(mapped, tables)
    returns = _hooked(library, hooks)
    entries = patchable_entries(mapped.image, mapped.sections)
    if library.kind is None and entries:
        library.kind, library.sites, library.inlined = PATCHABLE, len(entries), 0
        _count_nops(library, entries)
    elif entries:
        library.others[PATCHABLE] = len(entries)
    if library.kind is None or library.sites is None:
        return library
    functions = Functions(mapped, tables)
    places = entries if library.kind == PATCHABLE else [vaddr - 1 for vaddr in returns]
    indices = {functions.at(vaddr) for vaddr in places}
    if -1 not in indices:
        library.functions = sum(not functions.is_cold(index) for index in indices)
    else:  # all kinds but CYG have one site at each function
        library.functions = None if library.kind == CYG else library.sites
    if library.kind == CYG:
        span = (0, 0) if library.only_bare else count_inlined(mapped, functions, returns)
        library.inlined_span = span
        library.inlined = span[0] if span is not None and span[0] == span[1] else None
    elif library.kind == MCOUNT:
        library.realigned = sum(
            _COPIES in functions.code_before(vaddr, _PROLOGUE) for vaddr in returns
        )
    if library.kind != PATCHABLE:
        library.resolvers = sorted(
            symbol.name
            for symbol in mapped.symbols
            if symbol.type == "ifunc"
            and symbol.defined_here
            and functions.at(symbol.vaddr) in indices - {-1}
        )
    return library


def _hooked(library: Instrumentation, hooks: ProfilingHooks) -> list[int]:
    """Find the hook that most sites call. Return the sites' return addresses, sorted."""
    by_kind: dict[str, dict[str, Sites | None]] = {}
    for name, kind in ENTRIES.items():
        slots, own = hooks.slots.get(name, []), hooks.own.get(name, set())
        if not slots and not own:
            continue
        sites = find_sites(library.mapped, slots, own)
        if sites is not None and not sites.returns:
            if own:
                continue  # a hook that the file defines for other files
            sites = None  # the slot must have some use
        if sites is not None or slots:
            by_kind.setdefault(kind, {})[name] = sites
    counts = {
        kind: sum(0 if sites is None else len(sites.returns) for sites in names.values())
        for kind, names in by_kind.items()
    }
    if not counts:
        return []
    library.kind = kind = max(counts, key=lambda name: counts[name])
    library.others = {other: count for other, count in counts.items() if other != kind}
    names = by_kind[kind]
    library.has_slot = any(hooks.slots.get(name) for name in names)
    library.only_bare = list(names) == [BARE]
    known = [sites for sites in names.values() if sites is not None]
    if len(known) < len(names):
        library.sites = library.functions = None
        return []
    returns = sorted({vaddr for sites in known for vaddr in sites.returns})
    library.sites = len(returns)
    library.loads = sum(sites.loads for sites in known)
    if kind != CYG:
        library.inlined = 0
    return returns


def relro_of(mapped: ElfMap) -> str:
    """Return which slots the loader makes read-only: all, those that are never lazy, or none.

    All are read-only if the file forbids lazy binding, which linkers and checkers call full
    RELRO.
    """
    if not any(segment.type == c.PT_GNU_RELRO for segment in mapped.image.segments):
        return NO_RELRO
    flags = (c.DT_FLAGS, c.DF_BIND_NOW), (c.DT_FLAGS_1, c.DF_1_NOW)
    is_now = mapped.tag(c.DT_BIND_NOW) is not None or any(
        (mapped.tag(tag) or 0) & bit for tag, bit in flags
    )
    return FULL_RELRO if is_now else PARTIAL_RELRO


def _compilers(mapped: ElfMap) -> set[str]:
    """Return the compilers of a file. gcc counts only if alone, as its own files are in each."""
    section = mapped.sections.named(".comment")
    try:
        said = b"" if section is None else mapped.sections.data(section, _COMMENTS)
    except FormatError:
        return set()
    if b"clang" in said:
        return {"clang"}
    return {"gcc"} if b"GCC:" in said else set()


def _count_nops(library: Instrumentation, entries: list[int]) -> None:
    known, image = part(library.mapped.machine, "nops"), library.mapped.image
    if known is None:
        return
    try:
        frames = FrameTable(image)
    except (SoscopeError, OSError):
        frames = None
    for vaddr in entries:
        try:
            code = image.source.read(image.locate(vaddr), _ENTRY)
            behind = sum(known.nops(code))
            extent = None if frames is None else frames.extent(vaddr + behind)
            before = 0 if extent is None else extent[0] - vaddr
            sizes = tuple(known.nops(code[before:] if 0 < before <= behind else code))
        except FormatError:
            continue  # an entry outside of the file has no code
        library.nops[sizes] = library.nops.get(sizes, 0) + 1
