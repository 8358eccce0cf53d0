# SPDX-License-Identifier: Apache-2.0
"""C declarations of functions whose mangled names contain their parameters.

A mangled name has neither the result of most functions, nor whether a member is static, nor
whether `a::f` is a member at all. GUESSED(result) and GUESSED(all) mark such declarations for the
code that prints calls.
"""

from __future__ import annotations

import re

from soscope.prototypes import cxx as m
from soscope.prototypes.cxx import CxxFunction, CxxType, Unread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_C = {
    "a": "signed char",
    "b": "bool",
    "c": "char",
    "d": "double",
    "e": "long double",
    "f": "float",
    "h": "unsigned char",
    "i": "int",
    "j": "unsigned int",
    "l": "long",
    "m": "unsigned long",
    "s": "short",
    "t": "unsigned short",
    "v": "void",
    "w": "wchar_t",
    "x": "long",
    "y": "unsigned long",
    "Di": "unsigned int",
    "Ds": "unsigned short",
    "Du": "unsigned char",
    "Dn": "void *",
}
_SCALARS = frozenset("abdefhijlmstxy")
# enums of the C++ library, which are int
_ENUMS = frozenset(
    "13_Ios_Openmode 13_Ios_Fmtflags 12_Ios_Iostate 12_Ios_Seekdir 6launch 12memory_order".split()
)
# libstdc++'s std::string: the address of its text, its length, ...
_STRING = ("St", "7__cxx11", "12basic_string")
_CHARACTERS = ("c", "11char_traits", "9allocator")
_TAGS = {"St": "std", "Ss": "std__string", "Si": "std__istream", "So": "std__ostream"}
_TAGS["Sd"] = "std__iostream"
_MOST_NAME = 60


class Scopes:
    """Tells classes from namespaces, by the dynamic symbols of images that have functions of them.

    `strings` are string tables, each a sequence of names that end with a zero byte.
    """

    __slots__ = ("_known", "_strings")

    def __init__(self, strings: Iterable[bytes]) -> None:
        self._strings = [b"\0" + table for table in strings if b"\0_Z" in table]
        self._known: dict[tuple[str, ...], bool] = {}

    def is_class(self, parts: tuple[str, ...]) -> bool:
        """Return whether the name with mangled components `parts` is certainly a class.

        Classes have constructors and destructors, type information and const members.
        """
        if parts not in self._known:
            self._known[parts] = any(self._has(table, parts) for table in self._strings)
        return self._known[parts]

    def _has(self, table: bytes, parts: tuple[str, ...]) -> bool:
        path = "".join(parts).encode()
        whole = path if len(parts) == 1 or parts[:-1] == ("St",) else b"N" + path + b"E"
        if any(b"\0_ZT" + kind + whole + b"\0" in table for kind in (b"I", b"S", b"V")):
            return True
        start = b"\0_ZN" + path
        if any(start + kind in table for kind in (b"C1E", b"C2E", b"D0E", b"D1E", b"D2E")):
            return True
        member = re.escape(b"\0_ZNK" + path)
        for match in re.finditer(member + rb"(\d{1,4})", table):
            end = match.end() + int(match[1])
            if table[end : end + 1] == b"E":
                return True
        return False

    def has_virtual_bases(self, parts: tuple[str, ...]) -> bool:
        """Return whether a class has a table of tables for its construction (VTT)."""
        path = "".join(parts).encode()
        whole = path if len(parts) == 1 or parts[:-1] == ("St",) else b"N" + path + b"E"
        return any(b"\0_ZTT" + whole + b"\0" in table for table in self._strings)


def declare(symbol: str, scopes: Scopes) -> str | None:
    """Return the declaration of a function as C, None if its name does not contain enough."""
    try:
        function = m.read(symbol)
        return _Writer(function, scopes).declaration(symbol)
    except Unread:
        return None


