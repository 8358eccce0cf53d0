# SPDX-License-Identifier: Apache-2.0
"""Find out how a file was instrumented, how completely, and how it can be profiled."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.elf.sections import patchable_entries, relative_words
from soscope.binfmt.elf.symboltable import SymbolArray, dynamic_table, static_table
from soscope.binfmt.elf.unwind import FrameTable, code_ranges
from soscope.binfmt.isa import CALL, JUMP, LOAD, STUB, part
from soscope.binfmt.stubs.finder import SlotTable, all_code
from soscope.errors import FormatError, SoscopeError
from soscope.instruments.prof.model import (
    MODE_COUNT,
    MODE_LOG,
    MODE_QUIET,
    MODE_SAMPLE,
    MODE_TIME,
    MODES,
)
from soscope.linker.collect import shortfall
from soscope.linker.library import open_image
from soscope.model.filemap import FileSlot
from soscope.model.record import Record, fresh

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


# Divides the code of a file into functions, by its unwind tables and symbols.

# Suffixes of names: code of a function in another place, and a part of it that it calls.
_COLD, _SPLIT = ".cold", ".part"
_AT_CALL = 8  # bytes from the stack pointer to the CFA at the start of an x86-64 function


class Functions:
    """The pieces of a file's code, by rising address. With gcc, a function may be several pieces.

    `starts` are link-time addresses, and `names` are the symbols of each piece, none in a
    stripped file.
    """

    __slots__ = ("_bases", "_ends", "_frames", "_mapped", "names", "starts")

    def __init__(self, mapped: ElfMap, tables: list[SymbolArray]) -> None:
        """Read the unwind tables and `tables`. Damage is noted in `mapped.partial`."""
        self._mapped = mapped
        self._frames: FrameTable | None = None
        ranges: dict[int, int] = {}
        named: dict[int, set[str]] = {}
        sized: dict[int, int] = {}
        self._bases: dict[str, set[int]] = {}
        try:
            for start, size in code_ranges(mapped.image):
                ranges[start] = max(ranges.get(start, 0), start + size)
        except FormatError as error:
            mapped.partial.append(str(error))
        for table in tables:
            for name, info, _, section, value, size in table.rows():
                if info & 15 not in (c.STT_FUNC, c.STT_GNU_IFUNC) or section == c.SHN_UNDEF:
                    continue
                text = table.text(name).partition("@")[0]
                named.setdefault(value, set()).add(text)
                self._bases.setdefault(base_name(text), set()).add(value)
                sized[value] = max(sized.get(value, 0), value + size)
        self.starts = sorted(ranges)
        self._ends = [ranges[start] for start in self.starts]
        ranges |= {start: end for start, end in sized.items() if end > start and self.at(start) < 0}
        self.starts = sorted(ranges)
        self._ends = [ranges[start] for start in self.starts]
        self.names = [named.get(start, set()) for start in self.starts]

    def at(self, vaddr: int) -> int:
        """Return the index of the piece that holds an address, -1 if none does."""
        index = bisect_right(self.starts, vaddr) - 1
        return index if index >= 0 and vaddr < self._ends[index] else -1

    def code_before(self, vaddr: int, size: int) -> bytes:
        """Return up to `size` bytes before an address, from the same piece."""
        index = self.at(vaddr - 1)
        start = max(vaddr - size, self.starts[index] if index >= 0 else 0)
        image = self._mapped.image
        try:
            return image.source.read(image.locate(start), vaddr - start)
        except FormatError:
            return b""  # the address is in no segment of the file

    def originals(self, index: int) -> set[int]:
        """Return the addresses of the functions that a piece may be a copy or a part of."""
        bases = {base_name(name) for name in self.names[index]} - {""}
        return {start for base in bases for start in self._bases.get(base, ())}

    def is_cold(self, index: int) -> bool:
        """Return whether a piece is seldom executed code of a function, and no function itself.

        The compiler marks it in the name. A piece without a name is one if its frame exists at
        its start.
        """
        if self.names[index]:
            return self._are_named(index, _COLD)
        try:
            if self._frames is None:
                self._frames = FrameTable(self._mapped.image)
            row = self._frames.row(self.starts[index])
        except FormatError:
            return False  # with damaged unwind tables it counts as a function
        return row is not None and row.offset != _AT_CALL

    def is_split(self, index: int) -> bool:
        """Return whether a piece is, by its name, a later part of another function."""
        return self._are_named(index, _SPLIT)

    def _are_named(self, index: int, word: str) -> bool:
        names = self.names[index]
        return bool(names) and all(word in name for name in names)


def base_name(name: str) -> str:
    """Return a function's name without the suffixes of compilers for copies and parts."""
    return name.partition(".")[0]


