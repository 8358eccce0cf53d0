# SPDX-License-Identifier: Apache-2.0
"""Read C declarations with the annotations of prototypes/annotations.h.

A small subset of C: typedefs, structures of plain fields, and function declarations whose
parameters all have names. There is no preprocessor: lines that begin with `#` are skipped.
Everything unknown is a FormatError that names file and line, never a guess.
"""

from __future__ import annotations

import re

from soscope.errors import FormatError
from soscope.prototypes.ctype import (
    FLOAT,
    INT,
    LONG_DOUBLE,
    POINTER,
    STRUCT,
    VOID,
    Field,
    Function,
    Optional,
    Parameter,
    Struct,
    Type,
    pointer,
)

_TOKEN = re.compile(r"[A-Za-z_]\w*|\d\w*|\.\.\.|==|!=|[^\s\w]")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
_QUALIFIERS = {"const", "volatile", "restrict"}
_NUMBER_WORDS = {"signed", "unsigned", "char", "short", "int", "long", "float", "double"}

# Annotations and whether parentheses follow.
ANNOTATIONS = {
    "OCTAL": False,
    "HEX": False,
    "SIGNED": False,
    "CHAR": False,
    "BOOL": False,
    "ENUM": True,
    "FLAGS": True,
    "POINTER": False,
    "STRING": False,
    "IN": False,
    "OUT": True,
    "BYTES": True,
    "LIMIT": True,
    "FOLLOW": False,
    "FOLLOW_UNLESS_0": True,
    "FORMAT": True,
    "OPTIONAL": True,
    "WORDS": True,
    "FAILS": True,
    "ERRNO": True,
    "ALSO": True,
}


def _base_types() -> dict[str, Type]:
    return {
        "void": Type("void", VOID, 0),
        "bool": Type("bool", INT, 1, words={"BOOL": []}),
        "_Bool": Type("_Bool", INT, 1, words={"BOOL": []}),
        # An array or a pointer by the rules of the platform; a parameter is a pointer.
        "va_list": Type("va_list", POINTER, 8),
        # Enums without a tag in the system's headers, so that types.h cannot repeat them.
        "idtype_t": Type("idtype_t", INT, 4),
    }


class Declarations:
    """What was read: functions in order, types and structures by name."""

    def __init__(self) -> None:
        self.functions: list[Function] = []
        self.types = _base_types()
        self.structs: dict[str, Struct] = {}

    def read(self, text: str, file: str) -> None:
        """Read the declarations of `text`; `file` names it in messages.

        Raises FormatError for what it does not understand.
        """
        _Reader(self, text, file).run()


