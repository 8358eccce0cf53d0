# SPDX-License-Identifier: Apache-2.0
"""A function's argument and result types, from the DWARF entry that begins at its address.

DWARF 5, 3.3 "Subroutine and Entry Point Entries". If a compiler leaves something out, it counts
as unknown, not as empty. With -g1, functions have no types, and a C definition without a
prototype does not tell what its callers pass.
"""

from __future__ import annotations

from soscope.binfmt.dwarf import DwarfError, _check_time, _names, _ranges, _walk
from soscope.binfmt.dwarftypes import C_LANGUAGES, CXX_LANGUAGES, TypeReader, language_of
from soscope.model.call import UNKNOWN, PassedType, Signature

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from soscope.binfmt.dwarf import Dwarf

_MAX_STEPS = 8  # links from a function's code to the entry with its types
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