# The functions that instrumented code calls, and the files that call or define them.

# How a file was instrumented.
MCOUNT = "mcount"  # built with -pg
FENTRY = "fentry"  # built with -pg -mfentry
CYG = "cyg"  # built with -finstrument-functions or a related option
PATCHABLE = "patchable"  # built with -fpatchable-function-entry

BARE = "__cyg_profile_func_enter_bare"  # gets no arguments, and has no hook for exits
EXIT = "__cyg_profile_func_exit"

# Hooks that are called when a function is entered.
ENTRIES = {
    "mcount": MCOUNT,
    "_mcount": MCOUNT,
    "__gnu_mcount_nc": MCOUNT,  # on 32-bit ARM
    "__fentry__": FENTRY,
    "__cyg_profile_func_enter": CYG,
    BARE: CYG,
}


class ProfilingHooks:
    """The hooks of one file: name -> slots, and name -> addresses of the file's own hooks."""

    __slots__ = ("own", "slots")

    def __init__(self, mapped: ElfMap, tables: list[SymbolArray]) -> None:
        """Find the hooks among the slots and in the symbol tables."""
        self.slots: dict[str, list[FileSlot]] = {}
        for slot in mapped.slots:
            if slot.symbol in ENTRIES or slot.symbol == EXIT:
                self.slots.setdefault(slot.symbol, []).append(slot)
        self.own: dict[str, set[int]] = {}
        for table in tables:
            for name in (*ENTRIES, EXIT):
                for symbol in table.find(name):
                    if symbol.value and symbol.section != c.SHN_ABS:
                        self.own.setdefault(name, set()).add(symbol.value)


def symbol_tables(mapped: ElfMap) -> list[SymbolArray]:
    """Return .symtab and the dynamic symbols. `mapped.partial` notes unreadable tables."""
    image, tables = mapped.image, []
    readers: list[Callable[[], SymbolArray]] = [
        lambda: static_table(image.source, mapped.sections, image.encoding),
        lambda: dynamic_table(image),
    ]
    for read in readers:
        try:
            tables.append(read())
        except FormatError as error:
            mapped.partial.append(str(error))
    return tables


# Counts the calls of an enter hook that belong to inlined functions.
#
# An enter hook gets the address of the entered function. The code of a function takes that
# function's address for its own call of the hook, and other functions' addresses for functions that
# were inlined into it. So a piece of code that takes its own address has one call of its own. Other
# pieces have none: a part that was split off, or a function that is not instrumented. A copy of a
# function takes the address of the original, which only symbols can tell.


def count_inlined(
    mapped: ElfMap, functions: Functions, returns: list[int]
) -> tuple[int, int] | None:
    """Return how many of the sites with these return addresses belong to inlined functions.

    The result is a minimum and a maximum, None if nothing is known. Raises FormatError.
    """
    sites = Counter(functions.at(vaddr - 1) for vaddr in returns)
    if -1 in sites:
        return None
    taken = _taken(mapped, functions, sites)
    if taken is None:
        return None
    own = unknown = 0
    for index in sites:
        said = taken.get(index, set())
        if functions.is_cold(index) or functions.is_split(index):
            continue
        if functions.starts[index] in said or said & functions.originals(index):
            own += 1
        elif not functions.names[index] or not said:
            unknown += 1  # a copy, or it takes addresses in an unknown way
    return len(returns) - own - unknown, len(returns) - own


def _taken(mapped: ElfMap, functions: Functions, sites: Counter[int]) -> dict[int, set[int]] | None:
    """Return the functions whose addresses each piece with sites takes, None if unreadable."""
    calls = part(mapped.machine, "calls")
    if calls is None or mapped.bits != 64:
        return None
    starts = set(functions.starts)
    words = _words(mapped, starts)
    by_number = mapped.kind in ("executable", "static")
    taken: dict[int, set[int]] = {}
    for code in all_code(SlotTable(mapped.image, {}, ())):
        made, loaded = calls.addresses(code.data, code.vaddr, by_number=by_number)
        pairs = [(place, target) for place, target in made if target in starts]
        pairs += [(place, words[word]) for place, word in loaded if word in words]
        for place, target in pairs:
            index = functions.at(place)
            if index in sites:
                taken.setdefault(index, set()).add(target)
    return taken


