# SPDX-License-Identifier: Apache-2.0
"""Make C declarations, which are partly guesses, from mangled C++ names."""

from __future__ import annotations

import re

from soscope.model.call import ENDED_RETURN, Captured, Exit
from soscope.model.image import ERROR_NONE
from soscope.model.record import Record
from soscope.prototypes import catalog
from soscope.prototypes.formats import REST, UNKNOWN_TYPE, Argument
from soscope.prototypes.printer import Printer, unknown_result, unknown_words
from soscope.prototypes.show import NamedTypes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from soscope.model.call import Fields
    from soscope.prototypes.byfields import Text, Texts


# Print the calls of a function whose declaration is partly a guess.

_LOWEST, _HIGHEST = 0x10000, 1 << 47  # range of a process's addresses
_WORD_SIZE = 8


class GuessedPrinter(Printer):
    """Prints such calls; `guessed` is one of row.GUESSED_…, which tells what is not known."""

    def __init__(self, of: catalog.FunctionRow, names: NamedTypes, guessed: str) -> None:
        super().__init__(of, names)
        self._guessed = guessed
        if guessed == catalog.GUESSED_RESULT or not self._may_be_returned():
            self.known_at_entry = 0  # known only when the call returns

    def arguments(self, captured: Captured, limit: int, after: Exit | None) -> list[Argument]:
        """Return the arguments, with a mark if they may be other ones."""
        if self._is_shifted(captured, after):
            return unknown_words(captured)
        shown = super().arguments(captured, limit, after)
        if shown and not self._is_proved(captured, after):
            if shown[-1].type == REST:  # shared by all calls
                shown[-1] = Argument(REST, REST, None)
            for argument in shown:
                argument.guess = True
            shown[-1].marked(f" {UNKNOWN_TYPE}")
        return shown

    def texts(self, captured: Captured, limit: int, after: Exit | None) -> list[str]:
        """Return only the `shown` of `arguments`, for lines of a trace."""
        return [argument.shown for argument in self.arguments(captured, limit, after)]

    def result(self, after: Exit, limit: int) -> Argument | None:
        """Return the result, whose type is not known."""
        del limit
        return unknown_result(after.result)

    def by_fields(self, fields: Fields, limit: int) -> Texts | None:
        """Return None, because an argument depends on more than its register."""
        del fields, limit
        return None

    def result_text(self) -> tuple[Text | None, int]:
        """Return None, because a guessed result is printed with a mark that arguments may lack."""
        return None, ERROR_NONE

    def _is_proved(self, captured: Captured, after: Exit | None) -> bool:
        """Return whether the arguments are certainly in the expected locations.

        If a result has a hidden pointer, it is the first word, and the function returns it
        (System V psABI 3.2.3).
        """
        if self._guessed == catalog.GUESSED_ALL or after is None or after.ended != ENDED_RETURN:
            return False
        passed = captured.words[0]
        return after.result is not None and (
            after.result != passed or not _LOWEST <= passed < _HIGHEST
        )

    def _is_shifted(self, captured: Captured, after: Exit | None) -> bool:
        """Return whether the first word seems to be a hidden pointer to the result.

        That is so if it is an address where a small number is expected. And if the function
        returns the first word, it is a hidden pointer, or a pointer to something that the
        function may change (`*this`, a stream), but hardly anything else.
        """
        passed = captured.words[0]
        if not self._arguments or not _LOWEST <= passed < _HIGHEST:
            return False
        first = self._arguments[0]
        if first.place == catalog.PLACE_INT and first.size < _WORD_SIZE:
            return bool(passed >> 32)  # -5 looks like an address, and may be returned, too
        return after is not None and after.result == passed and not self._may_be_returned()

    def _may_be_returned(self) -> bool:
        """Return whether the first argument points to something that the function may change."""
        first = self._arguments[0].type if self._arguments else ""
        return first.endswith("*") and not first.startswith("const ")


# A function's parameters, from its mangled C++ name (Itanium C++ ABI, 5.1).
#
# A demangler writes a text, but soscope needs the types. Expressions, `decltype`, local names and
# extensions of vendors are not supported: such a name gives no parameters.

BUILTIN, POINTER, REFERENCE, NAMED, FUNCTION, PACK, OTHER = range(7)
_STD = "St"
_SHORT = {
    "a": ("St", "9allocator"),
    "b": ("St", "12basic_string"),
    "s": ("Ss",),
    "i": ("Si",),
    "o": ("So",),
    "d": ("Sd",),
}
_CLASSES = ("Ss", "Si", "So", "Sd", "9allocator", "12basic_string")  # classes, not namespaces
_OPERATORS = frozenset(
    "nw na dl da aw ps ng ad de co pl mi ml dv rm an or eo aS pL mI mL dV rM aN oR eO ls rs lS rS "
    "eq ne lt gt le ge ss nt aa oo pp mm cm pm pt cl ix qu".split()
)
_MEMBERS_ALONE = frozenset(("aS", "cl", "ix", "pt"))  # operators that only classes have
_BUILTINS = frozenset("vwbcahstijlmxynofdegz")
_MOST = 4096  # characters of a name, and steps of recursion


