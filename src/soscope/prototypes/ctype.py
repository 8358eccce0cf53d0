# SPDX-License-Identifier: Apache-2.0
"""C types and declarations, as far as prototypes need them."""

from __future__ import annotations

from soscope.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


# Sizes are for Linux on x86-64. This module is only used to compile declarations.

VOID = "void"
INT = "int"
FLOAT = "float"  # float and double, by size
LONG_DOUBLE = "long double"
POINTER = "pointer"
STRUCT = "struct"  # or a union
ARRAY = "array"  # `count` times `target`
COMPLEX = "complex"
VECTOR = "vector"  # `count` times `target`, in one register
FUNCTION = "function"

VA_LIST = "va_list"  # in a type's words: it is a va_list, or a typedef of it


class Type:
    """A type: `kind` is a constant of this module, `size` is in bytes.

    `text` is the type as C writes it. `target` is the type to which a pointer points, None if it
    is unknown or a function; for an array it is the type of its `count` elements. `struct` is the
    name of the fields of a structure or union. `is_const` refers to the type itself, not to its
    target. `words` are the annotations that a typedef gave it.
    """

    __slots__ = (
        "count",
        "is_char",
        "is_const",
        "kind",
        "signed",
        "size",
        "struct",
        "target",
        "text",
        "words",
    )

    def __init__(
        self,
        text: str,
        kind: str,
        size: int,
        *,
        signed: bool = False,
        is_char: bool = False,
        is_const: bool = False,
        target: Type | None = None,
        count: int = 0,
        struct: str = "",
        words: dict[str, list[str]] | None = None,
    ) -> None:
        self.count = count
        self.struct = struct
        self.text = text
        self.kind = kind
        self.size = size
        self.signed = signed
        self.is_char = is_char
        self.is_const = is_const
        self.target = target
        self.words = words or {}

    def copy(self, text: str) -> Type:
        """Return the same type under the name `text`."""
        return Type(
            text,
            self.kind,
            self.size,
            signed=self.signed,
            is_char=self.is_char,
            is_const=self.is_const,
            target=self.target,
            count=self.count,
            struct=self.struct,
            words=self.words,
        )


def pointer(target: Type | None, text: str) -> Type:
    """Return the type of a pointer to `target`."""
    return Type(text, POINTER, 8, target=target)


def array(of: Type, count: int) -> Type:
    """Return the type of `count` elements of the type `of`."""
    return Type(of.text, ARRAY, of.size * count, target=of, count=count, is_const=of.is_const)


