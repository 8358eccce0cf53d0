# SPDX-License-Identifier: Apache-2.0
"""Library of an ordinal of the two-level name space, or the reason why it has none."""

from __future__ import annotations

from collections.abc import Sequence

SELF = 0
MAIN_EXECUTABLE = -1
FLAT_LOOKUP = -2
WEAK_LOOKUP = -3

# The reasons why a bind record, or a symbol, has no library.
REASONS = {
    SELF: "bound to this image itself",
    MAIN_EXECUTABLE: "looked up in the main executable",
    FLAT_LOOKUP: "flat look-up: the first loaded image that has it",
    WEAK_LOOKUP: "weak coalescing: the first definition among all loaded images",
}
NO_RECORD = "no record names a library"
UNBOUND = "no record binds it"
NOT_TWO_LEVEL = "flat name space: the image is not linked with two levels"
DEFINED_HERE = "defined in this image"
NO_SUCH_ORDINAL = "the library's ordinal is beyond the libraries of the image"

# Special ordinals of a symbol table (nlist) are unsigned 8-bit numbers; bind records have others.
_SYMBOL_DYNAMIC_LOOKUP = 0xFE
_SYMBOL_EXECUTABLE = 0xFF


def of_symbol(description: int) -> int:
    """Return the ordinal in a symbol's `n_desc`, converted to an ordinal of bind records."""
    ordinal = description >> 8 & 0xFF
    if ordinal == _SYMBOL_DYNAMIC_LOOKUP:
        return FLAT_LOOKUP
    return MAIN_EXECUTABLE if ordinal == _SYMBOL_EXECUTABLE else ordinal


def library(ordinal: int | None, libraries: Sequence[str]) -> str:
    """Return the install name of an ordinal's library, "" if it has none."""
    if ordinal is None or not 0 < ordinal <= len(libraries):
        return ""
    return libraries[ordinal - 1]


def reason(ordinal: int | None, libraries: Sequence[str]) -> str:
    """Return why an ordinal has no library, "" if it has one."""
    if ordinal is None:
        return NO_RECORD
    if ordinal in REASONS:
        return REASONS[ordinal]
    return "" if 0 < ordinal <= len(libraries) else NO_SUCH_ORDINAL
