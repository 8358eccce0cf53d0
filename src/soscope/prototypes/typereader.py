# SPDX-License-Identifier: Apache-2.0
"""Read C's types: names, declarators, structures, unions, enums, and annotations."""

from __future__ import annotations

from soscope.errors import FormatError
from soscope.prototypes import catalog, ctype
from soscope.prototypes.cparser import NotConstantError, Tokens, value_of
from soscope.prototypes.ctype import (
    ARRAY,
    COMPLEX,
    FLOAT,
    FUNCTION,
    INT,
    LONG_DOUBLE,
    POINTER,
    STRUCT,
    VECTOR,
    Decision,
    Field,
    Struct,
    Type,
    When,
    array,
    pointer,
    vector,
)
from soscope.prototypes.show import ConstantSets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container

    from soscope.prototypes.parser import Declarations


# The formats of values and structures of C types, as printing needs them.

_MOST_ELEMENTS = 8  # elements of an array in a structure


def how_shown(
    of: Type, words: dict[str, list[str]], sets: ConstantSets, structs: dict[str, Struct]
) -> catalog.Show:
    """Return the format for a value of the type `of`. Raises FormatError."""
    if "ENUM" in words:
        if len(words["ENUM"]) > 1:
            raise FormatError("ENUM by another argument is only for arguments")
        return catalog.SHOW_ENUM, of.size, of.signed, set_named(words["ENUM"][0], sets.enums)
    if "SIGNALS" in words:
        return catalog.SHOW_SIGNALS, 8, False, "signal"
    if "FLAGS" in words:
        how = catalog.SHOW_OCTAL_FLAGS if "OCTAL" in words else catalog.SHOW_FLAGS
        return how, of.size, of.signed, set_named(words["FLAGS"][0], sets.flags)
    if of.kind == POINTER:
        return catalog.SHOW_POINTER, 8, False, ""
    if of.kind == FLOAT:
        return catalog.SHOW_FLOAT, of.size, True, ""
    if of.kind == LONG_DOUBLE:
        return catalog.SHOW_LONG_DOUBLE, of.size, True, ""
    if of.kind == COMPLEX:
        return catalog.SHOW_COMPLEX, of.size, True, ""
    if of.kind in (ARRAY, VECTOR) and of.target is not None:
        return _array(of, of.target, words, structs)
    if of.kind == STRUCT:
        if of.struct not in structs:
            raise FormatError(f"'{of.text}' is not in structs.h", field=of.text.split()[-1])
        return catalog.SHOW_STRUCT, structs[of.struct].size, False, of.struct
    how = catalog.SHOW_DECIMAL
    if "OCTAL" in words:
        how = catalog.SHOW_OCTAL
    elif "HEX" in words:
        how = catalog.SHOW_HEX
    elif "BOOL" in words:
        how = catalog.SHOW_BOOL
    elif "CHAR" in words or of.is_char:
        wide = of.text in ("wchar_t", "wint_t")
        how = catalog.SHOW_WCHAR if wide else catalog.SHOW_CHAR
    return how, of.size, of.signed or "SIGNED" in words, ""


def _array(
    of: Type, element: Type, words: dict[str, list[str]], structs: dict[str, Struct]
) -> catalog.Show:
    if of.kind == ARRAY and element.is_char and not words:
        return catalog.SHOW_TEXT, of.size, False, ""
    # it is printed as a structure whose fields have no names
    name = f"{element.text}[{of.count}] {of.kind} {' '.join(words)}"
    most = of.count if of.kind == VECTOR else min(of.count, _MOST_ELEMENTS)
    fields = [Field("", element, words, number * element.size) for number in range(most)]
    if of.count > most:
        fields.append(Field(catalog.MORE, element, {}, 0))
    structs[name] = Struct(name, fields, of.size, 1)
    return catalog.SHOW_STRUCT, of.size, False, name


