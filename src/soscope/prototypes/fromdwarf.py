# SPDX-License-Identifier: Apache-2.0
"""C declarations of functions that DWARF describes, with the types that they need.

If C cannot express a function's types, or would lay them out in another way, the function is left
out and stays unknown.
"""

from __future__ import annotations

import re

from soscope.binfmt.dwarf import entries as d
from soscope.binfmt.dwarf.entries import DwarfEntry, Entries, EntryError
from soscope.errors import FormatError
from soscope.prototypes.ctype import FLOAT, INT, POINTER, VECTOR, Type
from soscope.prototypes.parser import ANNOTATIONS, Declarations

_C_LANGUAGES = frozenset((0x01, 0x02, 0x0C, 0x1D, 0x2C, 0x3E))  # DW_LANG_C89 … DW_LANG_C23
_CXX_LANGUAGES = frozenset((0x04, 0x19, 0x1A, 0x21, 0x2A, 0x2B, 0x3A))
_BY_REFERENCE = 4  # DW_CC_pass_by_reference
_NORMAL = (None, 1, 5)  # DW_CC_normal, DW_CC_pass_by_value
_RECORDS = (d.TAG_STRUCT, d.TAG_CLASS, d.TAG_UNION)
_POINTERS = (d.TAG_POINTER, d.TAG_REFERENCE, d.TAG_RVALUE_REFERENCE)
_QUALIFIERS = (d.TAG_CONST, d.TAG_VOLATILE, d.TAG_RESTRICT, d.TAG_ATOMIC)
_STRING = "basic_string<"  # often only declared, because the library has its code
_STRING_OF_CHAR = "basic_string<char, std::char_traits<char>"
# A symbol with this part uses the layout that libstdc++ has had since 2015.
_IS_NEW_STRING = "NSt7__cxx1112basic_stringIcSt11char_traitsIcE"
_OF_COMPILERS = ("__in_chrg", "__vtt_parm", "vtt")
_SSE = 16  # bytes of the vector registers that all processors have
# Options that gcc records if vectors of so many bytes are in registers.
_ENABLED = {
    32: re.compile(
        rb"-mavx|-march=(x86-64-v[34]|haswell|broadwell|znver|[a-z]*(bridge|lake|rapids))"
    ),
    64: re.compile(rb"-mavx512f|-march=x86-64-v4"),
}
_SHOWN = 128  # bytes of a structure that is printed if a pointer to const leads to it
_MOST_STEPS = 64
_MOST_DEPTH = 16
_MOST_CHILDREN = 4096
_MOST_NAME = 100
_RESERVED = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if "
    "inline int long register restrict return short signed sizeof static struct switch typedef "
    "union unsigned void volatile while asm bool".split()
)
_SIGNED = {1: "signed char", 2: "short", 4: "int", 8: "long"}
_UNSIGNED = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long"}


class _Unsaid(Exception):  # noqa: N818  it is no fault of anything
    """C, or the subset of it that soscope reads, cannot express this."""