def vector(of: Type, size: int, text: str = "") -> Type:
    """Return the type of a vector of `size` bytes, whose elements are of the type `of`."""
    text = text or f"{of.text} __attribute__((vector_size({size})))"
    return Type(text, VECTOR, size, target=of, count=size // of.size, is_const=of.is_const)


class Parameter:
    """A parameter: `words` maps an annotation to the tokens between its parentheses.

    `count` is the number of elements of an array parameter, 0 if it is no array. `others` are its
    types under certain conditions, of which the first true one counts.
    """

    __slots__ = ("count", "name", "others", "type", "words")

    def __init__(self, name: str, of: Type, words: dict[str, list[str]], count: int = 0) -> None:
        self.name = name
        self.type = of
        self.words = words
        self.count = count
        self.others: list[Optional] = []


class Decision:
    """The parameter `name` has (`&`) or is (`==`) one of `values`: constants, or numbers."""

    __slots__ = ("name", "operator", "values")

    def __init__(self, name: str, operator: str, values: list[str]) -> None:
        self.name = name
        self.operator = operator
        self.values = values


class Optional(Record):
    """Parameters that exist only if all `conditions` are true."""

    parameters: list[Parameter]
    conditions: list[Decision]


class Function(Record):
    """A declared function; `where` is its file and line, `source` its text on one line."""

    name: str
    result: Type
    parameters: list[Parameter]
    variadic: bool
    optionals: list[Optional]
    words: dict[str, list[str]]
    source: str
    where: str

    def symbols(self) -> list[str]:
        """Return the names that the declaration is for, with ALSO's, and its version if any."""
        names = [self.name, *(name for name in self.words.get("ALSO", []) if name != ",")]
        version = "".join(self.words.get("SYMBOL_VERSION", []))
        return [f"{name}@{version}" for name in names] if version else names


class When(Record):
    """The condition of a field; `tag` is the member that it depends on, None if not known (yet).

    The tag is the member's offset from the start of the structure with the field, and its type.
    """

    decision: Decision
    tag: tuple[int, Type] | None = None

    def moved(self, by: int) -> When:
        """Return the condition with the tag's offset increased by `by` bytes."""
        tag = None if self.tag is None else (self.tag[0] + by, self.tag[1])
        return When(self.decision, tag)


class Field:
    """One field of a structure, `offset` in bytes from its start.

    `bits` is (first bit, width) for a bit-field within the type at that offset, None for all
    others. The field is printed if all conditions in `when` are true.
    """

    __slots__ = ("bits", "name", "offset", "type", "when", "words")

    def __init__(
        self,
        name: str,
        of: Type,
        words: dict[str, list[str]],
        offset: int,
        when: list[When] | None = None,
    ) -> None:
        self.name = name
        self.when = when or []
        self.type = of
        self.words = words
        self.offset = offset
        self.bits: tuple[int, int] | None = None

    def moved(self, by: int) -> Field:
        """Return a copy of the field with all offsets increased by `by` bytes."""
        when = [each.moved(by) for each in self.when]
        field = Field(self.name, self.type, self.words, self.offset + by, when)
        field.bits = self.bits
        return field


class Struct(Record):
    """A structure or union whose fields are printed; `size` and `alignment` are in bytes."""

    name: str
    fields: list[Field]
    size: int
    alignment: int

    @property
    def shown_size(self) -> int:
        """The bytes up to the end of the last printed field; the size if all are printed."""
        shown = [field for field in self.fields if "HIDDEN" not in field.words]
        if len(shown) == len(self.fields):
            return self.size
        return max((field.offset + field.type.size for field in shown), default=0)


# Find the members that decide which other members of a structure are printed.
#
# A condition may name a member of the structure itself, or of a structure around it, because the
# tag of a union mostly stands beside the union. So a union has other fields in each structure with
# conditions for it.


def decide(name: str, structs: dict[str, Struct]) -> str:
    """Find the tags of the structure `name`; return the name of a missing one, or ""."""
    struct = structs[name]
    members = {field.name: field for field in struct.fields if field.bits is None}
    for field in struct.fields:
        field.when = _decided(field.when, members, 0)
        _decide_inside(field, members, field.offset, structs, name)
    return next(_missing(struct, structs), "")


def _decided(when: list[When], members: dict[str, Field], base: int) -> list[When]:
    """Return conditions with their tags, for fields `base` bytes behind the members."""
    return [
        When(each.decision, (member.offset - base, member.type))
        if each.tag is None and (member := members.get(each.decision.name)) is not None
        else each
        for each in when
    ]


def _decide_inside(
    field: Field, members: dict[str, Field], base: int, structs: dict[str, Struct], outer: str
) -> bool:
    """Make a type of its own for a field at `base` bytes, if the members decide about it."""
    if field.type.kind != STRUCT or field.type.struct not in structs:
        return False
    of = structs[field.type.struct]
    name = f"{of.name} in {outer}.{field.name}"
    fields = [each.moved(0) for each in of.fields]
    changed = False
    for each in fields:
        before = each.when
        each.when = _decided(before, members, base)
        changed |= any(old is not new for old, new in zip(before, each.when, strict=True))
        changed |= _decide_inside(each, members, base + each.offset, structs, name)
    if changed:
        structs[name] = Struct(name, fields, of.size, of.alignment)
        field.type = field.type.copy(field.type.text)
        field.type.struct = name
    return changed


def _missing(of: Struct, structs: dict[str, Struct]) -> Iterator[str]:
    for field in of.fields:
        yield from (each.decision.name for each in field.when if each.tag is None)
        if field.type.kind == STRUCT and field.type.struct in structs:
            yield from _missing(structs[field.type.struct], structs)
