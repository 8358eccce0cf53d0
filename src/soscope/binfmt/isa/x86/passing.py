# SPDX-License-Identifier: Apache-2.0
"""The registers that pass a value: System V psABI of x86-64, 3.2.3 "Parameter Passing".

<https://gitlab.com/x86-psABIs/x86-64-ABI>
"""

from __future__ import annotations

from soscope.model.call import (
    COMPLEX,
    COMPLEX_X87,
    FLOATING,
    INTEGER,
    MEMORY,
    SSE,
    SSEUP,
    VECTOR,
    WORD,
    X87,
    X87UP,
    Piece,
)

POINTER = 8  # bytes
_EIGHT = 8
_IN_REGISTERS = 16  # bytes of the largest record in registers
_LONG_DOUBLE = ("long double", "_Float64x", "__float80")
_QUAD = ("_Float128", "__float128")


def scalar_classes(kind: str, size: int, name: str) -> tuple[str, ...]:
    """Return the classes of a scalar of `size` bytes with type `name`, () if not known."""
    if kind == WORD:
        return {1: (INTEGER,), 2: (INTEGER,), 4: (INTEGER,), 8: (INTEGER,), 16: (INTEGER,) * 2}.get(
            size, ()
        )
    if kind == FLOATING:
        return _floating_classes(size, name)
    if kind == COMPLEX:
        by_size: dict[int, tuple[str, ...]] = {8: (SSE,), 16: (SSE, SSE)}
        if size == 32 and "long double" in name:
            return (COMPLEX_X87,)
        return by_size.get(size, ())
    if kind == VECTOR:  # larger ones: it depends on compiler options
        return {8: (SSE,), 16: (SSE, SSEUP)}.get(size, ())
    return ()


def _floating_classes(size: int, name: str) -> tuple[str, ...]:
    if size in (2, 4, 8):
        return (SSE,)
    if size == 16 and name in _LONG_DOUBLE:
        return X87, X87UP
    if size == 16 and name in _QUAD:
        return SSE, SSEUP
    return ()


def is_in_memory(size: int) -> bool:
    """Return whether a call always passes a record of this size, without vectors, in memory."""
    return size > _IN_REGISTERS


def record_classes(size: int, pieces: list[Piece]) -> tuple[str, ...]:
    """Return the classes of a record of at most 16 bytes, () if not known, as for an empty one."""
    classes = [""] * -(-size // _EIGHT)
    for offset, width, parts, alignment in pieces:
        if offset % alignment:
            return (MEMORY,)
        for number, part in enumerate(_spread(offset, width, parts)):
            at = offset // _EIGHT + number
            if at >= len(classes):
                return ()
            classes[at] = _merged(classes[at], part)
    if MEMORY in classes:
        return (MEMORY,)
    for at, part in enumerate(classes):
        before = classes[at - 1] if at else ""
        if part == X87UP and before != X87:
            return (MEMORY,)
        if part == SSEUP and before not in (SSE, SSEUP):
            classes[at] = SSE
    return tuple(classes) if all(classes) else ()


def _spread(offset: int, width: int, parts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the class of each eightbyte that a piece touches."""
    if len(parts) > 1:
        return parts
    return parts * ((offset % _EIGHT + width + _EIGHT - 1) // _EIGHT)


def _merged(left: str, right: str) -> str:
    if left == right or not right:
        return left
    if not left:
        return right
    if MEMORY in (left, right):
        return MEMORY
    if INTEGER in (left, right):
        return INTEGER
    if {left, right} & {X87, X87UP, COMPLEX_X87}:
        return MEMORY
    return SSE