def tables(structs: dict[str, Struct], sets: ConstantSets) -> catalog.Structs:
    """Return the formats of the fields of all structures. Raises FormatError.

    Arrays in them become structures of their own, also in `structs`.
    """
    shown: catalog.Structs = {}
    while missing := structs.keys() - shown.keys():
        for name in sorted(missing):
            fields = structs[name].fields
            seen = [field for field in fields if "HIDDEN" not in field.words]
            if len(seen) < len(fields):
                seen.append(Field(catalog.MORE, fields[0].type, {}, 0))
            shown[name] = tuple(
                (field.name, field.offset, _field(field, sets, structs), _when(field, sets))
                for field in seen
            )
    return shown


def _field(field: Field, sets: ConstantSets, structs: dict[str, Struct]) -> catalog.Show:
    how, size, signed, detail = how_shown(
        field.type, {**field.type.words, **field.words}, sets, structs
    )
    if field.bits is not None:
        first, width = field.bits
        detail = f"{first}:{width}:{how}:{detail}"
        how = catalog.SHOW_BITS
    return how, size, signed, detail


def _when(field: Field, sets: ConstantSets) -> catalog.When:
    """Return the conditions under which a field is printed; unknown ones count as true."""
    return tuple(
        (each.tag[0], each.tag[1].size, each.decision.operator, _values(each.decision, sets))
        for each in field.when
        if each.tag is not None
    )


def _values(decision: Decision, sets: ConstantSets) -> tuple[int, ...]:
    return tuple(value_named(text, sets) for text in decision.values)


def value_named(text: str, sets: ConstantSets) -> int:
    """Return the value of a constant or number. Raises FormatError if it is unknown."""
    if text in sets.values:
        return sets.values[text]
    try:
        return int(text, 0)
    except ValueError:
        raise FormatError(f"constant '{text}' is not in constants.txt", field=text) from None


def set_named(name: str, known: Container[str]) -> str:
    """Return `name` if it is the name of a set. Raises FormatError if it is not."""
    if name not in known:
        raise FormatError(f"there is no set '{name}' of this kind", field=name)
    return name


# Read C's types: names, declarators, and the fields of structures, unions and enums.

_QUALIFIERS = {"const", "volatile", "restrict", "__restrict", "__restrict__", "__const", "_Atomic"}
_NUMBER_WORDS = {
    "signed",
    "__signed__",
    "unsigned",
    "char",
    "short",
    "int",
    "long",
    "float",
    "double",
    "_Complex",
}
_TAGGED = ("struct", "union", "enum")
_BITS_OF_INT = 31
_MOST_ELEMENTS_TYPEREADER = 1 << 24

# Annotations, and whether parentheses follow.
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
    "HIDDEN": False,
    "ELEMENTS": True,
    "SIGNALS": False,
    "DESCRIPTORS": True,
    "IN": False,
    "OUT": True,
    "BYTES": True,
    "LIMIT": True,
    "CXX_STRING": False,
    "FOLLOW": False,
    "FOLLOW_UNLESS_0": True,
    "FOLLOW_UNLESS_SAME": False,
    "FOLLOW_NAMED": False,
    "FORMAT": True,
    "FIELDS_BY": True,
    "WHEN": True,
    "SYMBOL_VERSION": True,
    "OPTIONAL": True,
    "WORDS": True,
    "FAILS": True,
    "ERRNO": True,
    "ALSO": True,
    "GUESSED": True,
}


class Declarator:
    """What follows a type: a name (or ""), the full type, the number of elements of an array.

    `bits` is the width of a bit-field. `parameters` is the index of a function's first parameter,
    None if it is no function. `token` is the index of its name, None if it has none.
    """

    __slots__ = ("bits", "count", "name", "parameters", "token", "type")

    def __init__(self, name: str, of: Type, count: int = 0) -> None:
        self.name = name
        self.type = of
        self.count = count
        self.bits: int | None = None
        self.parameters: int | None = None
        self.token: int | None = None


