# SPDX-License-Identifier: Apache-2.0
"""Functions and variables that only DWARF describes, and the types of functions.

pyelftools reads the DWARF. It is careful, but slow. So a unit is given to pyelftools only if it
contains the bytes of the name, and a search ends when its time is over.
"""

from __future__ import annotations

import time

from soscope.binfmt.dwarf.types import C_LANGUAGES, CXX_LANGUAGES, TypeReader, language_of
from soscope.model.call import UNKNOWN, PassedType, Signature
from soscope.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType
    from typing import IO, Any


_ARTIFICIAL = b"<artificial>"  # gcc's name for units that it makes at link time
_MAX_BYTES = 1 << 29  # bytes of all sections, uncompressed
_MAX_STEPS = 8  # links from a definition to the entry that has its name
_NESTS = frozenset(
    ("DW_TAG_namespace", "DW_TAG_structure_type", "DW_TAG_class_type", "DW_TAG_union_type")
)
_OP_ADDR = 0x03
_OP_ADDRX = 0xA1


class DwarfError(Exception):
    """The DWARF cannot be read, or not in a reasonable time; the text tells why."""


class DwarfName(Record):
    """One definition; `vaddr` is a link-time address in the file that was read."""

    name: str
    vaddr: int
    size: int
    is_function: bool