class CWriter:
    """Writes declarations of functions of one file; `types` are the known ones."""

    def __init__(self, entries: Entries, preamble: str) -> None:
        self._entries = entries
        self._known = Declarations.of_types(preamble, "types.h")
        self._common = dict(self._known.types)
        self._names: dict[int, str] = {}  # names of the types written, by their entries
        self._taken: dict[str, str] = {}  # name -> its definition
        self._layouts: dict[str, tuple[int, list[tuple[str, int]]]] = {}
        self._chunks: list[str] = []

    @property
    def text(self) -> str:
        """All declarations that could be written."""
        return "".join(f"{chunk}\n" for chunk in self._chunks)

    def add(self, symbol: str, entry: DwarfEntry) -> bool:
        """Declare the function `symbol` by its DWARF entry; return whether that was possible."""
        try:
            chunk = self._function(symbol, entry)
            self._known.read(chunk, "DWARF")
        except (_Unsaid, EntryError, FormatError, RecursionError):
            return False
        try:
            place = self._entries.place(entry)
        except EntryError:
            place = None
        if place is not None:
            name = re.sub(r'["\\\n]', "_", place[0])
            chunk = f'# {place[1]} "{name}"\n{chunk}'
        self._chunks.append(chunk)
        return True

    # ---- functions

    def _function(self, symbol: str, entry: DwarfEntry) -> str:
        language = self._entries.top(entry.unit).number(d.AT_LANGUAGE)
        is_c = language in _C_LANGUAGES
        if not is_c and language not in _CXX_LANGUAGES:
            raise _Unsaid
        if entry.number(d.AT_CALLING_CONVENTION) not in _NORMAL:
            raise _Unsaid
        if is_c and d.AT_PROTOTYPED not in entry.values:
            raise _Unsaid
        parameters: list[str] = []
        for child in self._entries.children(entry)[:_MOST_CHILDREN]:
            if child.tag == d.TAG_PARAMETER:
                text = self._parameter(child, len(parameters))
                if _IS_NEW_STRING in symbol and self._is_string(self._typed(child)):
                    text = f"const struct basic_string *{_identifier(child.name)} CXX_STRING"
                parameters.append(text)
            elif child.tag == d.TAG_UNSPECIFIED_PARAMETERS:
                parameters.append("...")
        result = self._entries.led(self._typed(entry))
        record = self._by_reference(result)
        if record is not None:  # the caller passes the address for it
            parameters.insert(0, f"{self._specifier(record, 0, complete=False)} *to")
            return self._declare(record, f"*{symbol}({', '.join(parameters)});", 0)
        named = f"{symbol}({', '.join(parameters) or 'void'})"
        word = " POINTER" if symbol.startswith("_Z") and self._is_bytes(result) else ""
        return f"{self._declare(result, named, 0, complete=True)}{word};"

    def _parameter(self, entry: DwarfEntry, number: int) -> str:
        entry = self._typed(entry)
        if d.AT_ARTIFICIAL in entry.values and entry.name in _OF_COMPILERS:
            raise _Unsaid  # only some callers pass it
        if d.AT_TYPE not in entry.values:
            raise _Unsaid
        name = _identifier(entry.name) or f"_{number + 1}"
        of = self._entries.led(entry)
        record = self._by_reference(of)
        if record is not None:
            return self._declare(record, f"*{name}", 0)
        return self._declare(of, name, 0, complete=True)

    def _is_bytes(self, of: DwarfEntry | None) -> bool:
        """Return whether a type is `char *`: in C++ it may point to any bytes, without a NUL."""
        whole = self._stripped(of)
        if whole is None or whole.tag != d.TAG_POINTER:
            return False
        target = self._entries.led(whole)
        while target is not None and target.tag == d.TAG_TYPEDEF:
            target = self._entries.led(target)
        return target is not None and target.tag == d.TAG_BASE and target.name == "char"

    def _is_string(self, parameter: DwarfEntry) -> bool:
        """Return whether an argument leads to a std::string that the callee cannot change."""
        of = self._stripped(self._entries.led(parameter))
        if of is not None and of.tag in (d.TAG_REFERENCE, d.TAG_RVALUE_REFERENCE):
            target = self._entries.led(of)
            if of.tag == d.TAG_REFERENCE and (target is None or target.tag != d.TAG_CONST):
                return False
            of = self._stripped(target)
        return of is not None and of.tag in _RECORDS and of.name.startswith(_STRING_OF_CHAR)

    def _typed(self, entry: DwarfEntry) -> DwarfEntry:
        """Return the entry with the type: another one, if this describes a copy of a function."""
        for _ in range(_MOST_STEPS):
            if d.AT_TYPE in entry.values:
                break
            for attribute in (d.AT_ABSTRACT_ORIGIN, d.AT_SPECIFICATION):
                other = self._entries.led(entry, attribute)
                if other is not None:
                    entry = other
                    break
            else:
                break
        return entry

    def _by_reference(self, of: DwarfEntry | None) -> DwarfEntry | None:
        """Return the class of a type if its objects are passed by address, else None."""
        whole = self._stripped(of)
        if whole is None or whole.tag not in _RECORDS:
            return None
        if self._entries.top(whole.unit).number(d.AT_LANGUAGE) in _C_LANGUAGES:
            return None
        convention = whole.number(d.AT_CALLING_CONVENTION)
        if convention == _BY_REFERENCE or whole.name.startswith(_STRING):
            return whole
        children = self._entries.children(whole)
        if convention is None and any(child.tag == d.TAG_SUBPROGRAM for child in children):
            raise _Unsaid  # depends on its functions
        return None

    # ---- types

    def _stripped(self, of: DwarfEntry | None) -> DwarfEntry | None:
        """Return the type behind typedefs and qualifiers."""
        for _ in range(_MOST_STEPS):
            if of is None or (of.tag not in _QUALIFIERS and of.tag != d.TAG_TYPEDEF):
                return of
            of = self._entries.led(of)
        raise _Unsaid

    def _declare(
        self, of: DwarfEntry | None, inner: str, depth: int, *, complete: bool = False
    ) -> str:
        """Return the declaration of `inner`, which is of the type `of`.

        If `complete` is true, `inner` holds a value of that type, so that its size must be known.
        """
        if depth > _MOST_STEPS:
            raise _Unsaid
        if of is None:
            return f"void {inner}"
        if of.tag in _POINTERS:
            return self._pointer(self._entries.led(of), inner, depth)
        if of.tag in _QUALIFIERS:
            target = self._entries.led(of)
            if of.tag != d.TAG_CONST:
                return self._declare(target, inner, depth + 1, complete=complete)
            if target is not None and target.tag in _POINTERS:
                return self._declare(target, f"const {inner}", depth + 1)
            return "const " + self._declare(target, inner, depth + 1, complete=complete)
        if of.tag == d.TAG_ARRAY:
            if d.AT_GNU_VECTOR in of.values:
                return f"{self._vector(of, depth)} {inner}"
            counts = "".join(f"[{count}]" for count in self._counts(of))
            element = self._entries.led(of)
            return self._declare(element, f"{inner}{counts}", depth + 1, complete=complete)
        return f"{self._specifier(of, depth, complete=complete)} {inner}"

    def _pointer(self, target: DwarfEntry | None, inner: str, depth: int) -> str:
        if target is not None and target.tag == d.TAG_SUBROUTINE_TYPE:
            result = self._entries.led(target)
            return self._declare(result, f"(*{inner})()", depth + 1)
        if target is not None and target.tag == d.TAG_ARRAY:
            return self._declare(target, f"(*{inner})", depth + 1)
        complete = False
        if target is not None and target.tag == d.TAG_CONST and not depth:
            whole = self._stripped(target)
            size = None if whole is None else whole.number(d.AT_BYTE_SIZE)
            complete = size is not None and size <= _SHOWN and self._can_be_said(whole)
        return self._declare(target, f"*{inner}", depth + 1, complete=complete)

    def _can_be_said(self, of: DwarfEntry | None) -> bool:
        if of is None or of.tag not in _RECORDS:
            return False
        try:
            self._specifier(of, 1, complete=True)
        except (_Unsaid, EntryError):
            return False
        return True

    def _vector(self, of: DwarfEntry, depth: int) -> str:
        """Return the name of a vector's type."""
        if of.at in self._names:
            return self._names[of.at]
        element = self._entries.led(of)
        (count,) = self._counts(of)
        if element is None or element.tag not in (d.TAG_BASE, d.TAG_TYPEDEF):
            raise _Unsaid
        whole = self._stripped(element)
        size = count * ((whole.number(d.AT_BYTE_SIZE) if whole is not None else 0) or 0)
        if size > _SSE:  # how it is passed depends on compiler options
            options = self._entries.top(of.unit).values.get(d.AT_PRODUCER)
            enabled = _ENABLED.get(size)
            if enabled is None or not isinstance(options, bytes) or not enabled.search(options):
                raise _Unsaid
        name = self._specifier(element, depth + 1, complete=True)
        definition = f"typedef {name} \0 __attribute__((vector_size({size})));"
        return self._define(of, "", definition)

    def _counts(self, of: DwarfEntry) -> list[int]:
        counts = []
        for child in self._entries.children(of):
            if child.tag != d.TAG_SUBRANGE:
                continue
            count = child.number(d.AT_COUNT)
            if count is None:
                last = child.signed(d.AT_UPPER_BOUND)
                count = 0 if last is None else last + 1
            if child.number(d.AT_LOWER_BOUND) or not 0 <= count <= 1 << 24:
                raise _Unsaid
            counts.append(count)
        if not counts:
            raise _Unsaid
        return counts

    def _specifier(self, of: DwarfEntry, depth: int, *, complete: bool) -> str:
        """Return the name of a type, and define the type if necessary."""
        if depth > _MOST_DEPTH:
            raise _Unsaid
        if of.tag == d.TAG_BASE:
            return _base(of)
        if of.tag == d.TAG_TYPEDEF:
            return self._typedef(of, depth, complete=complete)
        if of.tag == d.TAG_ENUM:
            return self._names.get(of.at) or self._enumeration(of)
        if of.tag not in _RECORDS:
            raise _Unsaid
        if of.at in self._names:
            return self._names[of.at]
        word = "union" if of.tag == d.TAG_UNION else "struct"
        if not complete:
            return f"{word} {_identifier(of.name) or f'at_{of.at:x}'}"
        return self._record(of, word, depth)

    def _typedef(self, of: DwarfEntry, depth: int, *, complete: bool) -> str:
        if of.at in self._names:
            return self._names[of.at]
        name = _identifier(of.name)
        whole = self._stripped(of)
        if whole is not None and whole.tag in _RECORDS and not complete:
            return name
        if whole is not None and d.AT_GNU_VECTOR in whole.values:
            self._vector(whole, depth)  # checks whether C can express it
        if name in self._common and _is_like(self._common[name], whole):
            self._names[of.at] = name
            return name
        target = self._entries.led(of)
        # its typedef decides how it is printed, but not the typedefs that it is made of
        if target is None:
            definition = "typedef void {}"
        elif target.tag == d.TAG_SUBROUTINE_TYPE:
            definition = "typedef void {}()"
        else:
            inner = self._declare(target, "{}", depth + 1, complete=complete)
            definition = f"typedef {inner}"
        return self._define(of, name, definition.replace("{}", "\0") + ";")

    def _define(self, of: DwarfEntry, name: str, definition: str, word: str = "") -> str:
        """Write a definition, in which the name is \\0; return how the type is called then."""
        chosen, number = name or f"at_{of.at:x}", 1
        while True:
            text = definition.replace("\0", chosen)
            known = self._taken.get(f"{word} {chosen}")
            if known in (None, text):
                break
            number += 1
            chosen = f"{name}_{number}"  # the name is taken by another type
        if known is None:
            try:
                self._known.read(text, "DWARF")
            except FormatError:
                raise _Unsaid from None
            self._chunks.append(text)
            self._taken[f"{word} {chosen}"] = text
        self._names[of.at] = f"{word} {chosen}".strip()
        return self._names[of.at]

    def _enumeration(self, of: DwarfEntry) -> str:
        size = of.number(d.AT_BYTE_SIZE) or 4
        constants = []
        for child in self._entries.children(of)[:_MOST_CHILDREN]:
            value = child.signed(d.AT_CONST_VALUE)
            if child.tag == d.TAG_ENUMERATOR and value is not None:
                constants.append((_identifier(child.name), value))
        wide = any(not -(1 << 31) <= value < 1 << 32 for _, value in constants)
        if size != (8 if wide else 4) or not constants:
            if size not in _UNSIGNED:
                raise _Unsaid
            return _UNSIGNED[size] if all(value >= 0 for _, value in constants) else _SIGNED[size]
        body = ", ".join(f"{name} = {value}" for name, value in constants)
        return self._define(of, _identifier(of.name), f"enum \0 {{ {body} }};", "enum")

    def _record(self, of: DwarfEntry, word: str, depth: int) -> str:
        size = of.number(d.AT_BYTE_SIZE)
        if size is None or d.AT_DECLARATION in of.values:
            raise _Unsaid
        members: list[str] = []
        offsets: list[tuple[str, int | None]] = []
        for number, child in enumerate(self._entries.children(of)[:_MOST_CHILDREN]):
            if child.tag == d.TAG_INHERITANCE:
                members.append(self._base_class(child, depth))
                offsets.append((members[-1].split()[-1][:-1], child.number(d.AT_MEMBER_LOCATION)))
                continue
            if child.tag != d.TAG_MEMBER or {d.AT_EXTERNAL, d.AT_DECLARATION} & child.values.keys():
                continue
            name = _identifier(child.name)
            anonymous = not name
            target = self._entries.led(child)
            bits = child.number(d.AT_BIT_SIZE)
            if anonymous and bits is None:
                whole = self._stripped(target)
                if whole is None or whole.tag not in _RECORDS:
                    raise _Unsaid
            name = name or f"_{number}"
            ending = "" if bits is None else f" : {bits}"
            if anonymous and bits is None and target is not None:
                members.append(f"{self._specifier(target, depth + 1, complete=True)};")
                continue
            declared = self._declare(target, name, depth + 1, complete=True)
            members.append(f"{declared}{ending};")
            if bits is None:
                offsets.append((name, child.number(d.AT_MEMBER_LOCATION) or 0))
            else:
                place = child.number(d.AT_DATA_BIT_OFFSET)
                if place is None and of.unit.version < 4:
                    raise _Unsaid  # counted from the other end
        for attribute in ("", " __attribute__((packed))"):
            definition = f"{word} \0 {{ {' '.join(members)} }}{attribute};"
            called = self._define(of, _identifier(of.name), definition, word)
            if self._lies_so(called, size, offsets):
                return called
            self._forget(of, called)
        raise _Unsaid  # forced alignment, or C++: C cannot express it

    def _lies_so(self, called: str, size: int, offsets: list[tuple[str, int | None]]) -> bool:
        """Return whether a written definition has the layout that the DWARF entry gives."""
        struct = self._known.structs.get(called.rsplit(maxsplit=1)[-1])
        if struct is None or struct.size != size:
            return False
        there = {field.name: field.offset for field in struct.fields}
        return all(there.get(name) == offset for name, offset in offsets)

    def _base_class(self, of: DwarfEntry, depth: int) -> str:
        """Return a member of the same name in place of a base class."""
        base = self._entries.led(of)
        place = of.number(d.AT_MEMBER_LOCATION)
        if base is None or place is None or d.AT_VIRTUALITY in of.values:
            raise _Unsaid
        whole = self._stripped(base)
        if whole is None or whole.tag not in _RECORDS or whole.number(d.AT_BYTE_SIZE) == 1:
            raise _Unsaid  # an empty one takes no room
        called = self._specifier(whole, depth + 1, complete=True)
        return f"{called} {_identifier(whole.name)};"

    def _forget(self, of: DwarfEntry, called: str) -> None:
        tag = called.rsplit(maxsplit=1)[-1]
        self._known.structs.pop(tag, None)
        self._names.pop(of.at, None)
        text = self._taken.pop(called, None)
        if text in self._chunks:
            self._chunks.remove(text)


