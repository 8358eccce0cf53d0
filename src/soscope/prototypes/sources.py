# SPDX-License-Identifier: Apache-2.0
"""Prototypes from other sources: users' files, debug information, ltrace's files."""

from __future__ import annotations

import os
import re

from soscope.errors import FormatError, UsageError
from soscope.model.record import Record
from soscope.prototypes import table, typereader
from soscope.prototypes.capture import CapturePrograms
from soscope.prototypes.cparser import NotConstantError, value_of
from soscope.prototypes.describe import Description
from soscope.prototypes.parser import Declarations
from soscope.prototypes.show import ConstantSets, NamedTypes
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    from soscope.prototypes.catalog import FunctionRow, Prototypes
    from soscope.prototypes.ctype import Function


# Functions declared outside of soscope: by users, by debug information, by ltrace's files.
#
# Whatever the source, it is first converted to C declarations. A recording keeps these, and soscope
# prints them if the user asks which prototype was used.

# Sources of prototypes, the most trusted one first.
USER = "--prototypes"
TABLE = "table"
DWARF = "debug information"
CALLER = "debug information of a caller"
MANGLED = "name"
LTRACE = "ltrace"
TRUST = (USER, TABLE, DWARF, CALLER, MANGLED, LTRACE)
_PREAMBLE = "types.h"
_PRAGMA = "#pragma soscope prototypes: "


class Added(Record):
    """A declared function: how its calls are captured (`known`) and printed (`row`, `names`).

    `kind` is a constant of this module, `file` the file from which it was read. `guessed` is one
    of row.GUESSED_… or "".
    """

    kind: str
    file: str
    row: FunctionRow
    names: NamedTypes
    known: table.Known
    guessed: str = ""


class SourceText(Record):
    """Declarations in C: `text`, from the source `kind`; `file` is its file, for messages."""

    kind: str
    file: str
    text: str

    def packed(self) -> str:
        """Return the text with its source and file as C, for a recording."""
        file = self.file.replace("\\", "/").replace('"', "'").replace("\n", " ")
        return f'{_PRAGMA}{self.kind}\n# 1 "{file}"\n{self.text}'

    @classmethod
    def unpacked(cls, text: str) -> SourceText | None:
        """Return declarations from a recording, None if the text is of another kind."""
        head, _, rest = text.partition("\n")
        kind = head.removeprefix(_PRAGMA)
        if head == kind or kind not in TRUST:
            return None
        return cls(kind, "recording", rest)


def read(
    of: SourceText,
    preamble: str,
    known: NamedTypes,
    flags_of: Callable[[str], int],
    *,
    before: list[SourceText],
    refused: list[FormatError] | None = None,
) -> dict[str, Added]:
    """Return the functions that a text declares, by name.

    `preamble` has declarations of types that the text may use; it may also use types of the texts
    `before`. `known` are soscope's own sets of constants and structures. `flags_of` returns how a
    function is treated. Raises FormatError for a faulty declaration. With `refused`, errors for
    declarations that cannot be captured are added to it instead.
    """
    declarations = Declarations.of_types(preamble, _PREAMBLE)
    given = dict(declarations.structs)
    for earlier in before:
        declarations.read(earlier.text, earlier.file)
    declarations.functions.clear()
    declarations.read(of.text, of.file)
    sets = _sets(known, declarations)
    described: list[tuple[Function, Description]] = []
    for function in declarations.functions:
        try:
            described.append(
                (function, Description(function, sets, declarations.structs, shows_const=True))
            )
        except FormatError as error:
            if refused is None:
                raise
            refused.append(error)
    made = {
        name: struct
        for name, struct in declarations.structs.items()
        if struct is not given.get(name) or name not in known.structs
    }
    structs = {**known.structs, **typereader.tables(made, sets)}
    names = NamedTypes(sets.enums, sets.flags, structs)
    functions: dict[str, Added] = {}
    for function, description in described:
        try:
            programs = CapturePrograms(description)
        except FormatError as error:
            if refused is None:
                raise
            refused.append(error)
            continue
        kept = description.kept()
        guessed = function.words.get("GUESSED", [""])[0]
        for name in function.symbols():
            flags = flags_of(name.partition("@")[0])
            of_table = table.Known(name, flags, layout.NONE, description.error_rule, programs)
            # a header may declare a function again; the first declaration is kept
            functions.setdefault(name, Added(of.kind, of.file, kept, names, of_table, guessed))
    return functions