class Dwarf:
    """The DWARF of an open file; `alternate` is the open file of its .gnu_debugaltlink.

    Raises ImportError if pyelftools is not installed, DwarfError if a file is damaged. The files
    are read only as far as needed, and must stay open.
    """

    __slots__ = ("_alternate", "_aranges", "_file", "_info", "_known", "_strings")

    def __init__(self, file: IO[bytes], alternate: IO[bytes] | None) -> None:
        from elftools.elf.elffile import ELFFile

        try:
            self._file = ELFFile(file)
            self._alternate = None if alternate is None else ELFFile(alternate)
            self._strings = [
                _section(elf, ".debug_str")
                for elf in (self._file, self._alternate)
                if elf is not None
            ]
        except Exception as error:
            raise _broken(error) from error
        self._info: Any = None
        self._aranges: Any = False
        self._known: dict[int, list[tuple[int, int, DwarfName]]] = {}

    def find(self, name: str, until: float) -> list[DwarfName]:
        """Return the definitions whose name or linkage name is `name`.

        The search gives up when time.monotonic() reaches `until`.

        Members of namespaces and classes are found only by their linkage names. Raises
        DwarfError.
        """
        raw = name.encode("utf-8", "surrogateescape")
        wanted = raw + b"\0"
        # a name of at most 3 characters may stand in .debug_info, as it is shorter than an offset
        if len(raw) > 3 and not any(wanted in strings for strings in self._strings):
            return []
        try:
            return self._find(raw, until)
        except DwarfError:
            raise
        except Exception as error:
            raise _broken(error) from error

    def signature(
        self, vaddr: int | None, name: str, until: float, passing: ModuleType
    ) -> Signature | None:
        """Return the types of function `name` that begins at `vaddr`, None if there is none.

        If `vaddr` is None, only the name counts. `passing` is the machine's module in binfmt/isa.
        Raises DwarfError, with the reason, if the DWARF does not describe its types.
        """
        try:
            return signature_at(self, vaddr, name, until, passing)
        except DwarfError:
            raise
        except Exception as error:
            raise _broken(error) from error

    def at(self, vaddr: int, until: float) -> DwarfName | None:
        """Return the function that contains link-time address `vaddr`, None if there is none.

        Raises DwarfError.
        """
        try:
            return self._at(vaddr, until)
        except DwarfError:
            raise
        except Exception as error:
            raise _broken(error) from error

    # ---- pieces ----

    def _load(self) -> Any:
        if self._info is None:
            check_size(self._file)
            self._info = self._file.get_dwarf_info(follow_links=False)
            if self._alternate is not None:
                self._info.supplementary_dwarfinfo = self._alternate.get_dwarf_info(
                    follow_links=False
                )
        return self._info

    def _find(self, raw: bytes, until: float) -> list[DwarfName]:
        info = self._load()
        by_start: dict[int, DwarfName] = {}
        for unit in self._units_with(raw, until):
            for entry in _walk(unit.get_top_DIE(), until):
                if entry.tag not in ("DW_TAG_subprogram", "DW_TAG_variable"):
                    continue
                if raw not in _names(entry):
                    continue
                ranges = _ranges(info, entry)
                place = _variable(info, entry)
                name = raw.decode("utf-8", "surrogateescape")
                if ranges:
                    start, end = ranges[0]
                    by_start[start] = DwarfName(name, start, end - start, is_function=True)
                elif place is not None:
                    by_start[place] = DwarfName(name, place, 0, is_function=False)
        return list(by_start.values())

    def _units_with(self, raw: bytes, until: float) -> Iterator[Any]:
        """Yield the units that may define something with the name `raw`."""
        info = self._load()
        units = []
        for unit in info.iter_CUs():
            _check_time(until)
            units.append(unit)
        # a name may be given by an index, or stand in a unit that others import: read all units
        if info.debug_str_offsets_sec is not None or len(self._strings) > 1:
            yield from units
            return
        needles = [offset.to_bytes(4, "little") for offset in _offsets(self._strings[0], raw)]
        needles.append(raw + b"\0")
        data = info.debug_info_sec.stream.getvalue()
        names = self._strings[0] + _section(self._file, ".debug_line_str")
        is_linked = _ARTIFICIAL in names
        chosen = [
            unit
            for unit in units
            if any(
                data.find(needle, unit.cu_offset, unit.cu_offset + unit.size) >= 0
                for needle in needles
            )
            or (is_linked and _is_linked(unit))
        ]
        if any(unit.get_top_DIE().tag == "DW_TAG_partial_unit" for unit in chosen):
            chosen = units
        yield from chosen

    def _at(self, vaddr: int, until: float) -> DwarfName | None:
        best: DwarfName | None = None
        for unit in self._units_at(vaddr, until):
            for start, end, name in self._functions(unit, until):
                if start <= vaddr < end and (best is None or name.size < best.size):
                    best = name
        return best

    def _functions(self, unit: Any, until: float) -> list[tuple[int, int, DwarfName]]:
        """Return the pieces of code in a unit: (start, end, function)."""
        known = self._known.get(unit.cu_offset)
        if known is None:
            info = self._load()
            known = []
            for entry in _walk(unit.get_top_DIE(), until):
                ranges = _ranges(info, entry) if entry.tag == "DW_TAG_subprogram" else []
                names = _names(entry, plain=True) if ranges else []
                if names:
                    start, end = ranges[0]
                    name = names[0].decode("utf-8", "surrogateescape")
                    function = DwarfName(name, start, end - start, is_function=True)
                    known += [(low, high, function) for low, high in ranges]
            self._known[unit.cu_offset] = known
        return known

    def _units_at(self, vaddr: int, until: float) -> Iterator[Any]:
        """Yield the units that have code at `vaddr`."""
        info = self._load()
        if self._aranges is False:
            self._aranges = info.get_aranges()
        offset = self._aranges and self._aranges.cu_offset_at_addr(vaddr)
        if offset is not None:
            yield info.get_CU_at(offset)
            return
        for unit in info.iter_CUs():
            _check_time(until)
            if any(start <= vaddr < end for start, end in _ranges(info, unit.get_top_DIE())):
                yield unit


def _broken(error: Exception) -> DwarfError:
    """Make the error for an exception of pyelftools, which may be of any class."""
    return DwarfError(f"DWARF: {type(error).__name__}: {error}")


def _check_time(until: float) -> None:
    """Raise DwarfError if the time `until` has passed."""
    if time.monotonic() > until:
        raise DwarfError("DWARF: there is too much of it to be read to the end")


def _section(file: Any, name: str) -> bytes:
    section = file.get_section_by_name(name) or file.get_section_by_name(f".z{name[1:]}")
    return b"" if section is None else bytes(section.data())


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


def _is_linked(unit: Any) -> bool:
    """Return whether gcc made a unit at link time; then other units name its definitions."""
    name = unit.get_top_DIE().attributes.get("DW_AT_name")
    return name is not None and name.value == _ARTIFICIAL


def _walk(entry: Any, until: float) -> Iterator[Any]:
    """Yield a unit's definitions outside of functions; raise DwarfError if it takes too long."""
    for child in entry.iter_children():
        _check_time(until)
        yield child
        if child.tag in _NESTS:
            yield from _walk(child, until)


