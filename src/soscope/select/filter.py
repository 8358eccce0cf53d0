# SPDX-License-Identifier: Apache-2.0
"""Selects slots: compiles `-e`, `--from` and `--to` into the rules that the agent runs.

A slot is selected if each option that was given selects it. `-e` selects a slot if one of the
chains includes it. `--from` selects a slot if its caller is one of the images, and `--to` if its
callee is one. If none of the three was given, the program's own calls are selected.
"""

from __future__ import annotations

from struct import pack

from soscope.errors import UsageError
from soscope.select import expression
from soscope.select.automaton import Automaton, compile_bre, compile_glob
from soscope.select.expression import ANY, Pattern, Rule
from soscope.select.listed import either
from soscope.select.patterns import too_complex
from soscope.select.twins import compile_names_of
from soscope.wire import layout

ALL = "all"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Sets = Callable[[], dict[str, Automaton]]
    Compile = Callable[[Pattern], Automaton]

Image = tuple[str, str, bool]  # (name, path, whether it is the program)


class Word:
    """The origin of one rule: the option, the text that the user wrote, and the rule's patterns.

    `text` is "" for a rule that is implied.
    """

    __slots__ = ("image", "kind", "option", "symbol", "text")

    def __init__(self, option: str, text: str, kind: int, symbol: Pattern, image: Pattern) -> None:
        self.option = option
        self.text = text
        self.kind = kind
        self.symbol = symbol
        self.image = image


class Selection:
    """A compiled filter.

    `patterns` is the content of SEC_PATTERNS, and others may be appended. `rules` is the content
    of SEC_RULES, and `words` has the origin of each of these rules. `names_caller` is set if the
    user mentioned callers or callees, so that a line of text has the caller. `by_image` is set if
    the user asked for all callers, so that a summary has a row for each pair of images and each
    function.
    """

    __slots__ = ("by_image", "names_caller", "patterns", "rules", "words")

    def __init__(self, *, names_caller: bool, by_image: bool) -> None:
        self.patterns: list[Automaton] = []
        self.rules = b""
        self.words: list[Word] = []
        self.names_caller = names_caller
        self.by_image = by_image

    def unmatched(self, matched: Iterable[int]) -> list[Word]:
        """Return the words that matched nothing. `matched` has the matches of each rule."""
        pairs = zip(self.words, matched, strict=False)
        return [word for word, count in pairs if word.text and not count]


def compile_selection(
    select: list[str],
    from_: list[str] | None = None,
    to: list[str] | None = None,
    *,
    sets: Sets | None = None,
    is_exact: bool = False,
) -> Selection:
    """Compile the arguments of all `-e`, `--from` and `--to`, in their order.

    `sets` returns an automaton for the functions of each set that an expression may name. It is
    called only if an expression names a set. With `is_exact`, a name does not also mean its
    twins. Code that needs certain functions by name uses that. Raises UsageError for a faulty
    expression or pattern.
    """
    from_words = [word for text in from_ or () for word in expression.split_commas(text)]
    to_words = [word for text in to or () for word in expression.split_commas(text)]
    chosen = Selection(
        names_caller=bool(select or from_words or to_words), by_image=ALL in from_words
    )
    compiler = _Compiler(chosen, compile_pattern if is_exact else compile_symbol)
    for text in select:
        flags = layout.RULE_FIRST
        for rule in expression.parse(text):
            if rule.symbol.is_set:
                rule.symbol.members = _members(rule.symbol.text, sets)
            compiler.add_rule(rule, flags)
            flags = 0
    if not select:
        everything = Rule(include=True, symbol=ANY, caller=ANY, word="")
        compiler.add_rule(everything, layout.RULE_FIRST)
    if ALL not in from_words:
        for word in from_words:
            compiler.add_image("--from", word, layout.RULE_FROM)
    if ALL not in to_words:
        for word in to_words:
            compiler.add_image("-l", word, layout.RULE_TO)
    if not chosen.names_caller:
        main = Pattern(expression.MAIN)
        compiler.add(Word("--from", "", layout.RULE_FROM, ANY, main), 0)
    chosen.rules = b"".join(compiler.packed)
    return chosen


class _Compiler:
    """Collects rules and patterns, without duplicates of patterns."""

    def __init__(self, chosen: Selection, compile_: Compile) -> None:
        self.chosen = chosen
        self.compile = compile_  # compiles patterns for functions
        self.packed: list[bytes] = []
        self.numbers: dict[tuple[str, bool, Compile], int] = {}

    def add_rule(self, rule: Rule, flags: int) -> None:
        kind = layout.RULE_INCLUDE if rule.include else layout.RULE_EXCLUDE
        self.add(Word("-e", rule.word, kind, rule.symbol, rule.caller), flags)

    def add_image(self, option: str, text: str, kind: int) -> None:
        self.add(Word(option, text, kind, ANY, expression.parse_image(text)), 0)

    def add(self, word: Word, flags: int) -> None:
        image = word.image
        if image.is_path:
            flags |= layout.RULE_PATH
        number = layout.PATTERN_MAIN if image.is_main else self.number(image, compile_pattern)
        symbol = self.number(word.symbol, self.compile)
        self.packed.append(pack("<BBHHH", word.kind, flags, symbol, number, 0))
        self.chosen.words.append(word)

    def number(self, pattern: Pattern, compile_: Compile) -> int:
        if pattern.is_any:
            return layout.PATTERN_ANY
        key = (pattern.text, pattern.is_regex, compile_)
        number = self.numbers.get(key)
        if number is None:
            number = self.numbers[key] = len(self.chosen.patterns)
            self.chosen.patterns.append(compile_(pattern))
        return number