def _words(mapped: ElfMap, starts: set[int]) -> dict[int, int]:
    """Return word -> function for the words from which code loads functions' addresses."""
    defined = {
        symbol.name: symbol.vaddr
        for symbol in mapped.symbols
        if symbol.defined_here and symbol.vaddr in starts
    }
    words = {slot.vaddr: defined[slot.symbol] for slot in mapped.slots if slot.symbol in defined}
    try:
        moved = relative_words(mapped.image)
    except FormatError:
        moved = {}
    words |= {vaddr: target for vaddr, target in moved.items() if target in starts}
    return words


# Calls of a hook in the code of a file: through its slots, with or without stubs, or direct.
#
# Nothing is disassembled. A call contains a 32-bit distance to its slot or stub, which together
# with its opcode is no coincidence. Calls through a register that was loaded before are not found,
# but such loads are counted.


class Sites(Record):
    """The calls of one hook. `returns` are the link-time addresses behind them, in order.

    `loads` is how often code loads only the address of the hook.
    """

    returns: list[int]
    loads: int


def find_sites(mapped: ElfMap, slots: Iterable[FileSlot], own: Iterable[int]) -> Sites | None:
    """Find the calls through `slots`, and the calls of the code at the addresses `own`.

    Return None if the code of the file's machine cannot be read. Raises FormatError.
    """
    uses, calls = part(mapped.machine, "uses"), part(mapped.machine, "calls")
    if uses is None or calls is None:
        return None
    image = mapped.image
    base = uses.base_of(mapped.machine, image, mapped.sections)
    slots = list(slots)
    stubs = [(stub.vaddr, stub.vaddr + stub.size) for slot in slots for stub in slot.stubs]
    targets = [*own, *(start for start, _ in stubs)]
    is_where_linked = mapped.kind in ("executable", "static")
    returns: set[int] = set()
    loads: set[int] = set()
    table = SlotTable(image, {}, ())
    for code in all_code(table):
        returns.update(calls.direct_calls(code.data, code.vaddr, targets))
        for slot in slots:
            for kind, _, place, _ in uses.places(
                code.data,
                code.vaddr,
                slot.vaddr,
                lambda _: "",
                base,
                is_where_linked=is_where_linked,
            ):
                where = code.vaddr + place
                if kind in (CALL, JUMP, STUB):
                    if not any(start <= where < end for start, end in stubs):
                        returns.add(where + 4)
                elif kind == LOAD and _is_load(code.data, place):
                    loads.add(where)
    mapped.partial += table.partial
    return Sites(sorted(returns), len(loads))


def _is_load(code: bytes, place: int) -> bool:
    """Return whether the number at `place` belongs to a `mov` to a register."""
    return place >= 2 and code[place - 2] == 0x8B and code[place - 1] & 0xC7 in (0x05, 0x83)


# Finds how one file was instrumented, and how much of it. Nothing of it is executed.

NO_RELRO, PARTIAL_RELRO, FULL_RELRO = "none", "partial", "full"

_COMMENTS = 1 << 20  # bytes
_COPIES = b"\x41\xff\x72\xf8"  # push -8(%r10): a copy of the return address in a realigned frame
_PROLOGUE = 96  # bytes before a call of mcount in which the agent looks for _COPIES
CALL_ROOM = 5  # bytes of a call instruction
_ENTRY = 64  # bytes; more than any compiler reserves


class Instrumentation(Record):
    """The instrumentation of a file.

    `kind` is a word of check.py, None if the file is not instrumented. `sites` are the calls of
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

    path: str
    mapped: ElfMap
    relro: str
    compilers: set[str]
    has_code: bool
    kind: str | None = None
    sites: int | None = 0
    functions: int | None = 0
    inlined: int | None = None
    inlined_span: tuple[int, int] | None = None
    has_slot: bool = False
    only_bare: bool = False
    loads: int = 0
    others: dict[str, int] = fresh(dict)
    realigned: int = 0
    resolvers: list[str] = fresh(list)
    nops: dict[tuple[int, ...], int] = fresh(dict)

    @property
    def has_xray(self) -> bool:
        """Return whether the file has a table of XRay, of -fxray-instrument."""
        return self.mapped.sections.named("xray_instr_map") is not None

    @property
    def has_mcount_table(self) -> bool:
        """Return whether the file has a table of calls of mcount, of -mrecord-mcount."""
        return self.mapped.sections.named("__mcount_loc") is not None

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
    has_code = part(mapped.machine, "calls") is not None
    library = Instrumentation(path, mapped, relro_of(mapped), _compilers(mapped), has_code)
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
    """Return which slots the loader makes read-only: all, the ones that are never lazy, or none.

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