class CTypeReader(Tokens):
    """Reads types into `into`."""

    def __init__(self, into: Declarations, text: str, file: str) -> None:
        super().__init__(text, file)
        self.into = into
        into.constants.update(self.constants)
        self.inside = 0  # nesting depth of structures

    def name(self) -> str:
        """Take a name. Raises FormatError."""
        word = self.tokens[self.at]
        if not self.is_name() or word in ANNOTATIONS:
            raise self.fail(f"name expected {self.before()}")
        self.at += 1
        return word

    def annotations(self) -> dict[str, list[str]]:
        """Take the annotations at this position."""
        words: dict[str, list[str]] = {}
        while (word := self.tokens[self.at]) in ANNOTATIONS and word not in ("OPTIONAL", "WHEN"):
            self.at += 1
            if word == "OUT" and self.tokens[self.at] != "(":
                words[word] = []  # reported later, with the function's name
                continue
            words[word] = self.group() if ANNOTATIONS[word] else []
            if word == "ENUM" and words[word][:1] == ["enum"] and words[word][1] in self.into.enums:
                tag = words.pop(word)[1]
                words[self.into.enum_kind(tag)] = [f"enum {tag}"]
            elif word in ("ENUM", "FLAGS") and words[word][1:] == ["*"]:
                prefix = words[word][0]
                words[word] = [prefix + "*"]
                self.into.prefixes.append((word, prefix, self.place(self.at - 1)))
        return words

    def base_type(self) -> Type:
        """Take the type at the start of a declaration."""
        is_const = False
        self.vector_size = None
        words: list[str] = []
        named: Type | None = None
        while True:
            self.decoration()
            word = self.tokens[self.at]
            if word in _QUALIFIERS:
                is_const |= word in ("const", "__const")
                self.at += 1
            elif word in _NUMBER_WORDS and named is None:
                words.append(word.strip("_") if word == "__signed__" else word)
                self.at += 1
            elif named is None and not words and word in _TAGGED:
                self.at += 1
                named = self.tagged(word)
            elif named is None and not words:
                name = self.name()
                # An unknown name is fine as long as only pointers to it are used.
                known = self.into.types.get(name, Type(name, STRUCT, 0))
                named = known.copy(name)
            else:
                break
        base = self.whole(named or self.number(words))
        base.is_const = is_const
        return base

    def whole(self, of: Type) -> Type:
        """Return a vector of type `of` if an attribute has just asked for it, otherwise `of`."""
        if self.vector_size is None:
            return of
        words, self.vector_size = self.vector_size, None
        sized: list[str] = []
        while words:
            word, *words = words
            if word == "sizeof" and words[:1] == ["("] and ")" in words:
                end = words.index(")")
                word, words = str(self.size_of(words[1:end])), words[end + 1 :]
            sized.append(word)
        try:
            size = value_of(" ".join(sized), self.known_constant)
        except NotConstantError as error:
            raise self.fail(str(error)) from None
        is_whole = of.kind in (INT, FLOAT) and size > 0 and not size % of.size
        if not is_whole or size.bit_count() > 1:
            raise self.fail(f"a vector of {size} bytes of '{of.text}'")
        return vector(of, size)

    def size_of(self, words: list[str]) -> int:
        """Return the size of the type named by `words`."""
        if words and all(word in _NUMBER_WORDS for word in words):
            return self.number(words).size
        name = "".join(words)
        if name not in self.into.types:
            raise self.fail(f"type '{' '.join(words)}' is not known")
        return self.into.types[name].size

    def number(self, words: list[str]) -> Type:
        """Return the numeric type named by `words`."""
        text = " ".join(words)
        if "_Complex" in words:
            size = 16 if "long" in words else 4 if "float" in words else 8
            return Type(text, COMPLEX, 2 * size)
        if "double" in words:
            return Type(text, LONG_DOUBLE, 16) if "long" in words else Type(text, FLOAT, 8)
        if "float" in words:
            return Type(text, FLOAT, 4)
        is_char = words == ["char"]
        size = 1 if "char" in words else 2 if "short" in words else 8 if "long" in words else 4
        return Type(text, INT, size, signed="unsigned" not in words, is_char=is_char)

    # ---- declarators

    def declarator(self, base: Type) -> Declarator:
        """Take everything behind a type: stars, name, brackets, parentheses."""
        of = base
        while True:
            self.decoration()
            if self.accept("*"):
                of = pointer(None if of.kind == FUNCTION else of, pointer_text(of))
            elif self.tokens[self.at] in _QUALIFIERS:
                of.is_const |= self.tokens[self.at] in ("const", "__const")
                self.at += 1
            else:
                break
        is_named = self.tokens[self.at + 2 : self.at + 4] == [")", "("]  # (f)(int): a name
        if self.tokens[self.at] == "(" and (self.tokens[self.at + 1] in ("*", "(") or is_named):
            return self.nested(of)
        token = self.at if self.is_name() and self.tokens[self.at] not in ANNOTATIONS else None
        declared = Declarator("" if token is None else self.name(), of)
        declared.token = token
        self.decoration()
        if self.tokens[self.at] == "(":
            declared.parameters = self.at
        elif self.tokens[self.at] == "[":
            declared.type, declared.count = self.brackets(of)
        elif self.tokens[self.at] == ":" and self.accept(":"):
            declared.bits = self.constant((",", ";"))
        self.decoration()
        if declared.parameters is None:
            declared.type = self.whole(declared.type)
        return declared

    def nested(self, base: Type) -> Declarator:
        """Take a declarator in parentheses; what stands behind them applies to it first."""
        start = self.at
        is_named = self.tokens[start + 1] != "*" and self.tokens[start + 2] == ")"
        self.group()
        if is_named and self.tokens[self.at] == "(":
            self.at = start + 1
            declared = Declarator(self.name(), base)
            declared.token = self.at - 1
            self.expect(")")
            declared.parameters = self.at
            return declared
        if self.tokens[self.at] == "(":
            arguments = " ".join(self.group()).replace(" ,", ",").replace("* ", "*")
            text = f"{_const_text(base)} (*)({arguments})"
            inside = Type(text, FUNCTION, 0)
        elif self.tokens[self.at] == "[":
            inside, _ = self.brackets(base)
        else:
            inside = base
        end, self.at = self.at, start + 1
        declared = self.declarator(inside)
        if declared.parameters is not None:
            self.group()
        self.expect(")")
        self.at = end
        return declared

    def brackets(self, of: Type) -> tuple[Type, int]:
        """Take the sizes of an array; return its type and its number of elements."""
        counts = []
        while self.accept("["):
            while self.tokens[self.at] in _QUALIFIERS or self.tokens[self.at] == "static":
                self.at += 1
            counts.append(0 if self.tokens[self.at] == "]" else self.constant(("]",)))
            self.expect("]")
            if counts[-1] < 0 or counts[-1] > _MOST_ELEMENTS_TYPEREADER:
                raise self.fail(f"an array of {counts[-1]} elements")
        for count in reversed(counts):
            of = array(of, count)
        return of, counts[0]

    def constant(self, ends: tuple[str, ...]) -> int:
        """Take a constant expression, up to one of the tokens `ends`. Raises FormatError."""
        start, depth = self.at, 0
        while (word := self.tokens[self.at]) and (depth or word not in ends):
            depth += (word == "(") - (word == ")")
            self.at += 1
        try:
            return value_of(" ".join(self.tokens[start : self.at]), self.known_constant)
        except NotConstantError as error:
            raise self.fail(str(error)) from None

    def known_constant(self, name: str) -> int | None:
        """Return the value of a constant of this or an earlier file."""
        return self.into.constants.get(name)

    def value(self) -> Declarator:
        """Take a declarator for a value, whose type must be known."""
        declared = self.declarator(self.base_type())
        self.check(declared)
        return declared

    def check(self, declared: Declarator) -> None:
        """Raise FormatError if a type that must have a size is unknown."""
        of = declared.type
        while of.kind == ARRAY and of.target is not None:
            of = of.target
        if of.kind == STRUCT and not of.size and of.text not in self.into.empty:
            what = f"type '{of.text}' of '{declared.name}' is not known"
            raise self.fail(what) if declared.token is None else self.fault(declared.token, what)

    # ---- conditions

    def conditions(self) -> list[Decision]:
        """Take conditions joined by `&&`, and the parenthesis behind them."""
        conditions = [self.condition()]
        while self.accept("&&"):
            conditions.append(self.condition())
        self.expect(")")
        return conditions

    def condition(self) -> Decision:
        """Take `name & A | B` or `name == A | B`."""
        name = self.name()
        operator = self.tokens[self.at]
        if operator not in ("&", "=="):
            raise self.fail(f"'&' or '==' expected before '{operator}'")
        self.at += 1
        values = [self.deciding()]
        while self.accept("|"):
            values.append(self.deciding())
        return Decision(name, operator, values)

    def deciding(self) -> str:
        """Take a constant or a number."""
        sign = "-" if self.accept("-") else ""
        if sign or self.tokens[self.at][:1].isdigit():
            self.at += 1
            return sign + self.tokens[self.at - 1]
        return self.name()

    # ---- structures, unions, enums

    def tagged(self, what: str) -> Type:
        """Take the tag of a structure, union or enum, and its fields if they follow."""
        start = self.at
        self.decoration()
        attributes = self.tokens[start : self.at]
        tag = self.name() if self.is_name() else self.into.anonymous()
        if self.tokens[self.at] == "{":
            if what == "enum":
                self.enumeration(tag)
            else:
                self.record(what, tag, attributes + self.behind())
        if what == "enum":
            return self.enum_type(tag)
        struct = self.into.structs.get(tag)
        shown = f"{what} {tag}" if tag[:1] != "<" else f"{what} {{…}}"
        return Type(shown, STRUCT, struct.size if struct else 0, struct=tag)

    def enum_type(self, tag: str) -> Type:
        """Return the type of an enum, even if its constants are not known."""
        text = f"enum {tag}" if tag[:1] != "<" else "enum {…}"
        known = self.into.enums.get(tag)
        if known is None:
            return Type(text, INT, 4)
        values = [value for value, _ in known]
        size = 8 if any(not -(1 << 31) <= value < 1 << 32 for value in values) else 4
        signed = any(value < 0 for value in values)
        words = {self.into.enum_kind(tag): [f"enum {tag}"]}
        return Type(text, INT, size, signed=signed, words=words)

    def enumeration(self, tag: str) -> None:
        """Take the constants of an enum."""
        self.expect("{")
        value = 0
        known: list[tuple[int, str]] = []
        while not self.accept("}"):
            name = self.name()
            if self.accept("="):
                value = self.constant((",", "}"))
            known.append((value, name))
            self.into.constants[name] = value
            value += 1
            if not self.accept(","):
                self.expect("}")
                break
        self.into.enums[tag] = known

    def record(self, what: str, tag: str, attributes: list[str]) -> None:
        """Take the fields of a structure or union."""
        if any("aligned" in word for word in attributes):
            raise self.fail(f"'{what} {tag}' is aligned by force, which is not supported")
        packed = any("packed" in word for word in attributes)
        self.expect("{")
        self.inside += 1
        layout = _Layout(is_union=what == "union")
        while not self.accept("}"):
            if self.accept(";"):
                continue
            base = self.base_type()
            if self.tokens[self.at] in (";", "WHEN") and base.struct:
                # it has the fields of this structure
                self.check(Declarator("", base))
                offset = layout.place(base, 1 if packed else self.alignment(base))
                moved = [field.moved(offset) for field in self.into.structs[base.struct].fields]
                for condition in self.when():
                    for field in moved:
                        field.when.append(condition)
                layout.fields += moved
            while not self.accept(";"):
                declared = self.declarator(base)
                self.check(declared)
                if declared.parameters is not None:
                    raise self.fail("a function in a structure")
                words = self.annotations()
                when = self.when()
                words.update(self.annotations())
                if packed and declared.bits is not None:
                    raise self.fail(f"bit-fields of '{what} {tag}', which is packed")
                alignment = 1 if packed else self.alignment(declared.type)
                layout.add(declared, words, alignment, when)
                if not self.accept(","):
                    self.expect(";")
                    break
        self.decoration()
        size = layout.size + -layout.size % layout.alignment
        self.into.structs[tag] = Struct(tag, layout.fields, size, layout.alignment)
        self.inside -= 1
        missing = ctype.decide(tag, self.into.structs)
        if missing and what == "struct" and not self.inside:
            raise self.fail(f"'{missing}' is no member of 'struct {tag}'")
        if not size:
            self.into.empty.add(f"{what} {tag}")

    def when(self) -> list[When]:
        """Take the conditions under which a member is printed."""
        if not self.accept("WHEN"):
            return []
        self.expect("(")
        return [When(condition) for condition in self.conditions()]

    def behind(self) -> list[str]:
        """Return the attributes behind the fields of a structure, which begin here."""
        start = self.at
        try:
            self.group()
        except FormatError:  # reported better there
            self.at = start
            return []
        end = self.at
        self.decoration()
        attributes = self.tokens[end : self.at]
        self.at = start
        return attributes

    def alignment(self, of: Type) -> int:
        """Return the alignment of a type in bytes."""
        if of.kind == ARRAY and of.target is not None:
            return self.alignment(of.target)
        if of.kind == STRUCT:
            struct = self.into.structs.get(of.struct)
            return struct.alignment if struct is not None else 1
        return of.size // 2 if of.kind == COMPLEX else max(of.size, 1)