def _base(of: DwarfEntry) -> str:
    size, encoding = of.number(d.AT_BYTE_SIZE), of.number(d.AT_ENCODING)
    name = of.name
    if encoding == 2 and size == 1:
        return "bool"
    if encoding == 4 and size in (4, 8) and name != "_Float32x":
        return "float" if size == 4 else "double"
    if encoding == 4 and size == 16 and name == "long double":
        return "long double"
    if encoding == 3 and size in (8, 16):
        return "float _Complex" if size == 8 else "double _Complex"
    if encoding == 3 and size == 32 and "long double" in name:
        return "long double _Complex"
    if name in ("char", "wchar_t") and encoding in (5, 6, 7, 8):
        return name
    signed = encoding in (5, 6, 0x0D)
    if encoding not in (2, 5, 6, 7, 8, 0x10) or size not in _SIGNED or "_BitInt" in name:
        raise _Unsaid
    return _SIGNED[size] if signed else _UNSIGNED[size]


def _is_like(known: Type, whole: DwarfEntry | None) -> bool:
    """Return whether a type that soscope knows already is the type of an entry."""
    if whole is None:
        return False
    size = whole.number(d.AT_BYTE_SIZE)
    if whole.tag in _POINTERS:
        return known.kind == POINTER
    if whole.tag == d.TAG_ARRAY:
        return known.kind == VECTOR and d.AT_GNU_VECTOR in whole.values
    if whole.tag == d.TAG_ENUM:
        return known.kind == INT and size == known.size
    if whole.tag != d.TAG_BASE or size != known.size:
        return False
    return (known.kind == FLOAT) == (whole.number(d.AT_ENCODING) == 4)


def _identifier(name: str) -> str:
    """Return a name as a C identifier, because C++ names contain other characters."""
    name = re.sub(r"\W", "_", name, flags=re.ASCII)[:_MOST_NAME]
    if name[:1].isdigit():
        name = f"_{name}"
    return f"{name}_" if name in _RESERVED or name in ANNOTATIONS else name
