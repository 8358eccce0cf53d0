# SPDX-License-Identifier: Apache-2.0
"""Read C declarations with the annotations of prototypes/annotations.h.

What a header declares in plain C: typedefs, structures, unions, enums, functions, and constants
by `#define`. No file is included; variables and the bodies of functions are skipped.
Everything else is a FormatError that names file and line, never a guess.
"""

from __future__ import annotations

from soscope.prototypes.ctype import (
    ARRAY,
    FLOAT,
    INT,
    POINTER,
    VA_LIST,
    VOID,
    Function,
    Optional,
    Parameter,
    Struct,
    Type,
    pointer,
    vector,
)
from soscope.prototypes.typereader import ANNOTATIONS, CTypeReader, Declarator, pointer_text

__all__ = ["ANNOTATIONS", "Declarations"]

_MOST_PARAMETERS = 256
_ELEMENTS = {  # of the vectors of immintrin.h, by the letter behind their size
    "": Type("float", FLOAT, 4),
    "d": Type("double", FLOAT, 8),
    "i": Type("long long", INT, 8, signed=True),
}


def _vectors() -> list[tuple[str, str, int]]:
    """Return name, letter and size in bytes of each."""
    return [(f"__m{8 * size}{of}", of, size) for size in (16, 32, 64) for of in _ELEMENTS]


def _base_types() -> dict[str, Type]:
    return {
        "void": Type("void", VOID, 0),
        "bool": Type("bool", INT, 1, words={"BOOL": []}),
        "_Bool": Type("_Bool", INT, 1, words={"BOOL": []}),
        # An array or a pointer by the rules of the platform; a parameter is a pointer.
        "va_list": Type("va_list", POINTER, 8, words={VA_LIST: []}),
        "__builtin_va_list": Type("va_list", POINTER, 8, words={VA_LIST: []}),
        **{name: vector(_ELEMENTS[of], size, name) for name, of, size in _vectors()},
        # Enums without a tag in the system's headers, so that types.h cannot repeat them.
        "idtype_t": Type("idtype_t", INT, 4),
    }


class Declarations:
    """What was read: functions in order, types and structures by name.

    `enums` are (value, name) by tag, `constants` the numbers of enums and `#define`s by name,
    `prefixes` what ENUM(PREFIX*) and FLAGS(PREFIX*) have asked for, and where. `empty` are
    structures of no size.
    """

    def __init__(self) -> None:
        self.functions: list[Function] = []
        self.types = _base_types()
        self.structs: dict[str, Struct] = {}
        self.enums: dict[str, list[tuple[int, str]]] = {}
        self.constants: dict[str, int] = {}
        self.prefixes: list[tuple[str, str, str]] = []
        self.empty: set[str] = set()
        self._anonymous = 0

    @classmethod
    def of_types(cls, text: str, file: str) -> Declarations:
        """Return what `read` makes of a text that is wanted again and again, read once.

        Nothing that it has is ever changed in place, so all of them may have it.
        """
        if text not in _READ:
            _READ[text] = cls()
            _READ[text].read(text, file)
        read, new = _READ[text], cls()
        new.functions, new.prefixes = list(read.functions), list(read.prefixes)
        new.types, new.structs = dict(read.types), dict(read.structs)
        new.enums, new.constants = dict(read.enums), dict(read.constants)
        new.empty, new._anonymous = set(read.empty), read._anonymous
        return new

    def read(self, text: str, file: str) -> None:
        """Read the declarations of `text`; `file` names it in messages.

        Raises FormatError for what it does not understand.
        """
        _Reader(self, text, file).run()

    def anonymous(self) -> str:
        """Return a name for what has none."""
        self._anonymous += 1
        return f"<{self._anonymous}>"

    def enum_kind(self, tag: str) -> str:
        """Return whether values of an enum are one of its constants (ENUM), or several (FLAGS).

        They are several, as for gdb, if no two constants have a bit in common.
        """
        seen = 0
        for value, _ in self.enums[tag]:
            if value < 0 or value & seen:
                return "ENUM"
            seen |= value
        # 0, 1 and 2 are as often three things as two flags
        return "FLAGS" if seen.bit_count() > 2 else "ENUM"


_READ: dict[str, Declarations] = {}  # by text


