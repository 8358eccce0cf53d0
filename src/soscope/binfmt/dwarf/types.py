# SPDX-License-Identifier: Apache-2.0
"""Types that DWARF describes, and how values of these types are passed in a call.

DWARF 5, chapter 5 "Type Entries". Functions raise EntryError for damaged DWARF.
"""

from __future__ import annotations

from soscope.binfmt.dwarf import entries as d
from soscope.binfmt.dwarf.entries import DwarfEntry, EntryError
from soscope.binfmt.source import uleb
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

    from soscope.model.call import Piece


C_LANGUAGES = frozenset((0x01, 0x02, 0x0C, 0x1D, 0x2C, 0x3E))  # DW_LANG_C89 … DW_LANG_C23
CXX_LANGUAGES = frozenset((0x04, 0x19, 0x1A, 0x21, 0x2A, 0x2B, 0x3A))

_BY_REFERENCE, _BY_VALUE = 4, 5  # DW_CC_pass_by_reference, DW_CC_pass_by_value
_MAX_STEPS = 64  # typedefs and qualifiers in a row, at most
_MAX_DEPTH = 16  # nesting of records, at most
_MAX_PIECES = 1024
_MAX_TEXT = 200
_OP_PLUS_UCONST = 0x23
_MAX_VECTOR = 64  # bytes of the largest value in one register