# Advice about profiling a file, and the compiler options that it should be built with.

_BEST = "gcc -pg -mfentry"
_FOR_CLANG = "clang -finstrument-functions-after-inlining"
_EXCLUDE = "gcc's -finstrument-functions-exclude-file-list= and -exclude-function-list="


def advice_for(library: Instrumentation) -> list[str]:
    """Return a sentence for each piece of advice, the most important first."""
    return [
        *_built(library),
        *_unsure(library),
        *(
            f"{_counted(count, 'site')} of another kind of hook: {kind}"
            if kind != PATCHABLE
            else f"{_counted(count, 'function')} with room for a hook at the entry, too"
            for kind, count in sorted(library.others.items())
        ),
        *_odd(library),
    ]


def _built(library: Instrumentation) -> Iterator[str]:
    is_clang, is_gcc = "clang" in library.compilers, "gcc" in library.compilers
    if library.kind is None:
        if library.has_xray:
            yield (
                "it is built with -fxray-instrument, which soscope does not use: build with"
                f" {_FOR_CLANG}, or clang -pg -mfentry"
            )
        elif library.mapped.kind.startswith("static"):
            yield (
                "no hook is found in it: a static program has the functions that it was built with,"
                " and only its symbols tell them"
            )
        else:
            yield (
                f"not instrumented: build with {'clang' if is_clang else 'gcc'} -pg -mfentry for"
                " exact calls and times; as it is, its boundary can be recorded, and samples show"
                " what is inside"
            )
    elif library.kind == MCOUNT and not is_clang:
        yield (
            f"{_BEST} has the hook called first of all, without a frame pointer: less code, and"
            " every function can be timed"
        )
    elif library.kind == CYG:
        yield from _of_cyg(library, is_clang=is_clang, is_gcc=is_gcc)


def _of_cyg(library: Instrumentation, *, is_clang: bool, is_gcc: bool) -> Iterator[str]:
    if library.only_bare:
        yield "-finstrument-function-entry-bare shows no times: build with clang -pg -mfentry"
        return
    if library.inlined is None or library.inlined:
        how = "inlined functions call the hook, too"
        if library.inlined:
            how = f"{library.inlined:,} of {library.sites:,} sites belong to inlined functions"
        elif library.inlined_span is not None:
            least, most = library.inlined_span
            how = f"{least:,} to {most:,} of {library.sites:,} sites belong to inlined functions"
        better = _FOR_CLANG if is_clang else f"{_BEST}, or {_FOR_CLANG}"
        yield f"{how}: build with {better}, which leave them out"
        if not is_clang:
            yield f"{_EXCLUDE} leave out what is called most"
    if not is_clang:
        yield (
            "gcc may move the code of a small function behind its exit hook: its own time is the"
            " least that it can be"
        )
    if not is_gcc:
        yield "clang calls no exit hook where an exception leaves a function"


def _unsure(library: Instrumentation) -> Iterator[str]:
    if library.kind is None:
        return
    if library.sites is None:
        why = (
            "its code calls the hook by a register"
            if library.has_code
            else f"code for {library.mapped.arch} is not read"
        )
        yield f"{why}: how many sites there are is not known"
        return
    if library.loads:
        yield (
            f"code loads the address of the hook, at {_counted(library.loads, 'place')}: calls by a"
            " register are not among the sites"
        )
    if library.kind == CYG and library.inlined_span is None:
        yield "how many sites belong to inlined functions cannot be found out from its code"


def _odd(library: Instrumentation) -> Iterator[str]:
    if library.realigned:
        yield (
            f"{_counted(library.realigned, 'function')} with an aligned stack, and a copy of the"
            " return address: calls are only counted, and not timed"
        )
    if library.resolvers:
        yield (
            f"the resolver of the IFUNC {library.resolvers[0]} calls the hook while the loader"
            " still relocates, and may crash: __attribute__((no_instrument_function)) keeps it from"
            " that"
        )
    if library.has_mcount_table:
        yield "-mrecord-mcount has the loader write into code: build without it"
    if library.has_xray and library.kind is not None:
        yield "its -fxray-instrument is not used"
    if library.kind == PATCHABLE:
        small = sum(library.nops.values()) - library.rooms
        if small:
            yield (
                f"no room for a call at {_counted(small, 'entry', 'entries')}: build with"
                f" -fpatchable-function-entry={CALL_ROOM}"
            )
    if library.kind in (MCOUNT, FENTRY, CYG) and not library.has_slot:
        how = "dynamically" if library.mapped.kind.startswith("static") else "without its own hook"
        yield f"link it {how}: the hook is then called through a slot"