def _sets(known: NamedTypes, declarations: Declarations) -> ConstantSets:
    """Return soscope's sets of constants together with those in the declarations."""
    sets = ConstantSets()
    sets.enums = dict(known.enums)
    sets.flags = dict(known.flags)
    sets.values = {**known.values(), **declarations.constants}
    for tag, constants in declarations.enums.items():
        _add(sets, declarations.enum_kind(tag), f"enum {tag}", constants)
    for kind, prefix, where in declarations.prefixes:
        chosen = [
            (value, name)
            for name, value in declarations.constants.items()
            if name.startswith(prefix)
        ]
        if not chosen:
            raise FormatError(f"{where}: no constant begins with '{prefix}'", field=prefix)
        _add(sets, kind, f"{prefix}*", chosen)
    return sets


def _add(sets: ConstantSets, kind: str, name: str, constants: list[tuple[int, str]]) -> None:
    if kind == "ENUM":
        named: dict[int, str] = {}
        for value, constant in constants:
            named.setdefault(value, constant)
        sets.enums[name] = named
        return
    # flags of several bits come first, so that they are printed by one name
    ordered = sorted(constants, key=lambda pair: -pair[0].bit_count())
    sets.flags[name] = [(value, value, constant) for value, constant in ordered]


# Prototypes in files of the user.

_MOST = 16 << 20  # bytes
_LTRACE = ".conf"  # ending of ltrace's files


def add_files(prototypes: Prototypes, paths: Iterable[str]) -> None:
    """Add the declarations in files that the user has named.

    Raises UsageError for a file that cannot be read, FormatError for a file with an error.
    """
    for path in paths:
        if path.endswith(_LTRACE):
            _add_ltrace(prototypes, path)
            continue
        text = SourceText(USER, path, _content(path))
        try:
            prototypes.add(text)
        except FormatError as error:
            if error.hint is None and "is not known" in error.message:
                error.hint = "declare it before in the same file: no file is #included"
            raise


def add_ltrace(prototypes: Prototypes, names: set[str]) -> list[str]:
    """Add the declarations of some functions in ltrace's own files; return their errors.

    A file that is missing, or cannot be read, is skipped.
    """
    notes = []
    for path in (os.path.expanduser("~/.ltrace.conf"), "/etc/ltrace.conf"):
        left = {name for name in names if not prototypes.is_known(name)}
        try:
            content = _content(path) if left else ""
        except UsageError:
            continue  # ignored, because the user did not give this file
        # most files have none of them, and the translator is slow to import
        if any(re.search(rf"\b{re.escape(name)}\s*\(", content) for name in left):
            notes += _translate(prototypes, path, content, left)
    return notes


def _add_ltrace(prototypes: Prototypes, path: str) -> None:
    """Add a file that the user has named. Raises FormatError for its first error."""
    notes = _translate(prototypes, path, _content(path), None)
    if notes:
        raise FormatError(notes[0])


def _translate(
    prototypes: Prototypes, path: str, content: str, names: set[str] | None
) -> list[str]:

    translator = Translator(path, names)
    text = translator.read(content)
    refused: list[FormatError] = []
    try:
        prototypes.add(SourceText(LTRACE, path, text), refused)
    except FormatError as error:
        refused.append(error)
    return [error.message for error in [*translator.faults, *refused]]


