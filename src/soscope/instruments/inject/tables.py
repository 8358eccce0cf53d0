# SPDX-License-Identifier: Apache-2.0
"""Rules of injection as tables for the agent: a filter, and an outcome for each of its rules.

Each rule of injection becomes several rules of the filter, as an argument of `soscope trace -e`
does. Each rule of the filter comes with the outcome of its calls, because the functions of one
injection rule may fail in different ways.
"""

from __future__ import annotations

from struct import pack

from soscope.errors import UsageError
from soscope.instruments.inject.spec import CERTAIN, InjectRule, seed_of
from soscope.prototypes import Prototypes
from soscope.prototypes.table import RESULT_KINDS, errno_number
from soscope.select.automaton import compile_names
from soscope.select.filter import ANY, Pattern, Selection, Word, compile_pattern, compile_symbol
from soscope.select.twins import twins
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from soscope.select.filter import Compile

MOST_RULES = 64  # the same number as in inject.c
_MOST_FILTER_RULES = 1024  # the same number as in select.c
_MOST_POINTS = 4096  # number of pairs of rule and function, the same as in inject.c
_MOST_PLACES = 4096  # processes whose calls are counted separately
_PLACES_SIZE = 64 << 20  # bytes
_NO_RULE = 0xFFFF

# Result and the new errno (None if errno does not change). If both are None, the function is
# called.
_Outcome = tuple[int, int | None] | None
# What a word of a rule becomes: the word, its glob (or an empty string and the names that it
# matches), the kind of filter rule, and the outcome of the calls.
_Row = tuple[Pattern, tuple[str, ...], int, _Outcome]


class InjectSelection(Selection):
    """The filter. A word that became several filter rules has matched if one of them has."""

    __slots__ = ("owners",)

    def __init__(self) -> None:
        super().__init__(names_caller=True, by_image=False)
        self.owners: list[int] = []  # for each rule of the filter: the number of its injection rule

    def unmatched(self, matched: Iterable[int]) -> list[Word]:
        """Return the words that have matched nothing, each once."""
        groups: dict[tuple[int, str], tuple[Word, int]] = {}
        for owner, word, count in zip(self.owners, self.words, matched, strict=False):
            if word.text:
                first, total = groups.get((owner, word.text), (word, 0))
                groups[owner, word.text] = first, total + count
        return [word for word, total in groups.values() if not total]


