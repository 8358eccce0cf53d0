# SPDX-License-Identifier: Apache-2.0
"""The kinds of arguments and results, which tell how each of them is read."""

from __future__ import annotations

import re

from soscope.control.remote.records import PassedRecord
from soscope.prototypes import compiled, describe, formats

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

Kind = str | PassedRecord
# SIGNED is a word whose sign counts. WIDE is an integer of 64 bits on any machine.
WORD, SIGNED, WIDE, DOUBLE, SINGLE, LONGEST = (
    "word",
    "signed",
    "wide",
    "double",
    "single",
    "long double",
)
_EIGHT = 8  # bytes
_SIMPLE = (compiled.PLACE_INT, compiled.PLACE_FLOAT, compiled.PLACE_STACK)
_WIDE_NUMBERS = (b"ll", b"q", b"L", b"j")  # modifiers for 64 bits on any machine
_CONVERSION = re.compile(rb"%[-+ #0'I]*(\*|\d+)?(?:\.(\*|\d*))?(hh|h|ll|l|q|L|j|z|Z|t)?([a-zA-Z%])")


def kinds_of(
    arguments: tuple[compiled.ArgumentRow, ...],
    record_of: Callable[[compiled.ArgumentRow], PassedRecord | None],
) -> list[Kind] | None:
    """Return the kinds of arguments, or None if one is passed in an unknown way."""
    kinds: list[Kind] = []
    for argument in arguments:
        place, (how, size, _, _) = argument[1], argument[3]
        if how == compiled.SHOW_LONG_DOUBLE:
            kinds.append(LONGEST)
        elif how in (compiled.SHOW_STRUCT, compiled.SHOW_COMPLEX):
            record = record_of(argument)
            if record is None:
                return None
            kinds.append(record)
        elif place not in _SIMPLE or size > _EIGHT:
            return None
        elif how == compiled.SHOW_FLOAT or place == compiled.PLACE_FLOAT:
            kinds.append(SINGLE if size == _EIGHT // 2 else DOUBLE)
        else:
            kinds.append(kind_of_word(argument))
    return kinds


def kind_of_result(result: compiled.ArgumentRow) -> str:
    """Return the kind of a result. It is WORD if no register holds the whole result."""
    if result[3][0] == compiled.SHOW_LONG_DOUBLE:
        return LONGEST
    if result[1] == compiled.PLACE_FLOAT:
        return SINGLE if result[3][1] == _EIGHT // 2 else DOUBLE
    return kind_of_word(result) if result[1] == compiled.PLACE_INT else WORD


def kind_of_word(argument: compiled.ArgumentRow) -> str:
    """Return WORD, SIGNED or WIDE for an integer or a pointer."""
    _, size, is_signed, _ = argument[3]
    if size == _EIGHT and not argument[0].endswith("*"):
        if describe.is_wide(argument[0]):
            return WIDE
        if is_signed:
            return SIGNED
    return WORD


def kinds_of_format(taken: list[formats.Taken], text: bytes) -> list[Kind]:
    """Return the kinds of the arguments of a format, up to the first one that is not known.

    The types of the arguments do not tell whether they are wide on any machine, but the format
    does.
    """
    wide = _wide_numbers(text)
    if len(wide) != len(taken):  # there are numbered arguments
        first = text.find(b"$")
        if first >= 0:
            return []
        wide = [False] * len(taken)
    kinds: list[Kind] = []
    for is_wide, (_, (how, size, is_signed, _), *_) in zip(wide, taken, strict=True):
        if how == compiled.SHOW_LONG_DOUBLE:
            kinds.append(LONGEST)
        elif how == compiled.SHOW_FLOAT:
            kinds.append(DOUBLE)
        elif is_wide:
            kinds.append(WIDE)
        else:
            kinds.append(SIGNED if is_signed and size == _EIGHT else WORD)
    return kinds


def _wide_numbers(text: bytes) -> list[bool]:
    """Return for each argument of a format whether it is a wide integer."""
    wide = []
    for width, precision, size, letter in _CONVERSION.findall(text):
        if letter in (b"%", b"m"):
            continue
        wide += [False] * ((width == b"*") + (precision == b"*"))
        wide.append(size in _WIDE_NUMBERS and letter in b"diouxX")
    return wide
