# SPDX-License-Identifier: Apache-2.0
"""The formats of values and structures of C types, as printing needs them."""

from __future__ import annotations

from soscope.errors import FormatError
from soscope.prototypes import row
from soscope.prototypes.constants import ConstantSets
from soscope.prototypes.ctype import (
    ARRAY,
    COMPLEX,
    FLOAT,
    LONG_DOUBLE,
    POINTER,
    STRUCT,
    VECTOR,
    Decision,
    Field,
    Struct,
    Type,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container

_MOST_ELEMENTS = 8  # elements of an array in a structure


def how_shown(
    of: Type, words: dict[str, list[str]], sets: ConstantSets, structs: dict[str, Struct]
) -> row.Show:
    """Return the format for a value of the type `of`. Raises FormatError."""
    if "ENUM" in words:
        if len(words["ENUM"]) > 1:
            raise FormatError("ENUM by another argument is for arguments alone")
        return row.SHOW_ENUM, of.size, of.signed, set_named(words["ENUM"][0], sets.enums)
    if "SIGNALS" in words:
        return row.SHOW_SIGNALS, 8, False, "signal"
    if "FLAGS" in words:
        how = row.SHOW_OCTAL_FLAGS if "OCTAL" in words else row.SHOW_FLAGS
        return how, of.size, of.signed, set_named(words["FLAGS"][0], sets.flags)
    if of.kind == POINTER:
        return row.SHOW_POINTER, 8, False, ""
    if of.kind == FLOAT:
        return row.SHOW_FLOAT, of.size, True, ""
    if of.kind == LONG_DOUBLE:
        return row.SHOW_LONG_DOUBLE, of.size, True, ""
    if of.kind == COMPLEX:
        return row.SHOW_COMPLEX, of.size, True, ""
    if of.kind in (ARRAY, VECTOR) and of.target is not None:
        return _array(of, of.target, words, structs)
    if of.kind == STRUCT:
        if of.struct not in structs:
            raise FormatError(f"'{of.text}' is not in structs.h", field=of.text.split()[-1])
        return row.SHOW_STRUCT, structs[of.struct].size, False, of.struct
    how = row.SHOW_DECIMAL
    if "OCTAL" in words:
        how = row.SHOW_OCTAL
    elif "HEX" in words:
        how = row.SHOW_HEX
    elif "BOOL" in words:
        how = row.SHOW_BOOL
    elif "CHAR" in words or of.is_char:
        wide = of.text in ("wchar_t", "wint_t")
        how = row.SHOW_WCHAR if wide else row.SHOW_CHAR
    return how, of.size, of.signed or "SIGNED" in words, ""


def _array(
    of: Type, element: Type, words: dict[str, list[str]], structs: dict[str, Struct]
) -> row.Show:
    if of.kind == ARRAY and element.is_char and not words:
        return row.SHOW_TEXT, of.size, False, ""
    # it is printed as a structure whose fields have no names
    name = f"{element.text}[{of.count}] {of.kind} {' '.join(words)}"
    most = of.count if of.kind == VECTOR else min(of.count, _MOST_ELEMENTS)
    fields = [Field("", element, words, number * element.size) for number in range(most)]
    if of.count > most:
        fields.append(Field(row.MORE, element, {}, 0))
    structs[name] = Struct(name, fields, of.size, 1)
    return row.SHOW_STRUCT, of.size, False, name


def tables(structs: dict[str, Struct], sets: ConstantSets) -> row.Structs:
    """Return the formats of the fields of all structures. Raises FormatError.

    Arrays in them become structures of their own, also in `structs`.
    """
    shown: row.Structs = {}
    while missing := structs.keys() - shown.keys():
        for name in sorted(missing):
            fields = structs[name].fields
            seen = [field for field in fields if "HIDDEN" not in field.words]
            if len(seen) < len(fields):
                seen.append(Field(row.MORE, fields[0].type, {}, 0))
            shown[name] = tuple(
                (field.name, field.offset, _field(field, sets, structs), _when(field, sets))
                for field in seen
            )
    return shown


def _field(field: Field, sets: ConstantSets, structs: dict[str, Struct]) -> row.Show:
    how, size, signed, detail = how_shown(
        field.type, {**field.type.words, **field.words}, sets, structs
    )
    if field.bits is not None:
        first, width = field.bits
        detail = f"{first}:{width}:{how}:{detail}"
        how = row.SHOW_BITS
    return how, size, signed, detail


def _when(field: Field, sets: ConstantSets) -> row.When:
    """Return the conditions under which a field is printed; unknown ones count as true."""
    return tuple(
        (each.tag[0], each.tag[1].size, each.decision.operator, _values(each.decision, sets))
        for each in field.when
        if each.tag is not None
    )


def _values(decision: Decision, sets: ConstantSets) -> tuple[int, ...]:
    return tuple(value_named(text, sets) for text in decision.values)


def value_named(text: str, sets: ConstantSets) -> int:
    """Return the value of a constant or number. Raises FormatError if it is unknown."""
    if text in sets.values:
        return sets.values[text]
    try:
        return int(text, 0)
    except ValueError:
        raise FormatError(f"constant '{text}' is not in constants.txt", field=text) from None


def set_named(name: str, known: Container[str]) -> str:
    """Return `name` if it is the name of a set. Raises FormatError if it is not."""
    if name not in known:
        raise FormatError(f"there is no set '{name}' of this kind", field=name)
    return name
