# SPDX-License-Identifier: Apache-2.0
"""The types of a declared function, from its row for printing."""

from __future__ import annotations

from soscope.model.call import (
    FLOATING,
    INTEGER,
    RECORD,
    SSE,
    UNKNOWN,
    VOID,
    WORD,
    X87,
    X87UP,
    PassedType,
    Signature,
)
from soscope.prototypes import row


def signature_of(of: row.FunctionRow) -> Signature:
    """Return the types of one function."""
    _, arguments, optionals, tail, result, *_ = of
    is_listed = tail.startswith(row.TAIL_LISTED)
    is_words = tail.startswith(row.TAIL_WORDS)
    return Signature(
        tuple(map(_passed, arguments)),
        PassedType("void", VOID) if result is None else _passed(result),
        is_variadic=bool(optionals or (tail and not is_listed)),
        tails=tuple(tuple(map(_passed, optional[-1])) for optional in optionals),
        words=int(tail.removeprefix(row.TAIL_WORDS)) if is_words else 0,
    )


def _passed(argument: row.ArgumentRow) -> PassedType:
    text, place, _, (how, size, *_), *_ = argument
    if how == row.SHOW_FLOAT:
        return PassedType(text, FLOATING, size, (SSE,))
    if how == row.SHOW_LONG_DOUBLE:
        return PassedType(text, FLOATING, size, (X87, X87UP))
    if how == row.SHOW_STRUCT:
        # in one register, or unknown
        is_word = size <= 8 and place in (row.PLACE_INT, row.PLACE_STACK)
        return PassedType(text, RECORD if is_word else UNKNOWN, size, (INTEGER,) * is_word)
    if size not in (1, 2, 4, 8):
        return PassedType(text, UNKNOWN, size)
    return PassedType(text, WORD, size, (INTEGER,))