class Tables:
    """The tables that the agent needs for a list of rules.

    `selection` is the filter, and `own` are the first bytes of the instrument's memory.
    `own_size` is the size of that memory.
    """

    __slots__ = (
        "_numbers",
        "_outcomes",
        "_packed",
        "_prototypes",
        "_sites",
        "own",
        "own_size",
        "selection",
    )

    def __init__(
        self, rules: list[InjectRule], prototypes: Prototypes, seed: int, *, follow: bool
    ) -> None:
        """Compile the rules. Raises UsageError if a rule can never work."""
        if len(rules) > MOST_RULES:
            raise UsageError(f"{len(rules)} rules; {MOST_RULES} at most")
        self._prototypes = prototypes
        self._packed: list[bytes] = []
        self._outcomes: list[bytes] = []
        self._numbers: dict[tuple[tuple[str, ...], Compile], int] = {}
        self._sites: list[int] = []
        self.selection = InjectSelection()
        for number, rule in enumerate(rules):
            try:
                self._add(number, rule)
            except UsageError as error:
                raise UsageError(f"'{rule.text}': {error.message}", hint=error.hint) from error
        if len(self._packed) > _MOST_FILTER_RULES:
            raise UsageError(f"{len(self._packed)} functions and images; {_MOST_FILTER_RULES} can")
        self.selection.rules = b"".join(self._packed)
        self.own, self.own_size = self._own(rules, seed, follow=follow)

    # ---- one rule

    def _add(self, number: int, rule: InjectRule) -> None:
        callers = rule.callers or [rule.site[0] if rule.site else ANY]
        is_first = True
        for symbol in rule.symbols:
            for pattern, automaton, kind, outcome in self._of(rule, symbol):
                for caller in callers:
                    flags = layout.RULE_FIRST if is_first else 0
                    text = symbol.text if kind == layout.RULE_INCLUDE else ""
                    word = Word("-e", text, kind, pattern, caller)
                    of_symbol = self._number(automaton, compile_symbol)
                    self._append(word, flags, of_symbol, number, outcome)
                    is_first = False
        self._sites.append(layout.NONE)
        if rule.site:
            self._sites[-1] = len(self._packed)
            word = Word("-e", "", layout.RULE_CALLER, ANY, rule.site[0])
            self._append(word, 0, layout.PATTERN_ANY, _NO_RULE, None)

    def _of(self, rule: InjectRule, symbol: Pattern) -> list[_Row]:
        """Return the rows of the filter that a word of a rule becomes."""
        include = layout.RULE_INCLUDE
        groups: dict[_Outcome, list[str]] = {}
        if symbol.is_plain:
            outcome = self._outcome(rule, symbol.text)
            groups[outcome] = [symbol.text]
            for name in twins(symbol.text):
                groups.setdefault(self._outcome_of_twin(rule, name, outcome), []).append(name)
            return [(symbol, ("", *names), include, each) for each, names in groups.items()]
        if not rule.returns:
            return [(symbol, (symbol.text,), include, None)]
        automaton = compile_symbol(symbol)
        known = (*self._prototypes.names(), *RESULT_KINDS)
        names = [name for name in known if automaton.matches(name.encode())]
        if rule.retval is not None:
            refused = [name for name in names if self._prototypes.result_kind(name)]
            outcome = rule.retval, self._errno(rule)
            rows: list[_Row] = [(symbol, (symbol.text,), include, outcome)]
            if refused:
                rows.append((symbol, ("", *refused), layout.RULE_EXCLUDE, None))
            return rows
        for name in names:
            failure = self._prototypes.failure(name)
            if failure is None or self._prototypes.result_kind(name):
                continue
            try:
                groups.setdefault(failure.outcome(rule.error), []).append(name)
            except UsageError:
                continue  # this function cannot fail with the error that the rule gives
        if not groups:
            if rule.error is not None and not rule.error.startswith("EAI_"):
                errno_number(rule.error)
            raise UsageError(
                f"no function is known that matches '{symbol.text}' and fails so",
                hint="retval= says what any function returns",
            )
        return [(symbol, ("", *members), include, outcome) for outcome, members in groups.items()]

    def _outcome(self, rule: InjectRule, name: str) -> _Outcome:
        if not rule.returns:
            return None
        kind = self._prototypes.result_kind(name)
        if kind:
            raise UsageError(f"'{name}' returns a {kind}, which cannot be injected")
        if rule.retval is not None:
            return rule.retval, self._errno(rule)
        failure = self._prototypes.failure(name)
        if failure is None:
            raise UsageError(
                f"it is not known how '{name}' fails", hint="retval= says what it returns"
            )
        return failure.outcome(rule.error)

    def _outcome_of_twin(self, rule: InjectRule, name: str, outcome: _Outcome) -> _Outcome:
        """Return the outcome for a twin of a function: its own failure, if that is known."""
        failure = self._prototypes.failure(name)
        if not rule.returns or rule.retval is not None or failure is None:
            return outcome
        try:
            return failure.outcome(rule.error)
        except UsageError:
            return outcome

    def _errno(self, rule: InjectRule) -> int | None:
        return None if rule.errno is None else errno_number(rule.errno)

    # ---- rules of the filter

    def _append(self, word: Word, flags: int, symbol: int, owner: int, outcome: _Outcome) -> None:
        image = word.image
        if image.is_path:
            flags |= layout.RULE_PATH
        number = layout.PATTERN_MAIN
        if not image.is_main:
            number = self._number((image.text,), compile_pattern)
        self._packed.append(pack("<BBHHH", word.kind, flags, symbol, number, 0))
        value, errno, what = 0, None, 0
        if outcome is not None:
            value, errno = outcome
            what = layout.INJECT_RETURN | (0 if errno is None else layout.INJECT_ERRNO)
        self._outcomes.append(
            layout.INJECT_OUTCOME.struct.pack(value % (1 << 64), errno or 0, owner, what)
        )
        self.selection.words.append(word)
        self.selection.owners.append(owner)

    def _number(self, key: tuple[str, ...], compile_: Compile) -> int:
        """Return the number of a pattern, which is a glob, or an empty string and names."""
        if key in (("*",), ("",)):
            return layout.PATTERN_ANY
        number = self._numbers.get((key, compile_))
        if number is None:
            number = self._numbers[key, compile_] = len(self.selection.patterns)
            automaton = compile_(Pattern(key[0])) if key[0] else compile_names(key[1:])
            self.selection.patterns.append(automaton)
        return number

    # ---- the agent's memory

    def _own(self, rules: list[InjectRule], seed: int, *, follow: bool) -> tuple[bytes, int]:
        packed = []
        for number, (rule, site) in enumerate(zip(rules, self._sites, strict=True)):
            packed.append(
                layout.INJECT_RULE.struct.pack(
                    rule.first,
                    rule.last,
                    rule.step,
                    seed_of(seed, number),
                    rule.chance % CERTAIN,
                    rule.delay_enter,
                    rule.delay_exit,
                    rule.site[1] if rule.site else 0,
                    site,
                    layout.INJECT_CHANCE if rule.chance < CERTAIN else 0,
                )
            )
        has_globs = any(not symbol.is_plain for rule in rules for symbol in rule.symbols)
        points = _MOST_POINTS
        if not has_globs:
            names = [symbol.text for rule in rules for symbol in rule.symbols]
            points = sum(1 + len(twins(name)) for name in names)
        size = layout.INJECT_POINT.size * points
        places = min(_MOST_PLACES, _PLACES_SIZE // size) if follow else 1
        first_rule = layout.INJECT.size
        first_outcome = first_rule + len(rules) * layout.INJECT_RULE.size
        first_place = first_outcome + len(self._outcomes) * layout.INJECT_OUTCOME.size
        first_place += -first_place % 64
        header = layout.INJECT.struct.pack(
            len(rules),
            len(self._outcomes),
            points,
            places,
            0,
            0,
            first_rule,
            first_outcome,
            first_place,
        )
        return b"".join([header, *packed, *self._outcomes]), first_place + places * size