def _content(path: str) -> str:
    try:
        with open(path, "rb") as file:
            content = file.read(_MOST + 1)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"--prototypes: cannot read {path}: {reason}") from None
    if len(content) > _MOST:
        raise UsageError(f"--prototypes: {path} has more than 16 MiB")
    # bytes that are not UTF-8 can only be in comments and strings
    return content.decode("utf-8", "replace")


# C declarations from ltrace's configuration files: ltrace.conf(5).
#
# Each line has one item, a prototype or an alias of a type. If C has no word for something, the
# nearest one is taken: `bitvec` becomes hexadecimal, `hide` is printed, and an array whose length
# is in another argument becomes an address, unless its elements are characters.

_TOKEN = re.compile(r"\s*(\.\.\.|[A-Za-z_.$][\w.$@]*|\d\w*|[-+*()\[\],=;])")
_SCALARS = {
    "char": "char",
    "short": "short",
    "ushort": "unsigned short",
    "int": "int",
    "uint": "unsigned int",
    "long": "long",
    "ulong": "unsigned long",
    "float": "float",
    "double": "double",
}
_LENSES = {"oct": "OCTAL", "hex": "HEX", "bool": "BOOL", "bitvec": "HEX", "hide": ""}
_MOST_DEPTH = 16


class _Lens:
    """A type with its format: C's `base`, annotations, and its kind.

    `kind` is "", "string", "struct", "pointer", "array" or "format". `target` is the type to
    which the last three lead. `length` is a tuple (argument or "result", whether it is a limit),
    a number, or None.
    """

    def __init__(self, base: str, words: str = "", kind: str = "") -> None:
        self.base = base
        self.words = words
        self.kind = kind
        self.target: _Lens | None = None
        self.length: tuple[str, bool] | int | None = None


