# SPDX-License-Identifier: Apache-2.0
"""Bracket expressions: `[a-z]`, `[!_]`, `[[:alpha:]]`. Globs and regular expressions share them.

A name is a string of bytes. Classes and ranges are those of the C locale (POSIX.1 base
definitions 9.3.5). A character outside ASCII stands for each of its bytes.
"""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.select.patterns import ANY_BYTE


def _span(first: int, last: int) -> int:
    """Return the set of the bytes from `first` to `last`, both included."""
    return (1 << last + 1) - (1 << first)


_UPPER = _span(0x41, 0x5A)
_LOWER = _span(0x61, 0x7A)
_DIGIT = _span(0x30, 0x39)

CLASSES = {
    b"alnum": _UPPER | _LOWER | _DIGIT,
    b"alpha": _UPPER | _LOWER,
    b"blank": 1 << 0x20 | 1 << 0x09,
    b"cntrl": _span(0, 0x1F) | 1 << 0x7F,
    b"digit": _DIGIT,
    b"graph": _span(0x21, 0x7E),
    b"lower": _LOWER,
    b"print": _span(0x20, 0x7E),
    b"punct": _span(0x21, 0x7E) & ~(_UPPER | _LOWER | _DIGIT),
    b"space": 1 << 0x20 | _span(0x09, 0x0D),
    b"upper": _UPPER,
    b"xdigit": _DIGIT | _span(0x41, 0x46) | _span(0x61, 0x66),
}


def error(text: bytes, reason: str) -> UsageError:
    """Return the error for a faulty pattern."""
    return UsageError(f"pattern '{shown(text)}': {reason}", slug="pattern")


def shown(text: bytes) -> str:
    """Return the pattern as the user wrote it."""
    return text.decode("utf-8", "surrogateescape")


def parse(text: bytes, at: int, *, negations: bytes, escapes: bool) -> tuple[int, int]:
    """Parse the bracket expression that begins with the `[` at index `at`.

    `negations` are the bytes that may negate it. With `escapes`, a byte after a backslash stands
    for itself. Return the set of bytes and the index after the closing bracket.
    """
    size = len(text)
    start = at + 1
    negated = start < size and text[start] in negations
    if negated:
        start += 1
    at = start
    members = 0
    while True:
        if at >= size:
            raise error(text, "'[' without ']'")
        if text[at] == 0x5D and at > start:  # a ] in first place stands for itself
            at += 1
            break
        if text[at] == 0x5B and text[at + 1 : at + 2] == b":":
            named, at = _class(text, at)
            members |= named
            continue
        first, at = _element(text, at, escapes=escapes)
        if text[at : at + 1] == b"-" and text[at + 1 : at + 2] not in (b"]", b""):
            last, at = _element(text, at + 1, escapes=escapes)
            if last < first:
                raise error(text, "a range in [..] runs backwards")
            members |= _span(first, last)
        else:
            members |= 1 << first
    return (ANY_BYTE & ~members if negated else members), at


def _class(text: bytes, at: int) -> tuple[int, int]:
    """Parse the class `[:name:]` at index `at`."""
    end = text.find(b":]", at + 2)
    named = CLASSES.get(text[at + 2 : end]) if end >= 0 else None
    if named is None:
        raise error(text, "unknown class in [..]")
    return named, end + 2


def _element(text: bytes, at: int, *, escapes: bool) -> tuple[int, int]:
    """Parse one end of a range: a byte, `[.x.]` or `[=x=]`."""
    if escapes and text[at] == 0x5C:
        if at + 1 == len(text):
            raise error(text, "'[' without ']'")
        return text[at + 1], at + 2
    if text[at] == 0x5B and text[at + 1 : at + 2] in (b".", b"="):
        mark = text[at + 1]
        if text[at + 3 : at + 5] != bytes((mark, 0x5D)):
            raise error(text, "only one byte can stand in [.x.] and [=x=]")
        return text[at + 2], at + 5
    return text[at], at + 1