class _Writer:
    def __init__(self, function: CxxFunction, scopes: Scopes) -> None:
        self._function = function
        self._scopes = scopes
        self._is_sure = True

    def declaration(self, symbol: str) -> str:
        function = self._function
        parameters: list[str] = []
        if self._has_this():
            parameters.append("const void *this" if function.is_const else "void *this")
        for number, of in enumerate(function.parameters, 1):
            said = self._parameter(of, f"_{number}")
            parameters.append("..." if said is None else said)
            if said is None:
                break
        if parameters == ["..."]:
            raise Unread  # then nothing is known
        result, word = self._result()
        if not self._is_sure:
            word = " GUESSED(all)"
        return f"{result}{symbol}({', '.join(parameters) or 'void'}){word};"

    def _has_this(self) -> bool:
        """Return whether a function has a `this`; if that is not certain, all of it is a guess."""
        function = self._function
        if function.is_base and function.parameters:
            if self._scopes.has_virtual_bases(function.scope):
                raise Unread  # a table is passed behind `this`
            self._is_sure = False
        if function.is_member or not function.may_be_member:
            return function.is_member
        self._is_sure = False  # it may be static, or in a namespace
        return function.scope_is_class or self._scopes.is_class(function.scope)

    def _result(self) -> tuple[str, str]:
        """Return the type of the result, and an annotation if it is not known."""
        function, of = self._function, self._function.result
        if function.is_special:
            return "void ", ""
        if of is not None and of.kind in (m.POINTER, m.REFERENCE):
            text = self._pointer(of, "")
            if text is not None:
                word = " POINTER" if text == "char *" else ""  # it may point to any bytes
                return text.replace(" IN", "").replace(" CXX_STRING", ""), word
        if of is not None and of.kind == m.BUILTIN and of.code in _C:
            return f"{_C[of.code]} ", ""
        return "long ", " GUESSED(result)"

    def _parameter(self, of: CxxType, name: str) -> str | None:
        """Return a parameter as C, None if its location (and that of all behind it) is unknown."""
        if of.kind in (m.POINTER, m.REFERENCE):
            return self._pointer(of, name)
        if of.kind == m.BUILTIN and of.code in _C and of.code != "v":
            return f"{_C[of.code]} {name}"
        if of.kind != m.NAMED or of.arguments is not None:
            return None
        if len(of.parts) == 2 and of.parts[0] == "St" and of.parts[1] in _ENUMS:
            return f"int {name}"
        if of.parts[0] in ("St", "Ss", "Si", "So", "Sd") or self._scopes.is_class(of.parts):
            return None
        self._is_sure = False  # probably an enum, but it may be a class
        return f"int {name}"

    def _pointer(self, of: CxxType, name: str) -> str | None:
        target = of.target
        if target is None:
            return None
        constant = "const " if target.is_const else ""
        if target.kind == m.FUNCTION:
            return f"void *{name}"
        if target.kind == m.BUILTIN:
            if target.code not in _C:
                return f"void *{name}"
            text = f"{constant}{_C[target.code]} *{name}"
            if of.kind == m.POINTER or not target.is_const or target.code not in _SCALARS:
                # a pointer to one character is not a string
                return text if of.kind == m.POINTER else f"{text} POINTER"
            return f"{text} IN"
        if target.kind == m.NAMED:
            text = f"struct {_tag(target.parts)} *{name}"
            if of.kind == m.REFERENCE and target.is_const and _is_string(target):
                return f"{text} CXX_STRING"
            return text
        return f"void *{name}"


def _is_string(of: CxxType) -> bool:
    return (
        of.parts == _STRING
        and tuple(each.code or "".join(each.parts[-1:]) for each in of.arguments or ())
        == _CHARACTERS
    )


def _tag(parts: tuple[str, ...]) -> str:
    """Return a tag for a class that is not the tag of any structure of C."""
    names = [_TAGS.get(part, part.lstrip("0123456789").removesuffix("I")) for part in parts]
    return "cxx_" + re.sub(r"\W", "_", "__".join(names))[:_MOST_NAME]
