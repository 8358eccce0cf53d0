# SPDX-License-Identifier: Apache-2.0
"""Compile globs, POSIX basic regular expressions and lists of names into automata.

The agent knows no pattern language: a pattern becomes a deterministic, minimal automaton over
bytes (struct sosc_automaton in wire.h) that accepts a whole name. This module reads globs and
bracket expressions, and bre.py reads POSIX basic regular expressions. soscope does not use `re`
and `fnmatch`, because they take longer to import than the automata take, and because the agent
could not run their patterns.
"""

from __future__ import annotations

from struct import pack

from soscope.errors import UsageError
from soscope.model.record import Record
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


# Makes a pattern deterministic and minimal.
#
# A pattern comes as *positions*. A position is a place at which the pattern consumes a byte, with
# the set of bytes that it takes and the set of positions that may come next (`patterns.py` and
# `bre.py` make them). Sets of bytes and sets of positions are plain ints used as bit sets. This
# makes the construction fast enough for every start of soscope.
#
# The cost of a pattern is limited. It is refused above `MAX_STATES` states, or after `MAX_WORK`
# steps.

MAX_STATES = 4096
MAX_CELLS = 1 << 18  # of the table: states times classes
MAX_WORK = 1 << 21  # steps of the construction, about a second

DEAD = 0  # the state from which nothing is accepted
START = 1

ANY_BYTE = (1 << 256) - 1

# (class of each byte, number of classes, next state by state and class, accept by state)
Tables = tuple[bytes, int, list[int], bytes]


class Positions(Record):
    """A pattern as positions, from which `build` makes an automaton.

    `sets[i]` is the set of bytes that position i takes, and `follow[i]` is the set of positions
    that may come after it. `first` is the set of positions that may come first. `accept` is the
    set of positions that stand for the end of the name, and their byte sets are 0. If
    `first_accepts` is set, the empty name matches.
    """

    pattern: str
    sets: list[int]
    follow: list[int]
    first: int
    accept: int
    first_accepts: bool


def too_complex(pattern: str) -> UsageError:
    """Return the error for a pattern that costs too much."""
    return UsageError(
        f"pattern '{pattern}': too complex",
        hint=f"its automaton would need more than {MAX_STATES} states; use several simpler ones",
        slug="pattern",
    )


def build(positions: Positions) -> Tables:
    """Return the tables of a pattern. Raises UsageError if they cost too much."""
    class_of, members = _byte_classes(positions.sets)
    rows, accept = _subsets(positions, members)
    table, accepts = _minimal(rows, accept)
    return bytes(class_of), len(members), table, accepts


def literal(pattern: str, text: bytes) -> Tables:
    """Return the tables of a pattern that is the plain text `text`.

    They need no construction, because each prefix is a state. Most patterns are plain names.
    Raises UsageError if the tables cost too much.
    """
    class_of = bytearray(256)
    for number, byte in enumerate(dict.fromkeys(text), 1):
        class_of[byte] = number
    classes, states = max(class_of) + 1, len(text) + 2
    if states > MAX_STATES or states * classes > MAX_CELLS:
        raise too_complex(pattern)
    table = [DEAD] * (states * classes)
    for at, byte in enumerate(text, START):
        table[at * classes + class_of[byte]] = at + 1
    return bytes(class_of), classes, table, bytes(states - 1) + b"\1"


def _byte_classes(sets: list[int]) -> tuple[bytearray, list[int]]:
    """Group the bytes that no set distinguishes into classes.

    Return the class of every byte and, by class, the bit set of the positions that take its
    bytes. Class 0 is the class with the most bytes.
    """
    distinct: dict[int, int] = {}  # byte set -> positions
    for index, byte_set in enumerate(sets):
        distinct[byte_set] = distinct.get(byte_set, 0) | 1 << index
    everywhere = distinct.pop(ANY_BYTE, 0)
    distinct.pop(0, None)
    parts = [(ANY_BYTE, everywhere)]
    for byte_set, where in distinct.items():
        refined = []
        for part, positions in parts:
            inside = part & byte_set
            if not inside:
                refined.append((part, positions))
                continue
            refined.append((inside, positions | where))
            if inside != part:
                refined.append((part & ~byte_set, positions))
        parts = refined
    largest = max(range(len(parts)), key=lambda i: parts[i][0].bit_count())
    parts[0], parts[largest] = parts[largest], parts[0]
    class_of = bytearray(256)
    for number in range(1, len(parts)):
        part = parts[number][0]
        while part:
            top = part.bit_length() - 1
            class_of[top] = number
            part ^= 1 << top
    return class_of, [positions for _, positions in parts]