class _Layout:
    """Places fields into a structure or union, by the rules of the System V psABI."""

    def __init__(self, *, is_union: bool) -> None:
        self.is_union = is_union
        self.fields: list[Field] = []
        self.size = 0
        self.alignment = 1
        self._end = 0  # end of the last field, in bits

    def place(self, of: Type, alignment: int) -> int:
        self.alignment = max(self.alignment, alignment)
        offset = 0 if self.is_union else (self._end + 7) // 8
        offset += -offset % alignment
        self._grow(8 * (offset + of.size))
        return offset

    def add(
        self,
        declared: Declarator,
        words: dict[str, list[str]],
        alignment: int,
        when: list[When],
    ) -> None:
        of = declared.type
        if declared.bits is None:
            offset = self.place(of, alignment)
            if declared.name:
                self.fields.append(Field(declared.name, of, words, offset, when))
            return
        start, unit = 0 if self.is_union else self._end, 8 * of.size
        # a bit-field without width begins a new unit, and no bit-field crosses units
        if not declared.bits or start // unit != (start + declared.bits - 1) // unit:
            start += -start % unit
        self._grow(start + declared.bits)
        if declared.name and declared.bits:
            self.alignment = max(self.alignment, alignment)
            first = start // unit * of.size
            field = Field(declared.name, of, words, first, when)
            field.bits = (start - 8 * first, declared.bits)
            self.fields.append(field)

    def _grow(self, end: int) -> None:
        self._end = end
        self.size = max(self.size, (end + 7) // 8)


def _const_text(of: Type) -> str:
    plain = of.is_const and of.kind != POINTER and not of.text.startswith("const ")
    return f"const {of.text}" if plain else of.text


def pointer_text(of: Type) -> str:
    """Return the type of a pointer to `of`, as C writes it."""
    if of.kind == FUNCTION:
        return of.text
    text = _const_text(of)
    return text + "*" if text.endswith("*") else text + " *"