def _names(entry: Any, *, plain: bool = False) -> list[bytes]:
    """Return the linkage name and the name of a definition, as far as it has them.

    The name of a member of a namespace or class is only returned if `plain` is true.
    """
    linkage, name = None, None
    for _ in range(_MAX_STEPS):
        attributes = entry.attributes
        for word in ("DW_AT_linkage_name", "DW_AT_MIPS_linkage_name"):
            if word in attributes:
                linkage = linkage or attributes[word].value
        if name is None and "DW_AT_name" in attributes:
            parent = entry.get_parent()
            if plain or parent is None or parent.tag not in _NESTS:
                name = attributes["DW_AT_name"].value
        for word in ("DW_AT_specification", "DW_AT_abstract_origin"):
            if word in attributes:
                entry = entry.get_DIE_from_attribute(word)
                break
        else:
            break
    return [raw for raw in (linkage, name) if raw]


def _ranges(info: Any, entry: Any) -> list[tuple[int, int]]:
    """Return the code ranges (start, end) of a function or unit, the one with its entry first."""
    attributes = entry.attributes
    low = attributes.get("DW_AT_low_pc")
    high = attributes.get("DW_AT_high_pc")
    if low is not None and high is not None:
        is_address = high.form.startswith(("DW_FORM_addr", "DW_FORM_GNU_addr"))
        return [(low.value, high.value if is_address else low.value + high.value)]
    if "DW_AT_ranges" not in attributes:
        return []
    top = entry.cu.get_top_DIE().attributes.get("DW_AT_low_pc")
    base = 0 if top is None else top.value
    ranges = []
    lists = info.range_lists()
    for piece in lists.get_range_list_at_offset(attributes["DW_AT_ranges"].value, entry.cu):
        if hasattr(piece, "base_address"):
            base = piece.base_address
            continue
        add = 0 if getattr(piece, "is_absolute", False) else base
        ranges.append((piece.begin_offset + add, piece.end_offset + add))
    return ranges


def _variable(info: Any, entry: Any) -> int | None:
    """Return the address of a variable with a fixed address, None for any other."""
    location = entry.attributes.get("DW_AT_location")
    if entry.tag != "DW_TAG_variable" or location is None or not isinstance(location.value, list):
        return None
    code = bytes(location.value)
    size = entry.cu.header.address_size
    if code[:1] == bytes([_OP_ADDR]) and len(code) == 1 + size:
        return int.from_bytes(code[1:], "little" if info.config.little_endian else "big")
    if code[:1] == bytes([_OP_ADDRX]):
        index = 0
        for place, byte in enumerate(code[1:]):
            index |= (byte & 0x7F) << 7 * place
        return int(info.get_addr(entry.cu, index))
    return None


def check_size(file: Any) -> None:
    """Raise DwarfError if the debug sections of a file are too large when unpacked."""
    sizes = [each.data_size for each in file.iter_sections() if ".debug_" in each.name]
    if sum(sizes) > _MAX_BYTES:
        raise DwarfError(f"DWARF: over {_MAX_BYTES >> 20} MiB of it, unpacked")


# A function's argument and result types, from the DWARF entry that begins at its address.
#
# DWARF 5, 3.3 "Subroutine and Entry Point Entries". If a compiler leaves something out, it counts
# as unknown, not as empty. With -g1, functions have no types, and a C definition without a
# prototype does not tell what its callers pass.

_MOST_ARGUMENTS = 256
_NORMAL = 1  # DW_CC_normal
_OF_COMPILERS = ("__in_chrg", "__vtt_parm", "vtt")  # arguments that only some callers pass
_SPLIT = ("DW_AT_dwo_name", "DW_AT_GNU_dwo_name")


def signature_at(
    dwarf: Dwarf, vaddr: int | None, name: str, until: float, passing: ModuleType
) -> Signature | None:
    """Do the work of `Dwarf.signature`. Raises DwarfError, and anything that pyelftools raises."""
    raw = name.encode("utf-8", "surrogateescape")
    entries = [] if vaddr is None else _entries_at(dwarf, vaddr, until)
    named = [entry for entry in entries if raw in _names(entry)]
    if not named:
        # Either `name` is another name of that function, or the linker has put two functions of
        # equal code at one address. In the second case the types of the other function are not
        # right.
        named = _entries_named(dwarf, raw, until) or entries
    signatures = [_signature(entry, until, TypeReader(passing)) for entry in named]
    if len({signature.taken + signature.result.text for signature in signatures}) > 1:
        raise DwarfError("it describes several functions that may be meant")
    return signatures[0] if signatures else None