def _counted(count: int, singular: str, plural: str = "") -> str:
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


# The modes in which a file can be recorded, and the cost of each for a call.

BOUNDARY_COUNT, BOUNDARY_TIME = "boundary count", "boundary time"

# Nanoseconds a call, entry and exit, of a small function (`mid` in the first table of
# benchmarks/RESULTS.md). They show an order, and are no promise for other machines. Values without
# a row there, or for code that has changed since: `quiet` costs a no-operation, also for patched
# entries; `count` of -finstrument-functions costs the same as for `mcount`, as its exits call
# nothing; `sample` of other kinds is `count` and a 64th of what `time` adds; `log` of patched
# entries adds to `time` the same as for `__fentry__`, which they call; `boundary count` is from
# the second table.
_NS = {
    MODE_QUIET: {MCOUNT: 0.8, FENTRY: 0.8, CYG: 0.8, PATCHABLE: 0.8},
    MODE_COUNT: {MCOUNT: 3.8, FENTRY: 3.7, CYG: 3.8, PATCHABLE: 3.7},
    MODE_SAMPLE: {MCOUNT: 4.3, FENTRY: 4.2, CYG: 7.3, PATCHABLE: 4.3},
    MODE_TIME: {MCOUNT: 38.4, FENTRY: 38.2, CYG: 27.9, PATCHABLE: 38.9},
    MODE_LOG: {MCOUNT: 42.0, FENTRY: 41.3, CYG: 30.8, PATCHABLE: 42.0},
}
_BOUNDARY = {BOUNDARY_COUNT: 0.6, BOUNDARY_TIME: 31.5}
MEASURED = "measured in November 2026, on a virtual machine of 2 processors"


class PricedMode(Record):
    """One mode, which costs `ns` a call. `reason` tells why it does not work, None if it does."""

    mode: str
    ns: float
    reason: str | None

    @property
    def works(self) -> bool:
        """Return whether the mode works for the file."""
        return self.reason is None


def modes_of(library: Instrumentation) -> list[PricedMode]:
    """Return all modes for instrumented files, then the modes at the boundary of any file.

    A mode that does not work has the cost that it would have. If nothing is instrumented, that is
    the cost for -mfentry.
    """
    kind = library.kind if library.kind in _NS[MODE_COUNT] else FENTRY
    modes = [PricedMode(mode, _NS[mode][kind], _why_not(library, mode)) for mode in MODES]
    why = _no_boundary(library)
    return modes + [PricedMode(mode, ns, why) for mode, ns in _BOUNDARY.items()]


def _why_not(library: Instrumentation, mode: str) -> str | None:
    if library.kind is None:
        return "it is not instrumented"
    if library.kind == PATCHABLE and library.mapped.kind.startswith("static"):
        return "it is static: its loader cannot load an agent"
    if library.kind == PATCHABLE and _is_hookable(library) and not library.rooms:
        return "no function has room for a call at its entry"
    if library.kind != PATCHABLE and not library.has_slot:
        return "it calls a hook of its own, and through no slot"
    if not _is_hookable(library):
        return _foreign(library)
    if library.only_bare and mode not in (MODE_QUIET, MODE_COUNT):
        return "its hook is called only at entries, and gets no addresses"
    return None


def _no_boundary(library: Instrumentation) -> str | None:
    mapped = library.mapped
    if not _is_hookable(library):
        return _foreign(library)
    if mapped.kind.startswith("static"):
        return "it is static: its calls go through no slot, and no other image calls it"
    if not mapped.slots and not any(
        symbol.defined_here and symbol.type in ("function", "ifunc") for symbol in mapped.symbols
    ):
        return "it has no slot, and nothing that others could call"
    return None


def _is_hookable(library: Instrumentation) -> bool:
    machine = library.mapped.machine
    return machine is not None and machine.has_agent


def _foreign(library: Instrumentation) -> str:
    return f"soscope hooks no slots in programs for {library.mapped.arch}"
