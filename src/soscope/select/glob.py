# SPDX-License-Identifier: Apache-2.0
"""Shell patterns as positions: `*`, `?`, `[..]`, and a backslash in front of any byte.

A backslash also escapes in brackets. `*` and `?` match every byte, also a leading dot and a
slash, because symbols and sonames are not paths. `[^..]` negates like `[!..]`, as in glibc.
"""

from __future__ import annotations

from soscope.select import bracket
from soscope.select.patterns import ANY_BYTE, Positions

_STAR = -1
_SPECIAL = frozenset(b"*?[\\")
_MOST_BYTES = 255  # more would leave no class for other bytes


def literal(pattern: str) -> bytes | None:
    """Return the only name that a glob matches, None if it may match several."""
    text = pattern.encode("utf-8", "surrogateescape")
    different = set(text)
    return text if different.isdisjoint(_SPECIAL) and len(different) <= _MOST_BYTES else None


def parse(pattern: str) -> Positions:
    """Parse a glob. Raises UsageError if a bracket is not closed."""
    tokens = _tokens(pattern.encode("utf-8", "surrogateescape"))
    size = len(tokens)
    # Position `size` is the end. A star is a position that takes any byte and may be skipped. To
    # enter it is therefore to enter the position after it, too.
    enter = [0] * size + [1 << size]
    for index in range(size - 1, -1, -1):
        enter[index] = 1 << index
        if tokens[index] == _STAR:
            enter[index] |= enter[index + 1]
    follow = [
        enter[index] if token == _STAR else enter[index + 1] for index, token in enumerate(tokens)
    ]
    sets = [ANY_BYTE if token == _STAR else token for token in tokens]
    return Positions(
        pattern,
        [*sets, 0],
        [*follow, 0],
        enter[0],
        1 << size,
        first_accepts=enter[0] >> size != 0,
    )


def _tokens(text: bytes) -> list[int]:
    """Return one byte set for each position. A run of stars is one `_STAR`."""
    tokens: list[int] = []
    at, size = 0, len(text)
    while at < size:
        byte = text[at]
        at += 1
        if byte == 0x2A:  # *
            if not tokens or tokens[-1] != _STAR:
                tokens.append(_STAR)
        elif byte == 0x3F:  # ?
            tokens.append(ANY_BYTE)
        elif byte == 0x5B:  # [
            byte_set, at = bracket.parse(text, at - 1, negations=b"!^", escapes=True)
            tokens.append(byte_set)
        elif byte == 0x5C and at < size:  # backslash
            tokens.append(1 << text[at])
            at += 1
        else:
            tokens.append(1 << byte)
    return tokens
