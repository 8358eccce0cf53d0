# SPDX-License-Identifier: Apache-2.0
"""A function's parameters, from its mangled C++ name (Itanium C++ ABI, 5.1).

A demangler writes a text, but soscope needs the types. Expressions, `decltype`, local names and
extensions of vendors are not supported: such a name gives no parameters.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


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


class CxxType:
    """A type: `kind` is a constant of this module.

    `code` is the letter of a built-in type. `target` is the type that is pointed or referred to.
    `parts` are the mangled components of a name. `arguments` are those of a template, or the
    types of a pack.
    """

    __slots__ = ("arguments", "code", "is_const", "kind", "parts", "target")

    def __init__(
        self,
        kind: int,
        *,
        code: str = "",
        target: CxxType | None = None,
        parts: tuple[str, ...] = (),
        arguments: tuple[CxxType, ...] | None = None,
        is_const: bool = False,
    ) -> None:
        self.kind = kind
        self.code = code
        self.target = target
        self.parts = parts
        self.arguments = arguments
        self.is_const = is_const


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
