# SPDX-License-Identifier: Apache-2.0
"""Read C declarations with the annotations of prototypes/annotations.h.

It reads plain C as in headers: typedefs, structures, unions, enums, functions, and constants by
`#define`. No file is included. Variables and the bodies of functions are skipped. Anything else
is a FormatError with file and line, never a guess.
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
_ELEMENTS = {  # element of immintrin.h's vectors, by the letter behind their size
    "": Type("float", FLOAT, 4),
    "d": Type("double", FLOAT, 8),
    "i": Type("long long", INT, 8, signed=True),
}


def _vectors() -> list[tuple[str, str, int]]:
    """Return name, letter and size in bytes of each vector type."""
    return [(f"__m{8 * size}{of}", of, size) for size in (16, 32, 64) for of in _ELEMENTS]


def _base_types() -> dict[str, Type]:
    return {
        "void": Type("void", VOID, 0),
        "bool": Type("bool", INT, 1, words={"BOOL": []}),
        "_Bool": Type("_Bool", INT, 1, words={"BOOL": []}),
        # By the ABI it is an array or a pointer; a parameter is a pointer.
        "va_list": Type("va_list", POINTER, 8, words={VA_LIST: []}),
        "__builtin_va_list": Type("va_list", POINTER, 8, words={VA_LIST: []}),
        **{name: vector(_ELEMENTS[of], size, name) for name, of, size in _vectors()},
        # Enums without a tag in the system's headers, so types.h cannot declare them again.
        "idtype_t": Type("idtype_t", INT, 4),
    }


class Declarations:
    """The declarations read: functions in order, types and structures by name.

    `enums` are (value, name) by tag, `constants` the numbers of enums and `#define`s by name.
    `prefixes` are the prefixes in ENUM(PREFIX*) and FLAGS(PREFIX*), with their positions. `empty`
    are structures of size 0.
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
        """Return the result of `read` for a text that is needed repeatedly; it is read only once.

        No content is ever changed in place, so all results share it.
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
        """Read the declarations in `text`; `file` is its file, for messages.

        Raises FormatError for anything that it does not understand.
        """
        _Reader(self, text, file).run()

    def anonymous(self) -> str:
        """Return a name for a type without one."""
        self._anonymous += 1
        return f"<{self._anonymous}>"

    def enum_kind(self, tag: str) -> str:
        """Return whether a value of an enum is one constant (ENUM) or several (FLAGS).

        As in gdb, it is several if no two constants have a bit in common.
        """
        seen = 0
        for value, _ in self.enums[tag]:
            if value < 0 or value & seen:
                return "ENUM"
            seen |= value
        # 0, 1 and 2 are as often three values as two flags
        return "FLAGS" if seen.bit_count() > 2 else "ENUM"


_READ: dict[str, Declarations] = {}  # text -> its declarations


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
        if self.accept(";"):  # only structures and enums
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
        # for a function that returns a function pointer, they are inside the declarator
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
        if declared.parameters is not None:  # a parameter of function type becomes a pointer
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
        # A type is followed by a name or a star, a name in a condition by an operator.
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
