# SPDX-License-Identifier: Apache-2.0
"""Functions and variables that only DWARF describes, and the types of functions.

To read all units takes seconds. So a unit is only read if it contains the bytes of the name, and a
search ends when its time is over.
"""

from __future__ import annotations

import time

from soscope.binfmt.dwarf import entries as d
from soscope.binfmt.dwarf.entries import DwarfEntry, Entries, EntryError, Unit
from soscope.binfmt.dwarf.lines import OF_ENTRIES, OF_RANGES, UnitRanges, entries_of
from soscope.binfmt.dwarf.types import C_LANGUAGES, CXX_LANGUAGES, TypeReader, language_of
from soscope.binfmt.elf.sections import Sections
from soscope.errors import FormatError
from soscope.model.call import UNKNOWN, PassedType, Signature
from soscope.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType
    from typing import TypeVar

    from soscope.binfmt.elf.image import ElfImage
    from soscope.binfmt.elf.reader import Encoding

    Result = TypeVar("Result")


_ARTIFICIAL = b"<artificial>"  # gcc's name for units that it makes at link time
_MAX_BYTES = 1 << 29  # bytes of all sections, uncompressed
_MAX_STEPS = 8  # links from a definition to the entry that has its name
_NESTS = (d.TAG_NAMESPACE, d.TAG_STRUCT, d.TAG_CLASS, d.TAG_UNION)
_WALKED = frozenset((*_NESTS, d.TAG_SUBPROGRAM, d.TAG_VARIABLE, d.TAG_MEMBER))
_LINKS = (d.AT_ABSTRACT_ORIGIN, d.AT_SPECIFICATION)


class DwarfError(Exception):
    """The DWARF cannot be read, or not in a reasonable time; the text tells why."""


class DwarfName(Record):
    """One definition; `vaddr` is a link-time address in the file that was read."""

    name: str
    vaddr: int
    size: int
    is_function: bool


