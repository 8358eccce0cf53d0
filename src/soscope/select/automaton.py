# SPDX-License-Identifier: Apache-2.0
"""Compile globs, POSIX basic regular expressions and lists of names into what the agent runs.

The agent knows no pattern language: a pattern becomes a deterministic automaton over
bytes (struct sosc_automaton in wire.h) that accepts a whole name. `re` and `fnmatch`
are not used: they would cost more start-up than the automata do, and the agent could
not run them.
"""

from __future__ import annotations

from struct import pack

from soscope.select import patterns
from soscope.select.patterns import START
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


_HEAD = layout.AUTOMATON.size


def compile_glob(pattern: str) -> Automaton:
    r"""Compile a shell pattern: `*`, `?`, `[a-z]`, `[!a-z]`, `[[:alpha:]]`, `\x`.

    Raises UsageError for an unfinished bracket, or a pattern that is too complex.
    """
    name = patterns.glob_literal(pattern)
    if name is not None:
        return Automaton(pattern, *patterns.literal(pattern, name))
    return Automaton(pattern, *patterns.build(patterns.parse_glob(pattern)))


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


# Compiles a list of names to one automaton. A list may have hundreds of names.

_ALL = b"*"  # any rest is accepted
_ANYTHING = frozenset((_ALL,))


def compile_names(names: Iterable[str], text: str = "") -> Automaton:
    """Compile a list of names. A name that ends in `*` stands for all names that begin like it.

    All other characters stand for themselves. `text` is the pattern that the user wrote for the
    names.
    """
    wanted = frozenset(name.encode("utf-8", "surrogateescape") for name in names)
    letters = sorted({byte for name in wanted for byte in name})
    class_of = bytearray(256)  # class 0: bytes that no name has
    for number, byte in enumerate(letters, 1):
        class_of[byte] = number
    classes = len(letters) + 1
    # A state is the set of rests that it accepts. Names with the same end share the states of the
    # end.
    states = {frozenset[bytes](): 0, wanted: START}
    rows: list[frozenset[bytes]] = [frozenset(), wanted]
    table: list[int] = []
    for number, rest in enumerate(rows):  # the list grows meanwhile
        if rest == _ANYTHING:
            table += [number] * classes
            continue
        following: dict[int, set[bytes]] = {}
        for name in rest:
            if name:
                following.setdefault(name[0], set()).add(name[1:])
        row = [0] * classes
        for byte, tails in sorted(following.items()):  # all runs make the same table
            key = _ANYTHING if _ALL in tails else frozenset(tails)
            if key not in states:
                states[key] = len(rows)
                rows.append(key)
            row[class_of[byte]] = states[key]
        table += row
    accept = bytes(b"" in rest or rest == _ANYTHING for rest in rows)
    return Automaton(text, bytes(class_of), classes, table, accept)


def either(first: Automaton, second: Automaton) -> Automaton:
    """Return an automaton that accepts the names that either of two automata accepts."""
    pairs: dict[tuple[int, int], int] = {}
    class_of = bytearray(256)
    for byte in range(256):
        pair = first.class_of[byte], second.class_of[byte]
        class_of[byte] = pairs.setdefault(pair, len(pairs))
    states = {(0, 0): 0, (START, START): START}
    rows = list(states)
    table: list[int] = []
    for left, right in rows:  # the list grows meanwhile
        for mine, other in pairs:
            key = (
                first.next[left * first.classes + mine],
                second.next[right * second.classes + other],
            )
            if key not in states:
                states[key] = len(rows)
                rows.append(key)
            table.append(states[key])
    accept = bytes(first.accept[left] | second.accept[right] for left, right in rows)
    return Automaton(first.pattern, bytes(class_of), len(pairs), table, accept)