class _Reader(CTypeReader):
    """One pass over the tokens of one file."""

    def run(self) -> None:
        while self.tokens[self.at]:
            if self.accept(";"):
                continue
            if self.tokens[self.at] in ("_Static_assert", "static_assert"):
                self.at += 1
                self.group()
            elif self.accept("typedef"):
                self.typedef()
            else:
                self.declaration()

    def typedef(self) -> None:
        base = self.base_type()
        while True:
            declared = self.declarator(base)
            if not declared.name:
                raise self.fail(f"name expected {self.before()}")
            of = declared.type
            if declared.parameters is not None:
                self.group()
                of = Type(declared.name, VOID, 0)
            known = of.copy(declared.name)
            known.words = {**of.words, **self.annotations()}
            self.into.types[declared.name] = known
            if not self.accept(","):
                break
        self.expect(";")

    def declaration(self) -> None:
        start, where = self.at, self.where()
        while self.accept("static"):
            start = self.at
        base = self.base_type()
        if self.accept(";"):  # structures and enums alone
            return
        while True:
            declared = self.declarator(base)
            if not declared.name:
                raise self.fail(f"name expected {self.before()}")
            if declared.parameters is not None:
                self.check(declared)
                self.function(declared, start, where)
                if self.tokens[self.at] == "{":
                    self.group()
                    return
            elif self.accept("="):
                self.initializer()
            if not self.accept(","):
                break
        self.expect(";")

    def initializer(self) -> None:
        while self.tokens[self.at] not in (",", ";", ""):
            if self.tokens[self.at] in ("(", "{", "["):
                self.group()
            else:
                self.at += 1

    def function(self, declared: Declarator, start: int, where: str) -> None:
        # of one that returns a function's address, they stand within the declarator
        end, self.at = self.at, declared.parameters or self.at
        is_nested = end != self.at
        parameters, variadic, optionals, words = self.parameters()
        if is_nested:
            self.at = end
        self.decoration()
        words.update(self.annotations())
        source = " ".join(self.text[self.starts[start] : self.starts[self.at]].split())
        self.into.functions.append(
            Function(
                declared.name,
                declared.type,
                parameters,
                variadic=variadic,
                optionals=optionals,
                words=words,
                source=source,
                where=where,
            )
        )

    def parameters(
        self,
    ) -> tuple[list[Parameter], bool, list[Optional], dict[str, list[str]]]:
        self.expect("(")
        parameters: list[Parameter] = []
        optionals: list[Optional] = []
        words: dict[str, list[str]] = {}
        if self.tokens[self.at : self.at + 2] == ["void", ")"]:
            self.at += 2
            return parameters, False, optionals, words
        if self.accept(")"):
            return parameters, False, optionals, words
        while True:
            if self.accept("..."):
                words = self.annotations()
                while self.accept("OPTIONAL"):
                    optionals.append(self.optional())
                self.expect(")")
                return parameters, True, optionals, words
            parameters.append(self.parameter())
            if len(parameters) > _MOST_PARAMETERS:
                raise self.fail("too many parameters")
            if self.accept(")"):
                return parameters, False, optionals, words
            self.expect(",")

    def parameter(self) -> Parameter:
        declared = self.declarator(self.base_type())
        of = declared.type
        if declared.parameters is not None:  # of a function it is the address
            self.group()
            of = pointer(None, f"{of.text} (*)()")
        elif of.kind == ARRAY:
            of = pointer(of.target, pointer_text(of))
        else:
            self.check(declared)
        parameter = Parameter(declared.name, of, self.annotations(), declared.count)
        while self.accept("AS"):
            other = self.optional()
            if len(other.parameters) != 1 or not other.conditions:
                raise self.fail("AS has one parameter and a condition")
            parameter.others.append(other)
            parameter.words.update(self.annotations())
        return parameter

    def optional(self) -> Optional:
        self.expect("(")
        parameters = []
        if self.tokens[self.at : self.at + 2] == ["void", ","]:
            self.at += 2
        # A type is followed by a name or a star, the name in a condition by an operator.
        while self.is_parameter():
            parameters.append(self.parameter())
            self.expect(",")
        if self.accept("1"):
            self.expect(")")
            return Optional(parameters, [])
        return Optional(parameters, self.conditions())

    def is_parameter(self) -> bool:
        word, behind = self.tokens[self.at + 1 : self.at + 3]
        is_function = word == "(" and behind == "*"
        return word == "*" or is_function or word[:1].isalpha() or word[:1] == "_"
