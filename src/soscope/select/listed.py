# SPDX-License-Identifier: Apache-2.0
"""Compiles a list of names to one automaton. A list may have hundreds of names."""

from __future__ import annotations

from soscope.select.automaton import Automaton
from soscope.select.patterns import START

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

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
