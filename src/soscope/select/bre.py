# SPDX-License-Identifier: Apache-2.0
r"""POSIX basic regular expressions (POSIX.1 base definitions 9.3) as positions.

It accepts `.`, `*`, `[..]`, `\(..\)`, `\{m,n\}`, GNU's `\|`, `\+`, `\?`, `\w \W \s \S`, and the
anchors `^` and `$` where POSIX treats them as anchors. As in glibc, it depends on the place
whether a character is special: a `*` that has nothing to repeat is an ordinary character.
Back-references are refused, because no automaton can follow them.

An expression is parsed into a tree. The tree becomes a network of nodes that consume a byte or
nothing (Thompson's construction). The nodes that can be reached without consuming a byte are
collected into the sets of positions that `patterns.py` needs.
"""

from __future__ import annotations

from soscope.select import patterns
from soscope.select.patterns import ANY_BYTE, Positions, too_complex

MAX_NODES = 2000
MAX_REPEAT = 255  # RE_DUP_MAX of POSIX; glibc's own is 32767
MAX_NESTING = 50

_WORD = patterns.CLASSES[b"alnum"] | 1 << 0x5F
_SPACE = patterns.CLASSES[b"space"]
_SPECIAL = {
    0x77: _WORD,  # \w
    0x57: ANY_BYTE & ~_WORD,
    0x73: _SPACE,  # \s
    0x53: ANY_BYTE & ~_SPACE,
}

# Kinds of trees.
SET, CAT, ALT, REPEAT, BEGIN, END = range(6)


class Tree:
    """A part of an expression: a byte set, a sequence, a choice, a repetition, or an anchor.

    `least` and `most` are the limits of a REPEAT. `most` is None if there is no upper limit.
    """

    __slots__ = ("byte_set", "kind", "least", "most", "parts")

    def __init__(
        self,
        kind: int,
        parts: list[Tree] | None = None,
        *,
        byte_set: int = 0,
        counts: tuple[int, int | None] = (1, 1),
    ) -> None:
        self.kind = kind
        self.parts = parts or []
        self.byte_set = byte_set
        self.least, self.most = counts


def _set(byte_set: int) -> Tree:
    """Return the tree for one byte of a set."""
    return Tree(SET, byte_set=byte_set)


def parse(pattern: str) -> Positions:
    """Parse an expression. Raises UsageError with the reason if it is faulty."""
    text = pattern.encode("utf-8", "surrogateescape")
    parser = _Parser(text)
    tree = parser.alternatives(0)
    if parser.at < len(text):
        raise patterns.error(text, r"'\)' without '\('")
    return _Network(pattern).positions(tree)