class Unread(Exception):  # noqa: N818  it is no fault of anything
    """The name gives no parameters, or is of an unsupported kind."""


class CxxType(Record):
    """A type: `kind` is a constant of this module.

    `code` is the letter of a built-in type. `target` is the type that is pointed or referred to.
    `parts` are the mangled components of a name. `arguments` are the arguments of a template, or
    the types of a pack.
    """

    kind: int
    code: str = ""
    target: CxxType | None = None
    parts: tuple[str, ...] = ()
    arguments: tuple[CxxType, ...] | None = None
    is_const: bool = False


class CxxFunction:
    """A function: `scope` are the components of its namespace or class, () if it has none.

    `is_special` is true for a constructor or destructor, `is_base` for one of a base class.
    `is_member` tells that it certainly has a `this`, `is_const` that its object is const,
    `may_be_member` that it may have a `this`. `scope_is_class` tells that the scope is a class,
    by the name alone. `result` is None if the name does not contain it.
    """

    __slots__ = (
        "is_base",
        "is_const",
        "is_member",
        "is_special",
        "may_be_member",
        "parameters",
        "result",
        "scope",
        "scope_is_class",
    )

    def __init__(self, scope: tuple[str, ...], parameters: list[CxxType]) -> None:
        self.scope = scope
        self.scope_is_class = False
        self.parameters = parameters
        self.result: CxxType | None = None
        self.is_const = self.is_special = self.is_base = self.is_member = self.may_be_member = False


def read(symbol: str) -> CxxFunction:
    """Return the function that a mangled name describes. Raises Unread."""
    if not symbol.startswith("_Z") or len(symbol) > _MOST:
        raise Unread
    try:
        return _NameReader(symbol).function()
    except (IndexError, ValueError, RecursionError):
        raise Unread from None


class _Name:
    """A name during parsing: `parts`, and the arguments of its last template."""

    __slots__ = ("arguments", "is_const", "is_nested", "last", "parts")

    def __init__(self, parts: tuple[str, ...]) -> None:
        self.parts = parts
        self.arguments: tuple[CxxType, ...] | None = None
        self.is_const = self.is_nested = False
        self.last = ""  # "C1", "D0", "cv", the code of an operator