_POINTERS = frozenset((d.TAG_POINTER, d.TAG_REFERENCE, d.TAG_RVALUE_REFERENCE))
_RECORDS = frozenset((d.TAG_STRUCT, d.TAG_CLASS, d.TAG_UNION))
_WORDS = {
    d.TAG_CONST: "const",
    d.TAG_VOLATILE: "volatile",
    d.TAG_RESTRICT: "",
    d.TAG_ATOMIC: "_Atomic",
}
_TAGS = {
    d.TAG_STRUCT: "struct",
    d.TAG_CLASS: "class",
    d.TAG_UNION: "union",
    d.TAG_ENUM: "enum",
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


class _Unsure(Exception):  # noqa: N818  it is no fault of anything
    """The DWARF does not tell what a record consists of."""


class TypeReader:
    """Reads types for one machine; `passing` is the machine's module in binfmt/isa."""

    def __init__(self, passing: ModuleType) -> None:
        self._passing = passing

    def of(self, entry: DwarfEntry) -> PassedType:
        """Return the type that DW_AT_type of an entry refers to, void if there is none."""
        if d.AT_TYPE not in entry.values:
            return PassedType("void", VOID)
        of = _led(entry)
        return self._passed(of, _text(of, 0))

    def result_of(self, entry: DwarfEntry) -> PassedType:
        """Return the type of a function's result; a record returned in memory has class MEMORY."""
        passed = self.of(entry)
        if passed.kind == RECORD and not passed.classes:  # passed by reference
            return PassedType(passed.text, RECORD, passed.size, (MEMORY,))
        return passed

    def argument_of(self, entry: DwarfEntry) -> PassedType:
        """Return the type of an argument; for a record that is passed by reference, a pointer."""
        passed = self.of(entry)
        if passed.kind == RECORD and not passed.classes:
            return self._word(passed.text, self._passing.POINTER)
        return passed

    def _word(self, text: str, size: int) -> PassedType:
        classes = self._passing.scalar_classes(WORD, size, "")
        return PassedType(text, WORD if classes else UNKNOWN, size, classes)

    def _passed(self, of: DwarfEntry, text: str) -> PassedType:
        is_atomic = False
        for _ in range(_MAX_STEPS):
            if of.tag not in _WORDS and of.tag != d.TAG_TYPEDEF:
                break
            is_atomic |= of.tag == d.TAG_ATOMIC
            if d.AT_TYPE not in of.values:
                return PassedType(text, VOID)
            of = _led(of)
        of = _whole(of)
        if of.tag in _RECORDS:  # an atomic record may be larger than the plain one
            return PassedType(text, UNKNOWN) if is_atomic else self._record(of, text)
        size = of.number(d.AT_BYTE_SIZE)
        if of.tag in _POINTERS or (of.tag == d.TAG_UNSPECIFIED_TYPE and "nullptr" in text):
            return self._word(text, self._passing.POINTER if size is None else size)
        if of.tag == d.TAG_ENUM:
            return PassedType(text, UNKNOWN) if size is None else self._word(text, size)
        kind = _ENCODINGS.get(of.number(d.AT_ENCODING) or 0)
        if of.tag == d.TAG_ARRAY and d.AT_GNU_VECTOR in of.values:
            kind, size = VECTOR, size or self._array_size(of)
        elif of.tag != d.TAG_BASE:
            kind = None
        name = of.name
        if kind is None or size is None or "_BitInt" in name:
            return PassedType(text, UNKNOWN)
        classes = self._passing.scalar_classes(kind, size, name)
        return PassedType(text, kind if classes else UNKNOWN, size, classes)

    # ---- records ----

    def _record(self, of: DwarfEntry, text: str) -> PassedType:
        size = of.number(d.AT_BYTE_SIZE)
        if size is None or d.AT_DECLARATION in of.values:
            return PassedType(text, UNKNOWN)
        convention = of.number(d.AT_CALLING_CONVENTION)
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
        self,
        of: DwarfEntry,
        base: int,
        pieces: list[Piece],
        depth: int,
        *,
        may_have_functions: bool,
    ) -> None:
        """Add the pieces of a record that begins at `base` bytes. Raises _Unsure.

        If C++ does not tell how the record is passed, that is only certain for a record without
        any function, because such a record has no destructor or copy constructor of its own.
        """
        if depth > _MAX_DEPTH:
            raise _Unsure
        is_c = language_of(of) in C_LANGUAGES
        for child in of.unit.entries.each_child(of):
            if child.tag == d.TAG_SUBPROGRAM and not (is_c or may_have_functions):
                raise _Unsure
            is_base = child.tag == d.TAG_INHERITANCE
            if is_base and d.AT_VIRTUALITY in child.values:
                raise _Unsure
            if child.tag != d.TAG_MEMBER and not is_base:
                continue
            if {d.AT_EXTERNAL, d.AT_DECLARATION} & child.values.keys():
                continue  # a static member
            if d.AT_ARTIFICIAL in child.values:
                raise _Unsure  # a pointer to a table of virtual functions
            bits = child.number(d.AT_BIT_SIZE)
            if bits is not None:
                pieces.append(self._bit_field(child, base, bits))
                continue
            at = child.values.get(d.AT_MEMBER_LOCATION, 0)
            if not isinstance(at, int):
                at = _member_offset(at)
            member = _led(child)
            self._add(member, base + at, pieces, depth, may_have_functions=may_have_functions)

    def _add(
        self, of: DwarfEntry, at: int, pieces: list[Piece], depth: int, *, may_have_functions: bool
    ) -> None:
        for _ in range(_MAX_STEPS):
            if of.tag not in _WORDS and of.tag != d.TAG_TYPEDEF:
                break
            of = _led(of)
        of = _whole(of)
        if len(pieces) > _MAX_PIECES or d.AT_DECLARATION in of.values:
            raise _Unsure
        if of.tag in _RECORDS:
            self._collect(of, at, pieces, depth + 1, may_have_functions=may_have_functions)
            return
        if of.tag == d.TAG_ARRAY and d.AT_GNU_VECTOR not in of.values:
            self._add_array(of, at, pieces, depth, may_have_functions=may_have_functions)
            return
        passed = self._passed(of, "")
        if passed.kind not in (WORD, FLOATING, COMPLEX):
            raise _Unsure
        alignment = passed.size // 2 if passed.kind == COMPLEX else passed.size
        pieces.append((at, passed.size, passed.classes, min(alignment, 16)))

    def _add_array(
        self, of: DwarfEntry, at: int, pieces: list[Piece], depth: int, *, may_have_functions: bool
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

    def _bit_field(self, child: DwarfEntry, base: int, bits: int) -> Piece:
        place = child.number(d.AT_DATA_BIT_OFFSET)
        if place is None:  # DWARF 3: counted from the highest bit of its unit
            location = child.number(d.AT_MEMBER_LOCATION) or 0
            unit = child.number(d.AT_BYTE_SIZE)
            if unit is None:
                unit = _size(_led(child))
            place = 8 * (location + unit) - (child.number(d.AT_BIT_OFFSET) or 0) - bits
        start = base + place // 8
        width = (8 * base + place + bits + 7) // 8 - start
        return start, width, self._passing.scalar_classes(WORD, self._passing.POINTER, ""), 1

    def _array_size(self, of: DwarfEntry) -> int | None:
        try:
            return _count(of) * _size(_led(of))
        except _Unsure:
            return None  # an array without a length


# ---- entries ----


def _led(entry: DwarfEntry, attribute: int = d.AT_TYPE) -> DwarfEntry:
    """Return the entry that an attribute refers to. Raises EntryError, also if there is none."""
    of = entry.unit.entries.led(entry, attribute)
    if of is None:
        raise EntryError("a type without the type that it is made of")
    return of


def _whole(of: DwarfEntry) -> DwarfEntry:
    """Return a type; if it is declared by a signature, its definition in a type unit."""
    return _led(of, d.AT_SIGNATURE) if d.AT_SIGNATURE in of.values else of


def language_of(entry: DwarfEntry) -> int | None:
    """Return DW_AT_language of an entry's unit."""
    return entry.unit.entries.top(entry.unit).number(d.AT_LANGUAGE)


def _size(of: DwarfEntry) -> int:
    """Return the size of a type in bytes. Raises _Unsure."""
    for _ in range(_MAX_STEPS):
        of = _whole(of)
        size = of.number(d.AT_BYTE_SIZE)
        if size is not None:
            return size
        if of.tag == d.TAG_ARRAY:
            return _count(of) * _size(_led(of))
        if of.tag in _POINTERS:
            return of.unit.width
        if d.AT_TYPE not in of.values:
            break
        of = _led(of)
    raise _Unsure


def _member_offset(code: bytes) -> int:
    """Return the offset that DWARF 2 gives as DW_OP_plus_uconst. Raises _Unsure."""
    if code[:1] == bytes([_OP_PLUS_UCONST]):
        offset, behind = uleb(code + b"\0", 1)
        if behind == len(code):
            return offset
    raise _Unsure


def _count(of: DwarfEntry) -> int:
    """Return the number of elements of an array, over all its dimensions. Raises _Unsure."""
    count, has_any = 1, False
    for child in of.unit.entries.each_child(of):
        if child.tag != d.TAG_SUBRANGE:
            raise _Unsure
        many = child.number(d.AT_COUNT)
        if many is None:
            last = child.number(d.AT_UPPER_BOUND)
            if last is None or child.number(d.AT_LOWER_BOUND):
                raise _Unsure
            many = last + 1
        count, has_any = count * many, True
    if not has_any:
        raise _Unsure
    return count


def _text(of: DwarfEntry, depth: int) -> str:
    """Return a type as C writes it."""
    if depth > _MAX_DEPTH:
        return "?"
    of = _whole(of)
    name = of.name
    if of.tag in _TAGS:
        word = "" if language_of(of) in CXX_LANGUAGES and name else _TAGS[of.tag] + " "
        return f"{word}{name or '{…}'}"[:_MAX_TEXT]
    if name:
        return _USUAL.get(name, name)[:_MAX_TEXT]
    target = "void"
    if d.AT_TYPE in of.values:
        inner = _led(of)
        if inner.tag == d.TAG_SUBROUTINE_TYPE:
            return "function *"
        target = _text(inner, depth + 1)
    if of.tag in _POINTERS:
        sign = {d.TAG_REFERENCE: "&", d.TAG_RVALUE_REFERENCE: "&&"}.get(of.tag, "*")
        return target + sign if target.endswith("*") else f"{target} {sign}"
    if of.tag in _WORDS:
        word = _WORDS[of.tag]
        return (f"{target} {word}" if target.endswith("*") else f"{word} {target}").strip()
    return f"{target}[]" if of.tag == d.TAG_ARRAY else "?"