class _Parser:
    """Recursive descent over the bytes of the expression."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.at = 0

    def alternatives(self, nesting: int) -> Tree:
        if nesting > MAX_NESTING:
            raise patterns.error(self.text, "too many nested groups")
        branches = [self.branch(nesting)]
        while self.text[self.at : self.at + 2] == b"\\|":
            self.at += 2
            branches.append(self.branch(nesting))
        return branches[0] if len(branches) == 1 else Tree(ALT, branches)

    def branch(self, nesting: int) -> Tree:
        """Parse up to `\\|`, `\\)` or the end."""
        text = self.text
        trees: list[Tree] = []
        if text[self.at : self.at + 1] == b"^":
            self.at += 1
            trees.append(Tree(BEGIN))
        repeats = -1  # repetitions of the last tree, -1 if it cannot be repeated
        while self.at < len(text):
            byte = text[self.at]
            pair = text[self.at : self.at + 2]
            if pair in (b"\\|", b"\\)"):
                break
            if byte == 0x24 and text[self.at + 1 : self.at + 3] in (b"", b"\\|", b"\\)"):
                self.at += 1
                trees.append(Tree(END))
                repeats = -1
                continue
            counts = self.repetition(pair)
            if counts is None:
                trees.append(self.atom(byte, nesting))
                repeats = 0
            elif repeats >= 0:
                trees[-1] = Tree(REPEAT, [trees[-1]], counts=counts)
                repeats += 1
                if repeats > MAX_NESTING:
                    raise patterns.error(text, "too many repetitions of one thing")
            elif pair == b"\\{":
                raise patterns.error(text, r"nothing to repeat before '\{'")
            else:  # a literal *, + or ?
                trees.append(_set(1 << text[self.at - 1]))
                repeats = 0
        return trees[0] if len(trees) == 1 else Tree(CAT, trees)

    def repetition(self, pair: bytes) -> tuple[int, int | None] | None:
        """Parse a repetition. Return its limits, None if there is none here."""
        if pair[:1] == b"*":
            self.at += 1
            return 0, None
        if pair == b"\\+":
            self.at += 2
            return 1, None
        if pair == b"\\?":
            self.at += 2
            return 0, 1
        if pair == b"\\{":
            return self.interval()
        return None

    def interval(self) -> tuple[int, int | None]:
        """Parse `\\{m\\}`, `\\{m,\\}`, `\\{m,n\\}` or `\\{,n\\}`."""
        end = self.text.find(b"\\}", self.at)
        if end < 0:
            raise patterns.error(self.text, r"'\{' without '\}'")
        low, comma, high = self.text[self.at + 2 : end].partition(b",")
        self.at = end + 2
        if (low and not low.isdigit()) or (high and not high.isdigit()) or not (low or comma):
            raise patterns.error(self.text, r"'\{..\}' wants numbers")
        if len(low) > 5 or len(high) > 5:
            raise patterns.error(self.text, f"more than {MAX_REPEAT} repetitions")
        least = int(low or b"0")
        most: int | None = least
        if comma:
            most = int(high) if high else None
        if most is not None and most < least:
            raise patterns.error(self.text, r"'\{m,n\}' with n below m")
        if max(least, most or 0) > MAX_REPEAT:
            raise patterns.error(self.text, f"more than {MAX_REPEAT} repetitions")
        return least, most

    def atom(self, byte: int, nesting: int) -> Tree:
        text = self.text
        if byte == 0x5B:  # [
            byte_set, self.at = patterns.parse_bracket(text, self.at, negations=b"^", escapes=False)
            return _set(byte_set)
        if byte == 0x5C:  # backslash
            return self.escaped(nesting)
        self.at += 1
        return _set(ANY_BYTE if byte == 0x2E else 1 << byte)

    def escaped(self, nesting: int) -> Tree:
        text = self.text
        if self.at + 1 >= len(text):
            raise patterns.error(text, "a single backslash at the end")
        byte = text[self.at + 1]
        self.at += 2
        if byte == 0x28:  # \(
            tree = self.alternatives(nesting + 1)
            if text[self.at : self.at + 2] != b"\\)":
                raise patterns.error(text, r"'\(' without '\)'")
            self.at += 2
            return tree
        if 0x31 <= byte <= 0x39:
            raise patterns.error(text, f"back-reference '\\{byte - 0x30}' is not supported")
        if byte in b"bB<>":
            raise patterns.error(text, f"'\\{chr(byte)}' is not supported")
        if byte == 0x60:  # \` is GNU's begin, \' its end, wherever they stand
            return Tree(BEGIN)
        if byte == 0x27:
            return Tree(END)
        return _set(_SPECIAL.get(byte, 1 << byte))


class _Network:
    """Thompson's network. A node takes a byte of its set, or leads to other nodes without a byte.

    `free[i]` are the nodes that node i leads to without a byte. `sets[i]` is the byte set of node
    i, 0 if it takes no byte. If it takes one, `then[i]` is its successor. The node of an anchor
    leads on only at the beginning, or only at the end, of a name.
    """

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.sets: list[int] = []
        self.then: list[int] = []
        self.free: list[list[int]] = []
        self.begin: dict[int, int] = {}  # node -> its successor at the beginning of a name
        self.end: dict[int, int] = {}

    def node(self, byte_set: int = 0, then: int = 0) -> int:
        if len(self.sets) >= MAX_NODES:
            raise too_complex(self.pattern)
        self.sets.append(byte_set)
        self.then.append(then)
        self.free.append([])
        return len(self.sets) - 1

    def add(self, tree: Tree, after: int) -> int:
        """Add the nodes of a tree in front of node `after`. Return their entry node."""
        kind = tree.kind
        if kind == SET:
            return self.node(tree.byte_set, after)
        if kind == CAT:
            for part in reversed(tree.parts):
                after = self.add(part, after)
            return after
        if kind == ALT:
            entries = [self.add(part, after) for part in tree.parts]
            entry = self.node()
            self.free[entry] = entries
            return entry
        if kind == REPEAT:
            return self.repeat(tree.parts[0], tree.least, tree.most, after)
        entry = self.node()
        (self.begin if kind == BEGIN else self.end)[entry] = after
        return entry

    def repeat(self, tree: Tree, least: int, most: int | None, after: int) -> int:
        if most is None:
            loop = self.node()
            self.free[loop] = [after, self.add(tree, loop)]
            after = loop
        else:
            out = after
            for _ in range(most - least):
                entry = self.node()
                self.free[entry] = [out, self.add(tree, after)]
                after = entry
        for _ in range(least):
            after = self.add(tree, after)
        return after

    def reach(self, node: int, *, beginning: bool, end: bool) -> int:
        """Return the set of nodes that can be reached from a node without a byte."""
        seen = 1 << node
        todo = [node]
        while todo:
            node = todo.pop()
            targets = self.free[node]
            if beginning and node in self.begin:
                targets = [*targets, self.begin[node]]
            if end and node in self.end:
                targets = [*targets, self.end[node]]
            for target in targets:
                if not seen >> target & 1:
                    seen |= 1 << target
                    todo.append(target)
        return seen

    def positions(self, tree: Tree) -> Positions:
        final = self.node()
        entry = self.add(tree, final)
        takers = 0
        for index, byte_set in enumerate(self.sets):
            if byte_set:
                takers |= 1 << index
        # If the name may end after a byte, its follow set has the bit of the final node. These are
        # the nodes from which the final node can be reached at the end.
        ends = 1 << final
        follow = []
        cache: dict[int, int] = {}
        for index, byte_set in enumerate(self.sets):
            then = self.then[index] if byte_set else -1
            if then not in cache:
                cache[then] = self._enter(then, takers, final, beginning=False) if byte_set else 0
            follow.append(cache[then])
        first = self._enter(entry, takers, final, beginning=True)
        return Positions(
            self.pattern, self.sets, follow, first, ends, first_accepts=first & ends != 0
        )

    def _enter(self, node: int, takers: int, final: int, *, beginning: bool) -> int:
        """Return the positions that may come after a byte that led to `node`.

        If the name may end there, the final position is among them.
        """
        here = self.reach(node, beginning=beginning, end=False) & takers
        if self.reach(node, beginning=beginning, end=True) >> final & 1:
            here |= 1 << final
        return here