class _NameReader:
    def __init__(self, text: str) -> None:
        self.text = text.partition(".")[0] + "\0"  # clones of a function: foo.cold
        self.at = 2
        self.known: list[CxxType] = []  # substitutions
        self.of_template: tuple[CxxType, ...] = ()

    def function(self) -> CxxFunction:
        name = self._name()
        is_special = name.last[:1] in ("C", "D") and name.last != ""
        scope = name.parts[:-1]
        function = CxxFunction(scope, [])
        function.is_special = is_special
        function.is_const = name.is_const
        function.is_base = name.last in ("C2", "D2")
        in_class = bool(scope) and _is_class(scope[-1])
        function.scope_is_class = in_class or is_special
        allocates = name.last in ("nw", "na", "dl", "da")
        function.is_member = is_special or name.is_const or name.last in _MEMBERS_ALONE
        function.is_member |= name.last == "cv"
        function.may_be_member = name.is_nested and scope != (_STD,) and not allocates
        if name.arguments is not None and not is_special and name.last != "cv":
            self.of_template = name.arguments
            function.result = self._type()
        elif name.arguments is not None:
            self.of_template = name.arguments
        while self.text[self.at] != "\0":
            of = self._type()
            function.parameters += of.arguments or () if of.kind == PACK else (of,)
        if not function.parameters:
            raise Unread  # it is a variable
        if len(function.parameters) == 1 and function.parameters[0].code == "v":
            function.parameters = []
        return function

    # ---- names

    def _peek(self, text: str) -> bool:
        return self.text.startswith(text, self.at)

    def _take(self, text: str) -> bool:
        is_there = self._peek(text)
        self.at += len(text) if is_there else 0
        return is_there

    def _name(self) -> _Name:
        if self._take("N"):
            return self._nested()
        if self._peek("Z") or self._peek("T") or self._peek("G"):
            raise Unread
        if self._peek("S") and not self._peek(_STD):
            of = self._substitution()
            name = _Name(of.parts)
            if not self._peek("I"):
                raise Unread
        else:
            name = _Name((_STD,) if self._take(_STD) else ())
            self._component(name)
            if self._peek("I"):
                self._remember(name)
        if self._peek("I"):
            self._template(name)
        return name

    def _remember(self, name: _Name) -> None:
        self.known.append(CxxType(NAMED, parts=name.parts, arguments=name.arguments))

    def _nested(self) -> _Name:
        name = _Name(())
        name.is_nested = True
        while self.text[self.at] in "rVK":
            name.is_const = True
            self.at += 1
        if self.text[self.at] in "RO":
            name.is_const = True  # such a function has a `this`, as a const member has
            self.at += 1
        is_known = True
        while not self._take("E"):
            if self._peek("T"):
                raise Unread
            if self._peek("I"):
                if name.arguments is not None:
                    raise Unread
                self._template(name)
            elif self._peek("S") and not self._peek(_STD):
                if name.parts:
                    raise Unread
                of = self._substitution()
                name.parts, name.arguments = of.parts, of.arguments
                if of.arguments is not None:
                    name.parts = (*of.parts[:-1], f"{of.parts[-1]}I")
                is_known = True
                continue
            elif self._take(_STD):
                name.parts = (_STD,)
                continue
            else:
                if name.arguments is not None and not name.parts[-1].endswith("I"):
                    name.parts = (*name.parts[:-1], f"{name.parts[-1]}I")
                name.arguments = None
                self._component(name)
            self._remember(name)
            is_known = False
        if not is_known:
            # a function's whole name is no prefix of another; a type is added where it is read
            self.known.pop()
        return name

    def _component(self, name: _Name) -> None:
        self._take("L")
        text, at = self.text, self.at
        name.last = ""
        if text[at].isdigit():
            name.parts += (self._source_name(),)
        elif text[at] in "CD" and text[at + 1] in "012345":
            name.last = text[at : at + 2]
            name.parts += (name.last,)
            self.at += 2
        elif text.startswith("cv", at):
            self.at += 2
            name.last = "cv"
            self._type()
            name.parts += ("cv",)
        elif text[at : at + 2] in _OPERATORS:
            name.last = text[at : at + 2]
            name.parts += (name.last,)
            self.at += 2
        else:
            raise Unread
        while self._take("B"):
            self._source_name()  # an ABI tag

    def _source_name(self) -> str:
        start = self.at
        while self.text[self.at].isdigit():
            self.at += 1
        length = int(self.text[start : self.at])
        end = self.at + length
        if end >= len(self.text) or not length:
            raise Unread
        self.at = end
        return self.text[start:end]

    def _template(self, name: _Name) -> None:
        self.at += 1
        name.arguments = tuple(self._arguments())

    def _arguments(self) -> list[CxxType]:
        arguments: list[CxxType] = []
        while not self._take("E"):
            if self._take("J"):
                arguments.append(CxxType(PACK, arguments=tuple(self._arguments())))
            elif self._take("L"):
                self._literal()
                arguments.append(CxxType(OTHER))
            elif self._peek("X"):
                raise Unread
            else:
                arguments.append(self._type())
        return arguments

    def _literal(self) -> None:
        if self._peek("_Z"):
            raise Unread
        self._type()
        while not self._take("E"):
            if not self.text[self.at].isalnum():
                raise Unread
            self.at += 1

    # ---- types

    def _substitution(self) -> CxxType:
        self.at += 1
        letter = self.text[self.at]
        self.at += 1
        if letter in _SHORT:
            return CxxType(NAMED, parts=_SHORT[letter])
        return self.known[self._sequence(letter, 36)]

    def _sequence(self, letter: str, base: int) -> int:
        """Return the index for "_", "0_", "1_", ...; its first character, `letter`, was read."""
        digits = ""
        while letter != "_":
            digits += letter
            letter = self.text[self.at]
            self.at += 1
        return int(digits, base) + 1 if digits else 0

    def _parameter(self) -> CxxType:
        self.at += 1
        letter = self.text[self.at]
        self.at += 1
        return self.of_template[self._sequence(letter, 10)] if self.of_template else _unbound()

    def _type(self) -> CxxType:
        of, is_new = self._one()
        if is_new:
            self.known.append(of)
        return of

    def _one(self) -> tuple[CxxType, bool]:
        """Return a type, and whether it counts as a substitution."""
        letter = self.text[self.at]
        if letter in "rVK":
            is_const = False
            while self.text[self.at] in "rVK":
                is_const |= self.text[self.at] == "K"
                self.at += 1
            return _each(self._type(), lambda of: _const(of, is_const=is_const)), True
        if letter in "PRO":
            self.at += 1
            kind = POINTER if letter == "P" else REFERENCE
            return _each(self._type(), lambda of: _leading(kind, of)), True
        if letter == "F":
            self._signature()
            return CxxType(FUNCTION), True
        if letter == "A":
            self.at += 1
            while self.text[self.at].isdigit():
                self.at += 1
            if not self._take("_"):
                raise Unread
            self._type()
            return CxxType(OTHER), True
        if letter == "T":
            if self.text[self.at + 1] in "sue":
                raise Unread
            of = self._parameter()
            if self._peek("I"):
                raise Unread
            return of, True
        if letter == "D":
            return self._of_two_letters()
        if letter == "S" and not self._peek(_STD):
            of = self._substitution()
            if not self._peek("I"):
                return of, False
            name = _Name(of.parts)
            self._template(name)
            return CxxType(NAMED, parts=name.parts, arguments=name.arguments), True
        if letter in "NSZ" or letter.isdigit():
            name = self._name()
            return CxxType(NAMED, parts=name.parts, arguments=name.arguments), True
        if letter in _BUILTINS:
            self.at += 1
            return CxxType(BUILTIN, code=letter), False
        raise Unread  # a member pointer, complex number or extension

    def _of_two_letters(self) -> tuple[CxxType, bool]:
        code = self.text[self.at : self.at + 2]
        self.at += 2
        if code in ("Di", "Ds", "Du", "Dn"):
            return CxxType(BUILTIN, code=code), False
        if code == "Dp":
            return self._type(), True
        if code == "Do":
            self._signature()
            return CxxType(FUNCTION), True
        raise Unread

    def _signature(self) -> None:
        if not self._take("F"):
            raise Unread
        self._take("Y")
        while not self._take("E"):
            if self.text[self.at] in "RO" and self.text[self.at + 1] == "E":
                self.at += 1
                continue
            self._type()