class _Reader:
    """One pass over the tokens of one file."""

    def __init__(self, into: Declarations, text: str, file: str) -> None:
        self.into = into
        self.file = file
        for pattern in (_COMMENT, _DIRECTIVE):  # replaced by their line ends: lines still count
            text = pattern.sub(lambda match: "\n" * match[0].count("\n"), text)
        self.text = text
        self.starts: list[int] = []
        self.tokens: list[str] = []
        for match in _TOKEN.finditer(text):
            self.tokens.append(match[0])
            self.starts.append(match.start())
        self.tokens.append("")
        self.starts.append(len(text))
        self.at = 0

    def run(self) -> None:
        while self.tokens[self.at]:
            if self.accept("typedef"):
                self.typedef()
            elif self.tokens[self.at] == "struct" and self.tokens[self.at + 2] == "{":
                self.structure()
            else:
                self.function()

    # ---- tokens

    def where(self) -> str:
        return f"{self.file}:{self.text.count(chr(10), 0, self.starts[self.at]) + 1}"

    def fail(self, what: str) -> FormatError:
        return FormatError(
            f"{self.where()}: {what}", field=self.tokens[self.at], offset=self.starts[self.at]
        )

    def accept(self, word: str) -> bool:
        if self.tokens[self.at] != word:
            return False
        self.at += 1
        return True

    def expect(self, word: str) -> None:
        if not self.accept(word):
            raise self.fail(f"'{word}' expected before '{self.tokens[self.at]}'")

    def name(self) -> str:
        word = self.tokens[self.at]
        if not (word[:1].isalpha() or word[:1] == "_") or word in ANNOTATIONS:
            raise self.fail(f"name expected before '{word}'")
        self.at += 1
        return word

    def group(self) -> list[str]:
        """Read a group in parentheses and return the tokens inside."""
        self.expect("(")
        start, depth = self.at, 1
        while depth:
            word = self.tokens[self.at]
            if not word:
                raise self.fail("unfinished parenthesis")
            depth += (word == "(") - (word == ")")
            self.at += 1
        return self.tokens[start : self.at - 1]

    # ---- types

    def base_type(self) -> Type:
        is_const = False
        words: list[str] = []
        named: Type | None = None
        while True:
            word = self.tokens[self.at]
            if word in _QUALIFIERS:
                is_const |= word == "const"
                self.at += 1
            elif word in _NUMBER_WORDS:
                words.append(word)
                self.at += 1
            elif named is None and not words and word in ("struct", "union", "enum"):
                self.at += 1
                named = self.tagged(word, self.name())
            elif named is None and not words:
                name = self.name()
                # An unknown name is fine as long as it is only pointed to.
                known = self.into.types.get(name, Type(name, STRUCT, 0))
                named = known.copy(name)
            else:
                break
        base = named or self.number(words)
        base.is_const = is_const
        return base

    def tagged(self, what: str, tag: str) -> Type:
        if what == "enum":
            return Type(f"enum {tag}", INT, 4)
        struct = self.into.structs.get(tag)
        return Type(f"{what} {tag}", STRUCT, struct.size if struct else 0)

    def number(self, words: list[str]) -> Type:
        text = " ".join(words)
        if "double" in words:
            return Type(text, LONG_DOUBLE, 16) if "long" in words else Type(text, FLOAT, 8)
        if "float" in words:
            return Type(text, FLOAT, 4)
        is_char = words == ["char"]
        size = 1 if "char" in words else 2 if "short" in words else 8 if "long" in words else 4
        return Type(text, INT, size, signed="unsigned" not in words, is_char=is_char)

    def declarator(self, base: Type) -> tuple[str, Type, int]:
        """Read what follows a type: stars, name, brackets. Return name, type, array size."""
        of = base
        text = f"const {base.text}" if base.is_const else base.text
        while self.accept("*"):
            text = text + "*" if text.endswith("*") else text + " *"
            of = pointer(of, text)
            while self.tokens[self.at] in _QUALIFIERS:
                of.is_const |= self.tokens[self.at] == "const"
                self.at += 1
        if self.accept("("):
            self.expect("*")
            name = self.name()
            self.expect(")")
            arguments = " ".join(self.group()).replace(" ,", ",").replace("* ", "*")
            return name, pointer(None, f"{of.text} (*)({arguments})"), 0
        name = self.name()
        if self.accept("["):
            count = int(self.tokens[self.at], 0)
            self.at += 1
            self.expect("]")
            return name, pointer(of, f"{of.text} *"), count
        return name, of, 0

    def value(self) -> tuple[str, Type, int]:
        """Read a declarator of something that has a value: its type must be known."""
        name, of, count = self.declarator(self.base_type())
        if of.kind == STRUCT and not of.size:
            raise self.fail(f"type '{of.text}' of '{name}' is not known")
        return name, of, count

    def annotations(self) -> dict[str, list[str]]:
        words: dict[str, list[str]] = {}
        while (word := self.tokens[self.at]) in ANNOTATIONS and word != "OPTIONAL":
            self.at += 1
            if word == "OUT" and self.tokens[self.at] != "(":
                words[word] = []  # a fault that can be told together with the function's name
                continue
            words[word] = self.group() if ANNOTATIONS[word] else []
        return words

    # ---- declarations

    def typedef(self) -> None:
        name, of, _ = self.declarator(self.base_type())
        known = of.copy(name)
        known.words = {**of.words, **self.annotations()}
        self.expect(";")
        self.into.types[name] = known

    def structure(self) -> None:
        self.expect("struct")
        tag = self.name()
        self.expect("{")
        fields: list[Field] = []
        offset, alignment = 0, 1
        while not self.accept("}"):
            name, of, _ = self.value()
            words = self.annotations()
            self.expect(";")
            unit = self.alignment(of)
            offset += -offset % unit
            alignment = max(alignment, unit)
            fields.append(Field(name, of, words, offset))
            offset += of.size
        self.expect(";")
        self.into.structs[tag] = Struct(tag, fields, offset + -offset % alignment)

    def alignment(self, of: Type) -> int:
        if of.kind != STRUCT:
            return of.size
        struct = self.into.structs[of.text.split()[-1]]
        return max(self.alignment(field.type) for field in struct.fields)

    def function(self) -> None:
        start, where = self.starts[self.at], self.where()
        name, result, _ = self.value()
        parameters, variadic, optionals, words = self.parameters()
        words.update(self.annotations())
        source = " ".join(self.text[start : self.starts[self.at]].split())
        self.expect(";")
        self.into.functions.append(
            Function(
                name,
                result,
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
        while True:
            if self.accept("..."):
                words = self.annotations()
                while self.accept("OPTIONAL"):
                    optionals.append(self.optional())
                self.expect(")")
                return parameters, True, optionals, words
            parameters.append(self.parameter())
            if self.accept(")"):
                return parameters, False, optionals, words
            self.expect(",")

    def parameter(self) -> Parameter:
        name, of, count = self.value()
        return Parameter(name, of, self.annotations(), count)

    def optional(self) -> Optional:
        self.expect("(")
        parameters = []
        if self.tokens[self.at : self.at + 2] == ["void", ","]:
            self.at += 2
        # A type is followed by a name or a star, the name in a condition by an operator.
        while (word := self.tokens[self.at + 1]) == "*" or word[:1].isalpha() or word[:1] == "_":
            parameters.append(self.parameter())
            self.expect(",")
        if self.accept("1"):
            self.expect(")")
            return Optional(parameters, "", "", [])
        name = self.name()
        operator = self.tokens[self.at]
        if operator not in ("&", "=="):
            raise self.fail(f"'&' or '==' expected before '{operator}'")
        self.at += 1
        values = [self.name()]
        while self.accept("|"):
            values.append(self.name())
        self.expect(")")
        return Optional(parameters, name, operator, values)