def _subsets(positions: Positions, members: list[int]) -> tuple[list[list[int]], list[bool]]:
    """Follow all sets of positions that can be reached. Return rows and accept flags.

    Each set is a state, and its row has the next state for each class. The first row is the dead
    state's.
    """
    follow, end = positions.follow, positions.accept
    classes = len(members)
    work = MAX_WORK
    numbers = {0: DEAD}
    stepped: dict[int, int] = {0: DEAD}  # positions that took a byte -> next state
    sets = [0, positions.first]
    rows: list[list[int]] = [[DEAD] * classes]
    accept = [False, positions.first_accepts]
    # The start is entered only once, because anchors may make it differ from all later sets.
    state = START
    while state < len(sets):
        here = sets[state]
        row = []
        for member in members:
            took = here & member
            target = stepped.get(took)
            if target is None:
                reached, rest = 0, took
                while rest:
                    bit = rest & -rest
                    reached |= follow[bit.bit_length() - 1]
                    rest ^= bit
                    work -= 1
                target = numbers.get(reached)
                if target is None:
                    target = numbers[reached] = len(sets)
                    sets.append(reached)
                    accept.append(reached & end != 0)
                stepped[took] = target
            row.append(target)
        rows.append(row)
        state += 1
        work -= classes
        if work < 0 or len(sets) > MAX_STATES or len(sets) * classes > MAX_CELLS:
            raise too_complex(positions.pattern)
    return rows, accept


def _distances(rows: list[list[int]], accept: list[bool]) -> list[int]:
    """Return the length of the shortest rest that each state accepts, -1 if there is none."""
    before: list[list[int]] = [[] for _ in rows]
    for state, row in enumerate(rows):
        for target in set(row):
            before[target].append(state)
    distance = [-1] * len(rows)
    front = [state for state, accepts in enumerate(accept) if accepts]
    steps = 0
    while front:
        for state in front:
            distance[state] = steps
        steps += 1
        front = [s for state in front for s in before[state] if distance[s] < 0]
        front = list(dict.fromkeys(front))
    return distance


def _minimal(rows: list[list[int]], accept: list[bool]) -> tuple[list[int], bytes]:
    """Merge states that accept the same rests (Moore's algorithm).

    The first partition is by the states' distances to acceptance, instead of by accept alone.
    This is correct as well, and a pattern that is mostly literal needs no refinement.
    """
    block = _distances(rows, accept)
    block = [distance + 1 for distance in block]  # dead states are in block 0
    count = len(set(block))
    while count < len(rows):
        signatures: dict[tuple[int, ...], int] = {}
        refined = []
        for state, row in enumerate(rows):
            signature = (block[state], *[block[target] for target in row])
            refined.append(signatures.setdefault(signature, len(signatures)))
        block = refined
        if len(signatures) == count:
            break
        count = len(signatures)
    # Number the blocks: the dead state is 0, the start is 1, the others follow in order. The start
    # keeps a number of its own even if nothing matches and it is as dead as state 0.
    number = {block[DEAD]: DEAD}
    if block[START] != block[DEAD]:
        number[block[START]] = START
    chosen = [DEAD, START]
    for state in range(2, len(rows)):
        if block[state] not in number:
            number[block[state]] = len(chosen)
            chosen.append(state)
    table: list[int] = []
    for state in chosen:
        table += [number[block[target]] for target in rows[state]]
    return table, bytes([accept[state] for state in chosen])


# Bracket expressions: `[a-z]`, `[!_]`, `[[:alpha:]]`. Globs and regular expressions share them.
#
# A name is a string of bytes. Classes and ranges are defined by the C locale (POSIX.1
# base definitions 9.3.5). A character outside ASCII stands for each of its bytes.


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


def parse_bracket(text: bytes, at: int, *, negations: bytes, escapes: bool) -> tuple[int, int]:
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


# Shell patterns as positions: `*`, `?`, `[..]`, and a backslash in front of any byte.
#
# A backslash also escapes in brackets. `*` and `?` match every byte, also a leading dot and a
# slash, because symbols and sonames are not paths. `[^..]` negates like `[!..]`, as in glibc.

_STAR = -1
_SPECIAL = frozenset(b"*?[\\")
_MOST_BYTES = 255  # more would leave no class for other bytes


def glob_literal(pattern: str) -> bytes | None:
    """Return the only name that a glob matches, None if it may match several."""
    text = pattern.encode("utf-8", "surrogateescape")
    different = set(text)
    return text if different.isdisjoint(_SPECIAL) and len(different) <= _MOST_BYTES else None


def parse_glob(pattern: str) -> Positions:
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
            byte_set, at = parse_bracket(text, at - 1, negations=b"!^", escapes=True)
            tokens.append(byte_set)
        elif byte == 0x5C and at < size:  # backslash
            tokens.append(1 << text[at])
            at += 1
        else:
            tokens.append(1 << byte)
    return tokens


_HEAD = layout.AUTOMATON.size


def compile_glob(pattern: str) -> Automaton:
    r"""Compile a shell pattern: `*`, `?`, `[a-z]`, `[!a-z]`, `[[:alpha:]]`, `\x`.

    Raises UsageError for an unfinished bracket, or a pattern that is too complex.
    """
    name = glob_literal(pattern)
    if name is not None:
        return Automaton(pattern, *literal(pattern, name))
    return Automaton(pattern, *build(parse_glob(pattern)))


def compile_bre(pattern: str) -> Automaton:
    r"""Compile a POSIX basic regular expression that has to match the whole name.

    GNU's `\|`, `\+`, `\?` are understood. Raises UsageError for a faulty expression, a
    back-reference, or an expression that is too complex.
    """
    from soscope.select import bre  # few runs need it

    return Automaton(pattern, *build(bre.parse(pattern)))


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
        state = START
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