class Dwarf:
    """The DWARF of an image; `alternate` is the image that its .gnu_debugaltlink names.

    The files are read when a caller first asks for something, and must stay open.
    """

    __slots__ = ("_alternate", "_entries", "_image", "_known", "_nested", "_ranges", "_walked")

    def __init__(self, image: ElfImage, alternate: ElfImage | None) -> None:
        self._image = image
        self._alternate = alternate
        self._entries: Entries | None = None
        self._known: dict[int, list[tuple[int, int, DwarfName]]] = {}
        # by unit, because whoever asks for one name mostly asks for more
        self._nested: dict[Unit, set[int]] = {}
        self._walked: dict[Unit, list[DwarfEntry]] = {}

    def find(self, name: str, until: float) -> list[DwarfName]:
        """Return the definitions whose name or linkage name is `name`.

        The search gives up when time.monotonic() reaches `until`.

        Members of namespaces and classes are found only by their linkage names. Raises
        DwarfError.
        """
        return _checked(lambda: self._find(name.encode("utf-8", "surrogateescape"), until))

    def signature(
        self, vaddr: int | None, name: str, until: float, passing: ModuleType
    ) -> Signature | None:
        """Return the types of function `name` that begins at `vaddr`, None if there is none.

        If `vaddr` is None, only the name counts. `passing` is the machine's module in binfmt/isa.
        Raises DwarfError, with the reason, if the DWARF does not describe its types.
        """
        return _checked(lambda: self._signature(vaddr, name, until, passing))

    def at(self, vaddr: int, until: float) -> DwarfName | None:
        """Return the function that contains link-time address `vaddr`, None if there is none.

        Raises DwarfError.
        """
        return _checked(lambda: self._at(vaddr, until))

    # ---- pieces ----

    def _load(self) -> Entries:
        if self._entries is None:
            alternate = None
            if self._alternate is not None:
                alternate = entries_of(*_contents(self._alternate))
            contents, coding = _contents(self._image)
            self._entries = entries_of(contents, coding, alternate)
            self._ranges = UnitRanges(self._entries, contents, Sections.read(self._image).is_code)
        if self._entries.is_damaged:
            raise EntryError("a unit has a wrong length")
        return self._entries

    def _find(self, raw: bytes, until: float) -> list[DwarfName]:
        by_start: dict[int, DwarfName] = {}
        for top in self._units_with(raw, until):
            for entry in self._definitions(top.unit, until):
                if raw not in self._names(entry, until):
                    continue
                ranges = self._ranges.of(entry)
                place = self._ranges.variable(entry) if entry.tag == d.TAG_VARIABLE else None
                name = raw.decode("utf-8", "surrogateescape")
                if ranges:
                    start, end = ranges[0]
                    by_start[start] = DwarfName(name, start, end - start, is_function=True)
                elif place is not None:
                    by_start[place] = DwarfName(name, place, 0, is_function=False)
        return list(by_start.values())

    def _units_with(self, raw: bytes, until: float) -> Iterator[DwarfEntry]:
        """Yield the top entries of the units that may define something with the name `raw`."""
        entries = self._load()
        strings, starts = entries.strings, entries.starts
        # a name may be given by an index, or stand in a unit that others import: read all units
        if not entries.has_indexed_strings and entries.alternate is None:
            needles = [offset.to_bytes(4, entries.order) for offset in _offsets(strings, raw)]
            needles.append(raw + b"\0")
            is_linked = _ARTIFICIAL in strings or _ARTIFICIAL in entries.line_strings
            chosen = []
            for start, end in zip(starts, [*starts[1:], len(entries.info)], strict=True):
                _check_time(until)
                if any(entries.info.find(needle, start, end) >= 0 for needle in needles) or (
                    # gcc made it at link time; then other units name its definitions
                    is_linked and entries.top_at(start).values.get(d.AT_NAME) == _ARTIFICIAL
                ):
                    chosen.append(start)
            if all(entries.top_at(start).tag != d.TAG_PARTIAL_UNIT for start in chosen):
                starts = chosen
        for start in starts:
            _check_time(until)
            yield entries.top_at(start)

    def _at(self, vaddr: int, until: float) -> DwarfName | None:
        top = self._unit_at(vaddr)
        best: DwarfName | None = None
        for start, end, name in () if top is None else self._functions(top, until):
            if start <= vaddr < end and (best is None or name.size < best.size):
                best = name
        return best

    def _functions(self, top: DwarfEntry, until: float) -> list[tuple[int, int, DwarfName]]:
        """Return the pieces of code in a unit: (start, end, function)."""
        known = self._known.get(top.unit.at)
        if known is None:
            known = []
            for entry in self._definitions(top.unit, until):
                ranges = self._ranges.of(entry) if entry.tag == d.TAG_SUBPROGRAM else []
                names = self._names(entry, until, plain=True) if ranges else []
                if names:
                    start, end = ranges[0]
                    name = names[0].decode("utf-8", "surrogateescape")
                    function = DwarfName(name, start, end - start, is_function=True)
                    known += [(low, high, function) for low, high in ranges]
            self._known[top.unit.at] = known
        return known

    def _unit_at(self, vaddr: int) -> DwarfEntry | None:
        """Return the top entry of the unit that has code at `vaddr`."""
        entries = self._load()
        start = self._ranges.unit_at(vaddr)
        return None if start is None else entries.top_at(start)

    def _names(self, entry: DwarfEntry, until: float, *, plain: bool = False) -> list[bytes]:
        """Return the linkage name and the name of a definition, as far as it has them.

        The name of a member of a namespace or class is only returned if `plain` is true.
        """
        linkage: int | bytes | None = None
        name: int | bytes | None = None
        for each in _chain(entry):
            for word in (d.AT_LINKAGE_NAME, d.AT_MIPS_LINKAGE_NAME):
                linkage = linkage or each.values.get(word)
            if name is None and (plain or not self._is_nested(each, until)):
                name = each.values.get(d.AT_NAME)
        return [raw for raw in (linkage, name) if raw and isinstance(raw, bytes)]

    def _is_nested(self, entry: DwarfEntry, until: float) -> bool:
        """Return whether a definition is a member of a namespace or class."""
        self._definitions(entry.unit, until)
        return entry.at in self._nested[entry.unit]

    def _definitions(self, unit: Unit, until: float) -> list[DwarfEntry]:
        """Return the functions and variables of a unit that are not within functions."""
        if unit not in self._walked:
            walked = list(_walk(unit.entries.top(unit), until))
            self._nested[unit] = {entry.at for entry, is_nested in walked if is_nested}
            self._walked[unit] = [
                entry for entry, _ in walked if entry.tag in (d.TAG_SUBPROGRAM, d.TAG_VARIABLE)
            ]
        return self._walked[unit]

    def _signature(
        self, vaddr: int | None, name: str, until: float, passing: ModuleType
    ) -> Signature | None:
        raw = name.encode("utf-8", "surrogateescape")
        entries = [] if vaddr is None else self._entries_at(vaddr, until)
        named = [entry for entry in entries if raw in self._names(entry, until)]
        if not named:
            # Either `name` is another name of that function, or the linker has put two functions of
            # equal code at one address. In the second case the types of the other function are not
            # right.
            named = self._entries_named(raw, until) or entries
        signatures = [_signature(entry, until, TypeReader(passing)) for entry in named]
        if len({signature.taken + signature.result.text for signature in signatures}) > 1:
            raise DwarfError("it describes several functions that may be meant")
        return signatures[0] if signatures else None

    def _entries_at(self, vaddr: int, until: float) -> list[DwarfEntry]:
        """Return the functions that begin at an address."""
        top = self._unit_at(vaddr)
        if top is None:
            return []
        if d.AT_DWO_NAME in top.values or d.AT_GNU_DWO_NAME in top.values:
            raise DwarfError("its debug information is in .dwo files (-gsplit-dwarf)")
        return [
            entry
            for entry in self._definitions(top.unit, until)
            if entry.tag == d.TAG_SUBPROGRAM
            and any(start == vaddr for start, _ in self._ranges.of(entry)[:1])
        ]

    def _entries_named(self, raw: bytes, until: float) -> list[DwarfEntry]:
        """Return the external functions with that name, at any address."""
        return [
            entry
            for top in self._units_with(raw, until)
            for entry in self._definitions(top.unit, until)
            if entry.tag == d.TAG_SUBPROGRAM
            and raw in self._names(entry, until)
            and any(d.AT_EXTERNAL in each.values for each in _chain(entry))
        ]


