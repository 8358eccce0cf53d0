# SPDX-License-Identifier: Apache-2.0
"""Types that DWARF describes, and how values of these types are passed in a call.

DWARF 5, chapter 5 "Type Entries". The entries are objects of pyelftools, which may raise any
exception on damaged DWARF. The callers handle that.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from soscope.model.call import (
    COMPLEX,
    FLOATING,
    MEMORY,
    RECORD,
    UNKNOWN,
    VECTOR,
    VOID,
    WORD,
    PassedType,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from soscope.model.call import Piece


C_LANGUAGES = frozenset((0x01, 0x02, 0x0C, 0x1D, 0x2C, 0x3E))  # DW_LANG_C89 … DW_LANG_C23
CXX_LANGUAGES = frozenset((0x04, 0x19, 0x1A, 0x21, 0x2A, 0x2B, 0x3A))

_BY_REFERENCE, _BY_VALUE = 4, 5  # DW_CC_pass_by_reference, DW_CC_pass_by_value
_MAX_STEPS = 64  # typedefs and qualifiers in a row, at most
_MAX_DEPTH = 16  # nesting of records, at most
_MAX_PIECES = 1024
_MAX_TEXT = 200
_MAX_VECTOR = 64  # bytes of the largest value in one register

_POINTERS = frozenset(
    ("DW_TAG_pointer_type", "DW_TAG_reference_type", "DW_TAG_rvalue_reference_type")
)
_RECORDS = frozenset(("DW_TAG_structure_type", "DW_TAG_class_type", "DW_TAG_union_type"))
_WORDS = {
    "DW_TAG_const_type": "const",
    "DW_TAG_volatile_type": "volatile",
    "DW_TAG_restrict_type": "",
    "DW_TAG_atomic_type": "_Atomic",
}
_TAGS = {
    "DW_TAG_structure_type": "struct",
    "DW_TAG_class_type": "class",
    "DW_TAG_union_type": "union",
    "DW_TAG_enumeration_type": "enum",
}
# DW_ATE_*: boolean, signed, signed_char, unsigned, unsigned_char, UTF; float; complex_float
_ENCODINGS = {2: WORD, 5: WORD, 6: WORD, 7: WORD, 8: WORD, 0x10: WORD, 4: FLOATING, 3: COMPLEX}
# gcc's order of words -> the usual one
_USUAL = {
    "short int": "short",
    "short unsigned int": "unsigned short",
    "unsigned int": "unsigned int",
    "long int": "long",
    "long unsigned int": "unsigned long",
    "long long int": "long long",
    "long long unsigned int": "unsigned long long",
}


_known_units: WeakKeyDictionary[Any, dict[int, Any]] = WeakKeyDictionary()


class _Unsure(Exception):  # noqa: N818  it is no fault of anything
    """The DWARF does not tell what a record consists of."""


class TypeReader:
    """Reads types for one machine; `passing` is the machine's module in binfmt/isa."""

    def __init__(self, passing: ModuleType) -> None:
        self._passing = passing

    def of(self, entry: Any) -> PassedType:
        """Return the type that DW_AT_type of an entry refers to, void if there is none."""
        if "DW_AT_type" not in entry.attributes:
            return PassedType("void", VOID)
        of = _led(entry)
        return self._passed(of, _text(of, 0))

    def result_of(self, entry: Any) -> PassedType:
        """Return the type of a function's result; a record returned in memory has class MEMORY."""
        passed = self.of(entry)
        if passed.kind == RECORD and not passed.classes:  # passed by reference
            return PassedType(passed.text, RECORD, passed.size, (MEMORY,))
        return passed

    def argument_of(self, entry: Any) -> PassedType:
        """Return the type of an argument; for a record that is passed by reference, a pointer."""
        passed = self.of(entry)
        if passed.kind == RECORD and not passed.classes:
            return self._word(passed.text, self._passing.POINTER)
        return passed

    def _word(self, text: str, size: int) -> PassedType:
        classes = self._passing.scalar_classes(WORD, size, "")
        return PassedType(text, WORD if classes else UNKNOWN, size, classes)

    def _passed(self, of: Any, text: str) -> PassedType:
        is_atomic = False
        for _ in range(_MAX_STEPS):
            if of.tag not in _WORDS and of.tag != "DW_TAG_typedef":
                break
            is_atomic |= of.tag == "DW_TAG_atomic_type"
            if "DW_AT_type" not in of.attributes:
                return PassedType(text, VOID)
            of = _led(of)
        of = _whole(of)
        if of.tag in _RECORDS:  # an atomic record may be larger than the plain one
            return PassedType(text, UNKNOWN) if is_atomic else self._record(of, text)
        size = _number(of, "DW_AT_byte_size")
        if of.tag in _POINTERS or (of.tag == "DW_TAG_unspecified_type" and "nullptr" in text):
            return self._word(text, self._passing.POINTER if size is None else size)
        if of.tag == "DW_TAG_enumeration_type":
            return PassedType(text, UNKNOWN) if size is None else self._word(text, size)
        kind = _ENCODINGS.get(_number(of, "DW_AT_encoding") or 0)
        if of.tag == "DW_TAG_array_type" and "DW_AT_GNU_vector" in of.attributes:
            kind, size = VECTOR, size or self._array_size(of)
        elif of.tag != "DW_TAG_base_type":
            kind = None
        name = _name(of)
        if kind is None or size is None or "_BitInt" in name:
            return PassedType(text, UNKNOWN)
        classes = self._passing.scalar_classes(kind, size, name)
        return PassedType(text, kind if classes else UNKNOWN, size, classes)

    # ---- records ----

    def _record(self, of: Any, text: str) -> PassedType:
        size = _number(of, "DW_AT_byte_size")
        if size is None or "DW_AT_declaration" in of.attributes:
            return PassedType(text, UNKNOWN)
        convention = _number(of, "DW_AT_calling_convention")
        if convention == _BY_REFERENCE:
            return PassedType(text, RECORD, size)
        if language_of(of) in C_LANGUAGES and size > _MAX_VECTOR:
            return PassedType(text, RECORD, size, (MEMORY,))
        try:
            pieces: list[Piece] = []
            self._collect(of, 0, pieces, 0, may_have_functions=convention == _BY_VALUE)
        except _Unsure:
            return PassedType(text, UNKNOWN)  # printed as text, never compared
        if self._passing.is_in_memory(size):
            classes: tuple[str, ...] = (MEMORY,)
        else:
            classes = self._passing.record_classes(size, pieces)
        return PassedType(text, RECORD if classes and size else UNKNOWN, size, classes)

    def _collect(
        self, of: Any, base: int, pieces: list[Piece], depth: int, *, may_have_functions: bool
    ) -> None:
        """Add the pieces of a record that begins at `base` bytes. Raises _Unsure.

        If C++ does not tell how the record is passed, that is only certain for a record without
        any function, because such a record has no destructor or copy constructor of its own.
        """
        if depth > _MAX_DEPTH:
            raise _Unsure
        is_c = language_of(of) in C_LANGUAGES
        for child in of.iter_children():
            if child.tag == "DW_TAG_subprogram" and not (is_c or may_have_functions):
                raise _Unsure
            is_base = child.tag == "DW_TAG_inheritance"
            if is_base and "DW_AT_virtuality" in child.attributes:
                raise _Unsure
            if child.tag != "DW_TAG_member" and not is_base:
                continue
            if {"DW_AT_external", "DW_AT_declaration"} & child.attributes.keys():
                continue  # a static member
            if "DW_AT_artificial" in child.attributes:
                raise _Unsure  # a pointer to a table of virtual functions
            bits = _number(child, "DW_AT_bit_size")
            if bits is not None:
                pieces.append(self._bit_field(child, base, bits))
                continue
            location = child.attributes.get("DW_AT_data_member_location")
            at = 0 if location is None else location.value
            if not isinstance(at, int):
                raise _Unsure
            member = _led(child)
            self._add(member, base + at, pieces, depth, may_have_functions=may_have_functions)

    def _add(
        self, of: Any, at: int, pieces: list[Piece], depth: int, *, may_have_functions: bool
    ) -> None:
        for _ in range(_MAX_STEPS):
            if of.tag not in _WORDS and of.tag != "DW_TAG_typedef":
                break
            of = _led(of)
        of = _whole(of)
        if len(pieces) > _MAX_PIECES or "DW_AT_declaration" in of.attributes:
            raise _Unsure
        if of.tag in _RECORDS:
            self._collect(of, at, pieces, depth + 1, may_have_functions=may_have_functions)
            return
        if of.tag == "DW_TAG_array_type" and "DW_AT_GNU_vector" not in of.attributes:
            self._add_array(of, at, pieces, depth, may_have_functions=may_have_functions)
            return
        passed = self._passed(of, "")
        if passed.kind not in (WORD, FLOATING, COMPLEX):
            raise _Unsure
        alignment = passed.size // 2 if passed.kind == COMPLEX else passed.size
        pieces.append((at, passed.size, passed.classes, min(alignment, 16)))

    def _add_array(
        self, of: Any, at: int, pieces: list[Piece], depth: int, *, may_have_functions: bool
    ) -> None:
        count = _count(of)
        inner: list[Piece] = []
        element = _led(of)
        self._add(element, 0, inner, depth + 1, may_have_functions=may_have_functions)
        size = _size(element)
        # a large array is passed in memory anyway, so its first elements tell enough
        for number in range(min(count, 1 + 16 // max(size, 1))):
            pieces += [
                (at + number * size + offset, width, classes, alignment)
                for offset, width, classes, alignment in inner
            ]
            if len(pieces) > _MAX_PIECES:
                raise _Unsure

    def _bit_field(self, child: Any, base: int, bits: int) -> Piece:
        place = _number(child, "DW_AT_data_bit_offset")
        if place is None:  # DWARF 3: counted from the highest bit of its unit
            location = _number(child, "DW_AT_data_member_location") or 0
            unit = _number(child, "DW_AT_byte_size")
            if unit is None:
                unit = _size(_led(child))
            place = 8 * (location + unit) - (_number(child, "DW_AT_bit_offset") or 0) - bits
        start = base + place // 8
        width = (8 * base + place + bits + 7) // 8 - start
        return start, width, self._passing.scalar_classes(WORD, self._passing.POINTER, ""), 1

    def _array_size(self, of: Any) -> int | None:
        try:
            return _count(of) * _size(_led(of))
        except _Unsure:
            return None  # an array without a length


# ---- entries of pyelftools ----


def _led(entry: Any, word: str = "DW_AT_type") -> Any:
    """Return the entry that an attribute refers to."""
    attribute = entry.attributes[word]
    if attribute.form == "DW_FORM_ref_sig8":
        # type units of DWARF 5 are in .debug_info, where pyelftools does not look for them
        unit = _type_units(entry.cu.dwarfinfo).get(attribute.value)
        if unit is not None:
            return unit.get_DIE_from_refaddr(unit.cu_offset + unit.header["type_offset"])
    return entry.get_DIE_from_attribute(word)


def _type_units(info: Any) -> dict[int, Any]:
    """Return the type units by signature (DWARF 5, 3.1.4 "Type Unit Entries")."""
    units = _known_units.get(info)
    if units is None:
        units = {
            unit.header["type_signature"]: unit
            for unit in info.iter_CUs()
            if "type_signature" in unit.header
        }
        _known_units[info] = units
    return units


def _whole(of: Any) -> Any:
    """Return a type; if it is declared by a signature, its definition in a type unit."""
    return _led(of, "DW_AT_signature") if "DW_AT_signature" in of.attributes else of


def _number(entry: Any, name: str) -> int | None:
    """Return an attribute that is a number, None if it is missing or not a number."""
    attribute = entry.attributes.get(name)
    return attribute.value if attribute is not None and isinstance(attribute.value, int) else None


def _name(entry: Any) -> str:
    attribute = entry.attributes.get("DW_AT_name")
    return "" if attribute is None else attribute.value.decode("utf-8", "replace")


def language_of(entry: Any) -> int | None:
    """Return DW_AT_language of an entry's unit."""
    return _number(entry.cu.get_top_DIE(), "DW_AT_language")


def _size(of: Any) -> int:
    """Return the size of a type in bytes. Raises _Unsure."""
    for _ in range(_MAX_STEPS):
        of = _whole(of)
        size = _number(of, "DW_AT_byte_size")
        if size is not None:
            return size
        if of.tag == "DW_TAG_array_type":
            return _count(of) * _size(_led(of))
        if of.tag in _POINTERS:
            return int(of.cu.header.address_size)
        if "DW_AT_type" not in of.attributes:
            break
        of = _led(of)
    raise _Unsure


def _count(of: Any) -> int:
    """Return the number of elements of an array, over all its dimensions. Raises _Unsure."""
    count, has_any = 1, False
    for child in of.iter_children():
        if child.tag != "DW_TAG_subrange_type":
            raise _Unsure
        many = _number(child, "DW_AT_count")
        if many is None:
            last = _number(child, "DW_AT_upper_bound")
            if last is None or _number(child, "DW_AT_lower_bound"):
                raise _Unsure
            many = last + 1
        count, has_any = count * many, True
    if not has_any:
        raise _Unsure
    return count


def _text(of: Any, depth: int) -> str:
    """Return a type as C writes it."""
    if depth > _MAX_DEPTH:
        return "?"
    of = _whole(of)
    name = _name(of)
    if of.tag in _TAGS:
        word = "" if language_of(of) in CXX_LANGUAGES and name else _TAGS[of.tag] + " "
        return f"{word}{name or '{…}'}"[:_MAX_TEXT]
    if name:
        return _USUAL.get(name, name)[:_MAX_TEXT]
    target = "void"
    if "DW_AT_type" in of.attributes:
        inner = _led(of)
        if inner.tag == "DW_TAG_subroutine_type":
            return "function *"
        target = _text(inner, depth + 1)
    if of.tag in _POINTERS:
        sign = {"DW_TAG_reference_type": "&", "DW_TAG_rvalue_reference_type": "&&"}.get(of.tag, "*")
        return target + sign if target.endswith("*") else f"{target} {sign}"
    if of.tag in _WORDS:
        word = _WORDS[of.tag]
        return (f"{target} {word}" if target.endswith("*") else f"{word} {target}").strip()
    return f"{target}[]" if of.tag == "DW_TAG_array_type" else "?"