class Translator:
    """Translates the lines of one file to C, for the functions in `names` (None: for all)."""

    def __init__(self, file: str, names: Container[str] | None = None) -> None:
        self.file = file
        self.faults: list[FormatError] = []
        self._names = names
        self._aliases: dict[str, _Lens] = {}
        self._chunks: list[str] = []
        self._tags = 0
        self._tokens: list[str] = []
        self._at = 0

    def read(self, text: str) -> str:
        """Return declarations in C; lines with errors are left out and reported in `faults`."""
        for number, line in enumerate(text.splitlines(), 1):
            said = line.split(";", 1)[0] if line.lstrip().startswith(";") else line
            if not said.strip() or said.lstrip().startswith((";", "#")):
                continue
            if not said.lstrip().startswith("typedef") and not self._is_wanted(said):
                continue
            try:
                self._line(said, number)
            except (FormatError, NotConstantError) as error:
                message = f"{self.file}:{number}: {error}"
                self.faults.append(FormatError(message, field="line"))
        return "\n".join(self._chunks) + "\n"

    def _is_wanted(self, line: str) -> bool:
        if self._names is None:
            return True
        name = line.split("(", 1)[0].split()
        # a lens for the result may have parentheses, too
        words = re.findall(r"[\w.$@]+(?=\s*\()", line)
        return any(word in self._names for word in [*words, *name[-1:]])

    def _line(self, line: str, number: int) -> None:
        self._tokens, at = [], 0
        while match := _TOKEN.match(line, at):
            self._tokens.append(match[1])
            at = match.end()
            if match[1] == ";":
                break
        if self._tokens[-1:] != [";"]:
            raise FormatError(f"not understood: {line[at:].strip()[:40] or 'no ; at the end'}")
        self._tokens += [""] * 3
        self._at = 0
        before = len(self._chunks)
        try:
            if self._accept("typedef"):
                self._alias()
                return
            declaration = self._function()
        except BaseException:
            del self._chunks[before:]
            raise
        file = self.file.replace('"', "_").replace("\\", "_")
        self._chunks.append(f'# {number} "{file}"\n{declaration}')

    # ---- items

    def _alias(self) -> None:
        name = self._word()
        self._expect("=")
        if self._tokens[self._at : self._at + 2] == ["struct", ";"]:  # defined later
            self._aliases[name] = _pointer(_Lens("void"))
            return
        self._aliases[name] = self._lens(0)

    def _function(self) -> str:
        result = self._lens(0)
        name = self._word()
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise FormatError(f"'{name}' is no name that C can have")
        self._expect("(")
        parameters: list[str] = []
        while not self._accept(")"):
            if self._accept("..."):
                parameters.append("...")
            else:
                is_out = self._accept("+")
                lens = self._lens(0)
                if lens.base == "void" and not lens.kind and self._tokens[self._at] == ")":
                    continue  # (void)
                parameters.append(_parameter(lens, f"arg{len(parameters) + 1}", is_out=is_out))
                if lens.kind == "format":
                    parameters.append("...")
            if not self._accept(","):
                self._expect(")")
                break
        base = "char *" if result.kind in ("string", "format") else result.base
        if result.kind in ("pointer", "array"):
            base = "void *"
        named = f"{name}({', '.join(parameters) or 'void'})"
        return f"{_declared(base, named, result.words)};"

    # ---- types

    def _lens(self, depth: int) -> _Lens:
        if depth > _MOST_DEPTH:
            raise FormatError("a type that is too deep")
        lens = self._plain_lens(depth)
        while self._accept("*"):
            lens = _pointer(lens)
        return lens

    def _plain_lens(self, depth: int) -> _Lens:
        word = self._word()
        if word in self._aliases:
            return self._aliases[word]
        if word in _SCALARS or word == "void":
            return _Lens(_SCALARS.get(word, word))
        if word in ("addr", "file", "ignore"):
            return _Lens("FILE *" if word == "file" else "void *")
        if word == "octal":
            return _Lens("unsigned int", "OCTAL")
        if word == "format":
            return _Lens("const char *", kind="format")
        if word in _LENSES:
            inner = self._inside(depth)
            if not inner.kind:  # for other types, the type itself
                known = inner.words if word == "hide" else _LENSES[word]
                return _Lens(inner.base, "" if inner.base in ("float", "double") else known)
            return inner
        if word == "string":
            return self._string(depth)
        if re.fullmatch(r"string\d+", word):
            return self._sized_string(int(word[6:]))
        if word == "array":
            return self._array(depth)
        if word == "struct":
            return self._struct(depth)
        if word == "enum":
            return self._enum()
        raise FormatError(f"type '{word}' is not known")

    def _inside(self, depth: int) -> _Lens:
        self._expect("(")
        lens = self._lens(depth + 1)
        self._expect(")")
        return lens

    def _string(self, depth: int) -> _Lens:
        lens = _Lens("const char *", kind="string")
        if self._accept("["):
            lens.length = self._length()
            self._expect("]")
        elif self._tokens[self._at] == "(":
            inner = self._inside(depth)
            while inner.kind == "pointer" and inner.target is not None:
                inner = inner.target
            lens.length = inner.length
        return lens

    def _sized_string(self, number: int) -> _Lens:
        lens = _Lens("const char *", kind="string")
        lens.length = (f"arg{number}", True) if number else ("result", False)
        return lens

    def _array(self, depth: int) -> _Lens:
        self._expect("(")
        element = self._lens(depth + 1)
        self._expect(",")
        lens = _Lens(element.base, element.words, "array")
        lens.target, lens.length = element, self._length()
        self._expect(")")
        return lens

    def _length(self) -> tuple[str, bool] | int | None:
        word = self._next()
        if word == "zero":
            if self._accept("("):
                inner = self._length()
                self._expect(")")
                return (inner[0], True) if isinstance(inner, tuple) else None
            return None
        if word in ("retval", "arg0"):
            return "result", False
        if re.fullmatch(r"arg\d+", word):
            return word, False
        if re.fullmatch(r"elt\d+", word):
            return None
        return value_of(word, lambda _: None)

    def _struct(self, depth: int) -> _Lens:
        self._expect("(")
        fields: list[str] = []
        while not self._accept(")"):
            field = self._lens(depth + 1)
            name = f"f{len(fields) + 1}"
            if field.kind == "array" and isinstance(field.length, int) and field.target:
                fields.append(f"{_declared(field.base, f'{name}[{field.length}]', field.words)};")
            elif field.kind == "string" and isinstance(field.length, int):
                fields.append(f"char {name}[{field.length}];")
            elif field.kind in ("array", "format"):
                raise FormatError("an array without a number in a structure")
            elif field.kind == "pointer":
                fields.append(f"void *{name};")
            else:
                fields.append(f"{_declared(field.base, name, field.words)};")
            if not self._accept(","):
                self._expect(")")
                break
        self._tags += 1
        tag = f"struct ltrace_{self._tags}"
        self._chunks.append(f"{tag} {{ {' '.join(fields)} }};")
        return _Lens(tag, kind="struct")

    def _enum(self) -> _Lens:
        base = "int"
        if self._accept("["):
            base = _SCALARS.get(self._word(), "")
            self._expect("]")
            if not base or base in ("float", "double"):
                raise FormatError("an enum of another type than an integer")
        self._expect("(")
        constants, value = [], 0
        while not self._accept(")"):
            name = self._word()
            if self._accept("="):
                sign = "-" if self._accept("-") else ""
                value = value_of(sign + self._next(), lambda _: None)
            constants.append(f"{name} = {value}")
            value += 1
            if not self._accept(","):
                self._expect(")")
                break
        self._tags += 1
        tag = f"enum ltrace_{self._tags}"
        self._chunks.append(f"{tag} {{ {', '.join(constants)} }};")
        return _Lens(base, f"ENUM({tag})")

    # ---- tokens

    def _next(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1]

    def _word(self) -> str:
        word = self._next()
        if not (word[:1].isalpha() or word[:1] == "_"):
            raise FormatError(f"name expected before '{word}'")
        return word

    def _accept(self, word: str) -> bool:
        if self._tokens[self._at] != word:
            return False
        self._at += 1
        return True

    def _expect(self, word: str) -> None:
        if not self._accept(word):
            raise FormatError(f"'{word}' expected before '{self._tokens[self._at]}'")