def _checked(work: Callable[[], Result]) -> Result:
    """Return what `work` returns; raise DwarfError for what damage leads to."""
    try:
        return work()
    except (EntryError, FormatError, IndexError, KeyError, OSError, ValueError) as error:
        raise DwarfError(f"DWARF: {error}") from error


def _contents(image: ElfImage) -> tuple[dict[str, bytes], Encoding]:
    """Return the contents of the debug sections of a file, and how it is encoded."""
    sections = Sections.read(image)
    sizes = [each.size for each in sections.all if ".debug_" in each.name]
    contents = None
    if sum(sizes) <= _MAX_BYTES:
        names = (*OF_ENTRIES, *OF_RANGES, ".debug_types")
        contents = sections.unpacked_all(names, image.encoding, _MAX_BYTES)
    if contents is None:
        raise DwarfError(f"DWARF: over {_MAX_BYTES >> 20} MiB of it, or packed in an unknown way")
    return contents, image.encoding


def _check_time(until: float) -> None:
    """Raise DwarfError if the time `until` has passed."""
    if time.monotonic() > until:
        raise DwarfError("DWARF: there is too much of it to be read to the end")


def _offsets(strings: bytes, raw: bytes) -> Iterator[int]:
    """Yield the offsets in a string table of `raw`, or of strings that end with it."""
    whole = strings.find(b"\0" + raw + b"\0")
    if whole >= 0:  # not found if the linker let it share the end of a longer one
        yield whole + 1
        return
    at = strings.find(raw + b"\0")
    while at >= 0:
        yield at
        at = strings.find(raw + b"\0", at + 1)


def _walk(top: DwarfEntry, until: float) -> Iterator[tuple[DwarfEntry, bool]]:
    """Yield definitions and members of a unit, and whether a class or namespace has them.

    Raises DwarfError if it takes too long.
    """
    entries = top.unit.entries
    waiting = [entries.each_child(top, _WALKED)]
    while waiting:
        entry = next(waiting[-1], None)
        _check_time(until)
        if entry is None:
            waiting.pop()
            continue
        yield entry, len(waiting) > 1
        if entry.tag in _NESTS:
            waiting.append(entries.each_child(entry, _WALKED))