def compile_symbol(pattern: Pattern) -> Automaton:
    """Compile a pattern for functions.

    `open` also means `__open_2` (select/twins.py), and `Locker::*` also means linked names
    (select/cxx.py).
    """
    if pattern.members is not None:
        return pattern.members
    if pattern.is_regex:
        return compile_bre(pattern.text)
    text = without_anchors(pattern.text)
    if "::" in text:
        from soscope.select import cxx  # few runs need it

        if cxx.is_qualified(text):
            shown = compile_glob(cxx.shown_pattern(text))
            try:
                return either(shown, compile_bre(cxx.linked_pattern(text)))
            except UsageError:
                raise too_complex(text) from None  # not the pattern that the user wrote
    return compile_names_of(text)


def compile_pattern(pattern: Pattern) -> Automaton:
    """Compile a pattern for images. A glob may have the anchors of a regular expression, too."""
    if pattern.is_regex:
        return compile_bre(pattern.text)
    return compile_glob(without_anchors(pattern.text))


def without_anchors(text: str) -> str:
    """Return a glob without `^` and `$` at its ends, because a glob is for whole names anyway.

    As in ltrace(1), ^MAIN is an image with the name MAIN.
    """
    text = text.removeprefix("^")
    if text.endswith("$") and not text.endswith("\\$"):
        text = text[:-1]
    return text


def _members(name: str, sets: Sets | None) -> Automaton:
    known = {} if sets is None else sets()
    members = known.get(name[1:])
    if members is None:
        from difflib import get_close_matches

        near = get_close_matches(name[1:], known, n=1, cutoff=0.4)
        names = ", ".join(f"%{other}" for other in known)
        raise UsageError(
            f"filter expression '{name}': there is no such set of functions",
            hint=f"did you mean %{near[0]}? There are {names}" if near else f"there are {names}",
            slug="filter-expression",
        )
    return members


def chooses(
    selection: Selection,
    symbol: str,
    *,
    caller: str,
    callee: str,
    caller_path: str = "",
    callee_path: str = "",
    caller_is_main: bool = False,
    callee_is_main: bool = False,
) -> bool:
    """Return whether a slot is selected. The agent decides in the same way."""
    matches = rules_matched(
        selection,
        symbol,
        (caller, caller_path, caller_is_main),
        (callee, callee_path, callee_is_main),
    )
    marked, chosen = False, False
    froms: list[bool] = []
    tos: list[bool] = []
    for index, (word, matched) in enumerate(zip(selection.words, matches, strict=True)):
        if word.kind == layout.RULE_TO:
            tos.append(matched)
        elif word.kind == layout.RULE_FROM:
            froms.append(matched)
        else:
            if _rule(selection, index)[1] & layout.RULE_FIRST:
                chosen |= marked
                marked = False
            if matched:
                marked = word.kind == layout.RULE_INCLUDE
    chosen |= marked
    return chosen and (not froms or any(froms)) and (not tos or any(tos))


def rules_matched(selection: Selection, symbol: str, caller: Image, callee: Image) -> list[bool]:
    """Return for each rule whether its patterns match a slot. Its kind does not matter."""
    return [
        _rule_matches(selection, index, symbol, callee if word.kind == layout.RULE_TO else caller)
        for index, word in enumerate(selection.words)
    ]


def _rule_matches(selection: Selection, index: int, symbol: str, image: Image) -> bool:
    _, flags, symbol_number, image_number = _rule(selection, index)
    name, path, is_main = image
    if image_number == layout.PATTERN_MAIN:
        matches = is_main
    else:
        matches = _matches(selection, image_number, path if flags & layout.RULE_PATH else name)
    return matches and _matches(selection, symbol_number, symbol)


def _rule(selection: Selection, index: int) -> tuple[int, int, int, int]:
    """Return kind, flags and the numbers of both patterns of a rule."""
    kind, flags, symbol, image = layout.RULE.struct.unpack_from(
        selection.rules, index * layout.RULE.size
    )[:4]
    return kind, flags, symbol, image


def _matches(selection: Selection, number: int, name: str) -> bool:
    """Return whether a name matches the pattern with this number."""
    if number == layout.PATTERN_ANY:
        return True
    return selection.patterns[number].matches(name.encode("utf-8", "surrogateescape"))
