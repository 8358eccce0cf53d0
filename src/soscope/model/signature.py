# SPDX-License-Identifier: Apache-2.0
"""The types of a function's arguments and result, as far as its callers' code depends on them.

Signedness, qualifiers and what pointers lead to make no difference to a call. They are kept only
in the text of a type.
"""

from __future__ import annotations

# Kinds of types. Equal bytes in equal registers can still mean different things.
VOID = "void"
WORD = "word"  # an integer, character, enum or pointer
FLOATING = "floating"
COMPLEX = "complex"
VECTOR = "vector"
RECORD = "record"  # a struct, union or class by value
UNKNOWN = "unknown"  # its size or its registers are not known

# Classes of eight bytes (System V psABI x86-64, 3.2.3 "Parameter Passing").
INTEGER = "INTEGER"
SSE = "SSE"
SSEUP = "SSEUP"
X87 = "X87"
X87UP = "X87UP"
COMPLEX_X87 = "COMPLEX_X87"
MEMORY = "MEMORY"  # on the stack; a result: where a hidden first argument points

# One value inside a record: offset and size in bytes, classes, alignment.
Piece = tuple[int, int, tuple[str, ...], int]


class PassedType:
    """The type of an argument or result: its `size` in bytes and the classes of its eightbytes.

    `kind` is a constant of this module. `text` is the type as C writes it.
    """

    __slots__ = ("classes", "kind", "size", "text")

    def __init__(self, text: str, kind: str, size: int = 0, classes: tuple[str, ...] = ()) -> None:
        self.text = text
        self.kind = kind
        self.size = size
        self.classes = classes

    def __repr__(self) -> str:
        """Return a text with all fields."""
        return f"<{self.text}: {self.kind} {self.size} {'+'.join(self.classes)}>"

    @property
    def is_known(self) -> bool:
        """Return whether it is known how a call passes this type."""
        return self.kind != UNKNOWN

    def fits(self, other: PassedType) -> bool:
        """Return whether a call passes both types alike; true if one of them is not known."""
        if not self.is_known or not other.is_known:
            return True
        if (self.size, self.classes) != (other.size, other.classes):
            return False
        return self.kind == other.kind or RECORD in (self.kind, other.kind)


class Signature:
    """A function's types; `arguments` is None if nothing is known about them.

    A variadic function takes further arguments behind these. `tails` are the lists of further
    arguments that the function takes. `words` is the largest number of further words of unknown
    type that it takes. If both are empty, it takes any.
    """

    __slots__ = ("arguments", "is_variadic", "result", "tails", "words")

    def __init__(
        self,
        arguments: tuple[PassedType, ...] | None,
        result: PassedType,
        *,
        is_variadic: bool = False,
        tails: tuple[tuple[PassedType, ...], ...] = (),
        words: int = 0,
    ) -> None:
        self.arguments = arguments
        self.result = result
        self.is_variadic = is_variadic
        self.tails = tails
        self.words = words

    @property
    def is_known(self) -> bool:
        """Return whether all its types are known."""
        if self.arguments is None or not self.result.is_known:
            return False
        return all(argument.is_known for argument in self.arguments)

    @property
    def taken(self) -> str:
        """The arguments as C writes them."""
        if self.arguments is None:
            return "()"
        texts = [argument.text for argument in self.arguments]
        if self.is_variadic:
            texts.append("...")
        return f"({', '.join(texts) or 'void'})"