def _entries_at(dwarf: Dwarf, vaddr: int, until: float) -> list[Any]:
    """Return the functions that begin at an address."""
    info = dwarf._load()
    entries = []
    for unit in dwarf._units_at(vaddr, until):
        top = unit.get_top_DIE()
        if any(word in top.attributes for word in _SPLIT):
            raise DwarfError("its debug information is in .dwo files (-gsplit-dwarf)")
        for entry in _walk(top, until):
            if entry.tag == "DW_TAG_subprogram":
                ranges = _ranges(info, entry)
                if ranges and ranges[0][0] == vaddr:
                    entries.append(entry)
    return entries


def _entries_named(dwarf: Dwarf, raw: bytes, until: float) -> list[Any]:
    """Return the external functions with that name, at any address."""
    return [
        entry
        for unit in dwarf._units_with(raw, until)
        for entry in _walk(unit.get_top_DIE(), until)
        if entry.tag == "DW_TAG_subprogram"
        and raw in _names(entry)
        and any("DW_AT_external" in each.attributes for each in _chain(entry))
    ]


def _signature(entry: Any, until: float, reader: TypeReader) -> Signature:
    chain = _chain(entry)
    language = language_of(chain[-1])
    if language not in C_LANGUAGES | CXX_LANGUAGES:
        raise DwarfError("it is not written in C or C++")
    conventions = [each.attributes.get("DW_AT_calling_convention") for each in chain]
    if any(each is not None and each.value != _NORMAL for each in conventions):
        raise DwarfError("it has a calling convention of its own")
    typed = next((each for each in chain if "DW_AT_type" in each.attributes), chain[-1])
    result = reader.result_of(typed)
    is_variadic = False
    lists: list[list[Any]] = []
    for each in chain:
        parameters = []
        for child in each.iter_children():
            _check_time(until)
            if child.tag == "DW_TAG_formal_parameter":
                parameters.append(child)
            is_variadic |= child.tag == "DW_TAG_unspecified_parameters"
        lists.append(parameters)
    has_prototype = any("DW_AT_prototyped" in each.attributes for each in chain)
    if "DW_AT_type" not in typed.attributes and not any(lists) and not has_prototype:
        _check_typed(chain[-1], until)
    if language in C_LANGUAGES and not has_prototype:
        return Signature(None, result)
    # one copy may lack arguments that the optimiser has removed
    if len({len(each) for each in lists if each}) > 1 or len(lists[0]) > _MOST_ARGUMENTS:
        return Signature(None, result)
    parameters = max(lists, key=len)
    arguments = tuple(_argument(each, reader) for each in parameters)
    return Signature(arguments, result, is_variadic=is_variadic)


def _chain(entry: Any) -> list[Any]:
    """Return a function's entry, its abstract origin and its declaration, if there are any."""
    chain = [entry]
    while len(chain) < _MAX_STEPS:
        for word in ("DW_AT_abstract_origin", "DW_AT_specification"):
            if word in entry.attributes:
                entry = entry.get_DIE_from_attribute(word)
                chain.append(entry)
                break
        else:
            return chain
    raise DwarfError("DWARF: entries that lead to each other")


def _argument(parameter: Any, reader: TypeReader) -> PassedType:
    for _ in range(_MAX_STEPS):
        if "DW_AT_type" in parameter.attributes or (
            "DW_AT_abstract_origin" not in parameter.attributes
        ):
            break
        parameter = parameter.get_DIE_from_attribute("DW_AT_abstract_origin")
    name = parameter.attributes.get("DW_AT_name")
    argument = reader.argument_of(parameter)
    is_own = name is not None and name.value.decode("utf-8", "replace") in _OF_COMPILERS
    if (is_own and "DW_AT_artificial" in parameter.attributes) or not argument.size:
        return PassedType(argument.text, UNKNOWN)
    return argument


def _check_typed(entry: Any, until: float) -> None:
    """Raise DwarfError if a unit has no types at all: with -g1, no function has types."""
    for child in entry.cu.get_top_DIE().iter_children():
        _check_time(until)
        if child.tag == "DW_TAG_typedef" or child.tag.endswith("_type"):
            return
    raise DwarfError("its debug information has no types (compile it with -g)")