# A function's argument and result types, from the DWARF entry that begins at its address.
#
# DWARF 5, 3.3 "Subroutine and Entry Point Entries". If a compiler leaves something out, it counts
# as unknown, not as empty. With -g1, functions have no types, and a C definition without a
# prototype does not tell what its callers pass.

_MOST_ARGUMENTS = 256
_NORMAL = 1  # DW_CC_normal
_TYPES = (
    *(d.TAG_TYPEDEF, d.TAG_BASE, d.TAG_ENUM, d.TAG_ARRAY, d.TAG_STRUCT, d.TAG_CLASS, d.TAG_UNION),
    *(d.TAG_POINTER, d.TAG_REFERENCE, d.TAG_RVALUE_REFERENCE, d.TAG_SUBROUTINE_TYPE),
    *(d.TAG_CONST, d.TAG_VOLATILE, d.TAG_RESTRICT, d.TAG_ATOMIC, d.TAG_UNSPECIFIED_TYPE),
)
_OF_COMPILERS = ("__in_chrg", "__vtt_parm", "vtt")  # arguments that only some callers pass


def _signature(entry: DwarfEntry, until: float, reader: TypeReader) -> Signature:
    chain = _chain(entry)
    language = language_of(chain[-1])
    if language not in C_LANGUAGES | CXX_LANGUAGES:
        raise DwarfError("it is not written in C or C++")
    if any(each.number(d.AT_CALLING_CONVENTION) not in (None, _NORMAL) for each in chain):
        raise DwarfError("it has a calling convention of its own")
    typed = next((each for each in chain if d.AT_TYPE in each.values), chain[-1])
    result = reader.result_of(typed)
    is_variadic = False
    lists: list[list[DwarfEntry]] = []
    for each in chain:
        parameters = []
        for child in each.unit.entries.each_child(each):
            _check_time(until)
            if child.tag == d.TAG_PARAMETER:
                parameters.append(child)
            is_variadic |= child.tag == d.TAG_UNSPECIFIED_PARAMETERS
        lists.append(parameters)
    has_prototype = any(d.AT_PROTOTYPED in each.values for each in chain)
    if d.AT_TYPE not in typed.values and not any(lists) and not has_prototype:
        _check_typed(chain[-1], until)
    if language in C_LANGUAGES and not has_prototype:
        return Signature(None, result)
    # one copy may lack arguments that the optimiser has removed
    if len({len(each) for each in lists if each}) > 1 or len(lists[0]) > _MOST_ARGUMENTS:
        return Signature(None, result)
    parameters = max(lists, key=len)
    arguments = tuple(_argument(each, reader) for each in parameters)
    return Signature(arguments, result, is_variadic=is_variadic)


def _chain(entry: DwarfEntry) -> list[DwarfEntry]:
    """Return a function's entry, its abstract origin and its declaration, if there are any."""
    chain = [entry]
    while len(chain) < _MAX_STEPS:
        entries = entry.unit.entries
        leads = (entries.led(entry, word) for word in _LINKS)
        other = next((each for each in leads if each is not None), None)
        if other is None:
            return chain
        entry = other
        chain.append(entry)
    raise DwarfError("DWARF: entries that lead to each other")


def _argument(parameter: DwarfEntry, reader: TypeReader) -> PassedType:
    chain = _chain(parameter)
    parameter = next((each for each in chain if d.AT_TYPE in each.values), chain[-1])
    argument = reader.argument_of(parameter)
    is_own = d.AT_ARTIFICIAL in parameter.values and parameter.name in _OF_COMPILERS
    if is_own or not argument.size:
        return PassedType(argument.text, UNKNOWN)
    return argument


def _check_typed(entry: DwarfEntry, until: float) -> None:
    """Raise DwarfError if a unit has no types at all: with -g1, no function has types."""
    entries = entry.unit.entries
    for child in entries.each_child(entries.top(entry.unit)):
        _check_time(until)
        if child.tag in _TYPES:
            return
    raise DwarfError("its debug information has no types (compile it with -g)")