def _pointer(target: _Lens) -> _Lens:
    lens = _Lens("void *", kind="pointer")
    lens.target = target
    return lens


def _parameter(lens: _Lens, name: str, *, is_out: bool) -> str:
    """Return a parameter in C; `is_out` tells that its data at the return are printed."""
    out = " OUT(always)" if is_out else ""
    if lens.kind == "format":
        return f"const char *{name} FORMAT(printf)"
    if lens.kind == "string":
        const = "" if is_out else "const "
        if isinstance(lens.length, tuple):
            length, is_limit = lens.length
            if length == "result" and not is_out:
                return f"const void *{name}"  # not defined yet
            if is_limit:
                return f"{const}char *{name} STRING{out or ' IN'} LIMIT({length})"
            return f"{const}void *{name}{out} BYTES({length})"
        return f"{const}char *{name}{out}"
    if lens.kind == "array" and lens.target is not None:
        if isinstance(lens.length, int) and 0 < lens.length <= 512:
            const = "" if is_out else "const "
            named = f"{name}[{lens.length}]"
            return f"{_declared(f'{const}{lens.base}', named, lens.words)}{out or ' IN'}"
        return f"void *{name}"
    if lens.kind == "pointer" and lens.target is not None:
        target = lens.target
        if target.kind == "array":
            return _parameter(target, name, is_out=is_out)
        if target.kind == "struct" or (not target.kind and target.base not in ("void", "char")):
            if "*" in target.base:
                return f"void **{name}"
            const = "" if is_out else "const "
            return f"{_declared(f'{const}{target.base} *', name, target.words)}{out or ' IN'}"
        return f"void *{name}"
    return _declared(lens.base, name, lens.words)


def _declared(base: str, name: str, words: str) -> str:
    return f"{base}{'' if base.endswith('*') else ' '}{name}{' ' if words else ''}{words}"
