# SPDX-License-Identifier: Apache-2.0
"""Compile globs and POSIX basic regular expressions into automata that the agent runs.

The agent knows no pattern language. A pattern becomes a deterministic automaton over bytes
(struct sosc_automaton in wire.h) that accepts a whole name. `re` and `fnmatch` are not used,
because they would cost more start-up time than the automata, and the agent could not run them.
"""

from __future__ import annotations

from struct import pack

from soscope.select import glob, patterns
from soscope.wire import layout

_HEAD = layout.AUTOMATON.size


def compile_glob(pattern: str) -> Automaton:
    r"""Compile a shell pattern: `*`, `?`, `[a-z]`, `[!a-z]`, `[[:alpha:]]`, `\x`.

    Raises UsageError for an unfinished bracket, or a pattern that is too complex.
    """
    name = glob.literal(pattern)
    if name is not None:
        return Automaton(pattern, *patterns.literal(pattern, name))
    return Automaton(pattern, *patterns.build(glob.parse(pattern)))


def compile_bre(pattern: str) -> Automaton:
    r"""Compile a POSIX basic regular expression that has to match the whole name.

    GNU's `\|`, `\+`, `\?` are understood. Raises UsageError for a faulty expression, a
    back-reference, or an expression that is too complex.
    """
    from soscope.select import bre  # few runs need it

    return Automaton(pattern, *patterns.build(bre.parse(pattern)))


class Automaton:
    """A minimal deterministic automaton over bytes.

    `next` has a row for each of the `states` states, and a row has a next state for each of the
    `classes` classes of bytes. `class_of` has the class of every byte. `accept` has one byte for
    each state, 1 if the state accepts. State 0 is dead, and state 1 is the start. Immutable by
    convention.
    """

    __slots__ = ("accept", "class_of", "classes", "next", "pattern", "states")

    def __init__(
        self, pattern: str, class_of: bytes, classes: int, table: list[int], accept: bytes
    ) -> None:
        self.pattern = pattern
        self.class_of = class_of
        self.classes = classes
        self.next = table
        self.accept = accept
        self.states = len(accept)

    def matches(self, name: bytes) -> bool:
        """Return whether the whole of `name` matches, in the same way as the agent."""
        state = patterns.START
        table, classes, class_of = self.next, self.classes, self.class_of
        for byte in name:
            state = table[state * classes + class_of[byte]]
            if not state:
                return False
        return self.accept[state] == 1

    def pack(self) -> bytes:
        """Return the automaton as struct sosc_automaton with its tables, padded to 4 bytes."""
        cells = self.states * self.classes
        next_size = 2 * cells
        out = b"".join(
            (
                pack("<HHII", self.states, self.classes, _HEAD + next_size, _HEAD),
                self.class_of,
                pack(f"<{cells}H", *self.next),
                self.accept,
            )
        )
        return out + bytes(-len(out) % 4)


def pack_patterns(patterns: list[Automaton]) -> bytes:
    """Return the content of SEC_PATTERNS: number of patterns, their offsets, the automata."""
    bodies = [pattern.pack() for pattern in patterns]
    offset = 4 + 4 * len(bodies)
    offsets = []
    for body in bodies:
        offsets.append(offset)
        offset += len(body)
    return pack(f"<{1 + len(bodies)}I", len(bodies), *offsets) + b"".join(bodies)