def _unbound() -> CxxType:
    raise Unread


def _each(of: CxxType, make: _Make) -> CxxType:
    """Apply `make` to a type, or to each type of a pack."""
    if of.kind == PACK:
        return CxxType(PACK, arguments=tuple(make(each) for each in of.arguments or ()))
    return make(of)


def _const(of: CxxType, *, is_const: bool) -> CxxType:
    if of.kind == REFERENCE:
        return of
    return CxxType(
        of.kind,
        code=of.code,
        target=of.target,
        parts=of.parts,
        arguments=of.arguments,
        is_const=of.is_const or is_const,
    )


def _leading(kind: int, of: CxxType) -> CxxType:
    # a reference to a reference is a single reference
    return of if of.kind == REFERENCE and kind == REFERENCE else CxxType(kind, target=of)


def _is_class(part: str) -> bool:
    return part.endswith("I") or part in _CLASSES


if TYPE_CHECKING:
    _Make = Callable[[CxxType], CxxType]


# C declarations of functions whose mangled names contain their parameters.
#
# A mangled name has neither the result of most functions, nor whether a member is static, nor
# whether `a::f` is a member at all. GUESSED(result) and GUESSED(all) mark such declarations for the
# code that prints calls.

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
        function = read(symbol)
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
        if of is not None and of.kind in (POINTER, REFERENCE):
            text = self._pointer(of, "")
            if text is not None:
                word = " POINTER" if text == "char *" else ""  # it may point to any bytes
                return text.replace(" IN", "").replace(" CXX_STRING", ""), word
        if of is not None and of.kind == BUILTIN and of.code in _C:
            return f"{_C[of.code]} ", ""
        return "long ", " GUESSED(result)"

    def _parameter(self, of: CxxType, name: str) -> str | None:
        """Return a parameter as C, None if its location is unknown.

        If a location is unknown, the locations of all later parameters are unknown, too.
        """
        if of.kind in (POINTER, REFERENCE):
            return self._pointer(of, name)
        if of.kind == BUILTIN and of.code in _C and of.code != "v":
            return f"{_C[of.code]} {name}"
        if of.kind != NAMED or of.arguments is not None:
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
        if target.kind == FUNCTION:
            return f"void *{name}"
        if target.kind == BUILTIN:
            if target.code not in _C:
                return f"void *{name}"
            text = f"{constant}{_C[target.code]} *{name}"
            if of.kind == POINTER or not target.is_const or target.code not in _SCALARS:
                # a pointer to one character is not a string
                return text if of.kind == POINTER else f"{text} POINTER"
            return f"{text} IN"
        if target.kind == NAMED:
            text = f"struct {_tag(target.parts)} *{name}"
            if of.kind == REFERENCE and target.is_const and _is_string(target):
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
