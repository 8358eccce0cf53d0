# SPDX-License-Identifier: Apache-2.0
"""Locations of arguments and results, by the System V psABI for x86-64 (3.2.3).

Integers and pointers are in six registers, float and double in eight, structures of up to 16
bytes in two of either kind. long double, larger structures, and arguments for which no register
is left are on the stack, in words of eight bytes above the return address.
"""

from __future__ import annotations

from soscope.binfmt.isa.x86 import passing
from soscope.errors import FormatError
from soscope.model import call
from soscope.model.call import INTEGER, MEMORY, SSE, X87, Piece
from soscope.prototypes import row
from soscope.prototypes.ctype import (
    ARRAY,
    COMPLEX,
    FLOAT,
    LONG_DOUBLE,
    STRUCT,
    VECTOR,
    VOID,
    Struct,
    Type,
)

_INT_REGISTERS = 6
_FLOAT_REGISTERS = 8
_EIGHT = 8
_MOST_ON_STACK = 255  # words that the agent can capture
_MOST_PIECES = 64
_VECTORS = (16, 32, 64)  # sizes of one register in bytes


class ArgumentPlaces:
    """Assigns locations, argument by argument."""

    __slots__ = ("floats", "integers", "stack", "structs")

    def __init__(self, structs: dict[str, Struct]) -> None:
        self.structs = structs
        self.integers = 0
        self.floats = 0
        self.stack = 0

    def copy(self) -> ArgumentPlaces:
        """Return a copy of the state, for an alternative list of arguments."""
        other = ArgumentPlaces(self.structs)
        other.integers, other.floats, other.stack = self.integers, self.floats, self.stack
        return other

    def later(self, other: ArgumentPlaces) -> None:
        """Continue behind the arguments of both states."""
        self.integers = max(self.integers, other.integers)
        self.floats = max(self.floats, other.floats)
        self.stack = max(self.stack, other.stack)

    def argument(self, of: Type) -> tuple[int, int]:
        """Return the location of the next argument, and its index there. Raises FormatError."""
        whole = whole_vector(of, self.structs)
        if whole is not None:
            return self._vector(whole)
        if of.kind in (STRUCT, COMPLEX):
            return self._record(of)
        if of.kind == LONG_DOUBLE:
            return row.PLACE_STACK, self._on_stack(2, 2)
        if of.kind == FLOAT and self.floats < _FLOAT_REGISTERS:
            self.floats += 1
            return row.PLACE_FLOAT, self.floats - 1
        if of.kind != FLOAT and self.integers < _INT_REGISTERS:
            self.integers += 1
            return row.PLACE_INT, self.integers - 1
        return row.PLACE_STACK, self._on_stack(1, 1)

    def result(self, of: Type) -> tuple[int, int]:
        """Return the location of the result; one in memory uses the first integer register.

        Raises FormatError.
        """
        whole = whole_vector(of, self.structs)
        if whole is not None and whole.size in _VECTORS:
            return row.PLACE_VECTOR, 0
        if of.kind == FLOAT or whole is not None:
            return row.PLACE_FLOAT, 0
        if of.kind == LONG_DOUBLE:
            return row.PLACE_RESULT, row.SECOND_X87
        if of.kind not in (STRUCT, COMPLEX):
            return row.PLACE_INT, 0
        classes = classes_of(of, self.structs)
        if classes == (INTEGER,):
            return row.PLACE_INT, 0
        if MEMORY in classes:
            self.integers += 1
            return row.PLACE_MEMORY, 0
        if X87 in classes or call.COMPLEX_X87 in classes:
            return row.PLACE_RESULT, row.SECOND_X87
        integers = floats = 0
        codes = []
        for each in classes:
            if each == INTEGER:
                codes.append(integers)
                integers += 1
            else:
                codes.append(row.SECOND_FLOAT + floats)
                floats += 1
        return row.PLACE_RESULT, row.packed(codes)

    def _vector(self, of: Type) -> tuple[int, int]:
        if self.floats == _FLOAT_REGISTERS:
            words = of.size // _EIGHT
            return row.PLACE_STACK, self._on_stack(words, words)
        self.floats += 1
        place = row.PLACE_VECTOR if of.size in _VECTORS else row.PLACE_FLOAT
        return place, self.floats - 1

    def _record(self, of: Type) -> tuple[int, int]:
        classes = classes_of(of, self.structs)
        integers, floats = classes.count(INTEGER), classes.count(SSE)
        in_registers = (
            integers + floats == len(classes)
            and self.integers + integers <= _INT_REGISTERS
            and self.floats + floats <= _FLOAT_REGISTERS
        )
        if not in_registers:
            alignment = 2 if alignment_of(of, self.structs) > _EIGHT else 1
            return row.PLACE_STACK, self._on_stack(-(-of.size // _EIGHT), alignment)
        codes = []
        for each in classes:
            if each == INTEGER:
                codes.append(self.integers)
                self.integers += 1
            else:
                codes.append(row.SECOND_FLOAT + self.floats)
                self.floats += 1
        if classes == (INTEGER,):
            return row.PLACE_INT, codes[0]
        return row.PLACE_REGISTERS, row.packed(codes)

    def _on_stack(self, words: int, alignment: int) -> int:
        # 16-byte alignment counts from the first stack argument, which has it
        at = self.stack + -self.stack % alignment
        self.stack = at + words
        if self.stack > _MOST_ON_STACK:
            raise FormatError("more than 2 KiB of arguments")
        return at


def whole_vector(of: Type, structs: dict[str, Struct]) -> Type | None:
    """Return the vector type of a type, or of a structure with only a vector; None for others.

    Vectors larger than an SSE register are in AVX registers, which assumes that the compiler may
    use AVX. Raises FormatError for vectors of a size that no register has.
    """
    whole: Type | None = of
    while whole is not None and whole.kind == STRUCT:
        fields = structs[whole.struct].fields if whole.struct in structs else []
        whole = fields[0].type if len(fields) == 1 and fields[0].type.size == of.size else None
    if whole is None or whole.kind != VECTOR:
        return None
    if whole.size != _EIGHT and whole.size not in _VECTORS:
        raise FormatError(f"a vector of {whole.size} bytes by value")
    return whole


def classes_of(of: Type, structs: dict[str, Struct]) -> tuple[str, ...]:
    """Return the classes of the eightbytes of a structure or complex number.

    Raises FormatError if its fields are not known.
    """
    if of.kind == COMPLEX:
        return passing.scalar_classes(call.COMPLEX, of.size, of.text)
    if passing.is_in_memory(of.size):
        return (MEMORY,)
    pieces: list[Piece] = []
    _collect(of, 0, structs, pieces)
    classes = passing.record_classes(of.size, pieces)
    if not classes:
        raise FormatError(f"a '{of.text}' by value, which is empty")
    return classes


def alignment_of(of: Type, structs: dict[str, Struct]) -> int:
    """Return the alignment of a structure or complex number in bytes."""
    if of.kind == COMPLEX:
        return of.size // 2
    return structs[of.struct].alignment if of.struct in structs else 1


def _collect(of: Type, base: int, structs: dict[str, Struct], pieces: list[Piece]) -> None:
    if len(pieces) > _MOST_PIECES:
        return
    if of.kind == ARRAY and of.target is not None:
        for number in range(min(of.count, 16)):
            _collect(of.target, base + number * of.target.size, structs, pieces)
        return
    if of.kind == STRUCT:
        if of.struct not in structs:
            raise FormatError(f"'{of.text}' is not known")
        for field in structs[of.struct].fields:
            if field.bits is None:
                _collect(field.type, base + field.offset, structs, pieces)
            else:  # by its own width, in any unit
                first, width = field.bits
                start = base + field.offset + first // 8
                end = base + field.offset + (first + width + 7) // 8
                pieces.append((start, end - start, (INTEGER,), 1))
        return
    if of.kind == VOID:
        return
    kind = {
        VECTOR: call.VECTOR,
        FLOAT: call.FLOATING,
        LONG_DOUBLE: call.FLOATING,
        COMPLEX: call.COMPLEX,
    }
    name = "long double" if of.kind == LONG_DOUBLE else of.text
    classes = passing.scalar_classes(kind.get(of.kind, call.WORD), of.size, name)
    alignment = of.size // 2 if of.kind == COMPLEX else of.size
    pieces.append((base, of.size, classes, alignment))
