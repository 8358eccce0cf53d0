# SPDX-License-Identifier: Apache-2.0
"""The inject instrument: parse the rules by which calls fail or wait, and make tables."""

from __future__ import annotations

import re
from struct import pack

from soscope.control.settings import Hooks, Instrument
from soscope.errors import UsageError
from soscope.model.record import Record, fresh
from soscope.prototypes import Prototypes, load
from soscope.prototypes.failures import RESULT_KINDS, errno_number
from soscope.select.filter import (
    ALL,
    ANY,
    Pattern,
    Selection,
    Word,
    compile_pattern,
    compile_symbol,
    parse_image,
    twins,
)
from soscope.select.patterns import compile_names
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from soscope.control.outcome import ProgramOutcome
    from soscope.recording.sink import Sink
    from soscope.select.filter import Compile
    from soscope.wire.block import ControlBlock


# Parse what `soscope inject -e` takes: strace's grammar, for functions in place of system calls.
#
#     inject=SET[:KEY=VALUE]…        fault=SET[:KEY=VALUE]…
#
# SET is names or globs separated by commas. The keys are in `_RuleParser.KEYS`; `from` may be
# repeated.

NO_LAST = (1 << 64) - 1
CERTAIN = 1 << 64  # `chance` of a rule that always chooses

_MOST = 1 << 64
_LONGEST = 1 << 62  # nanoseconds
_UNITS = {"": 1_000, "us": 1_000, "µs": 1_000, "ns": 1, "ms": 1_000_000, "s": 1_000_000_000}
_WHEN = re.compile(r"(\d+)(?:(\.\.)(\d*))?(?:(\+)(\d*))?", re.ASCII)
_DELAY = re.compile(r"(\d+)(\.\d+)?([a-zµ]*)", re.ASCII)
_NUMBER = re.compile(r"-?(?:0[xX][0-9a-fA-F]+|\d+)", re.ASCII)
_CHANCE = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(%?)", re.ASCII)
_SET = re.compile(r"[^,:=\s]+")
_ERROR = re.compile(r"E[A-Z0-9]+")
_HINT = "inject=SET[:error=E|:retval=V][:when=N]…; soscope inject --help has all of it"


class InjectRule(Record):
    """One rule: the calls that it chooses, and what happens to them.

    `text` is what the user wrote. `symbols` and `callers` are patterns of functions and of
    calling images (no callers: all images). Of the calls that match, the rule chooses number
    `first` and then each `step`th one up to number `last`, each with a probability of `chance` /
    CERTAIN. `error` (a name or a number, None if nothing fails), `retval` and `errno` are kept as
    the user wrote them. `is_fault` means that the function fails with `error`, or with its own
    first error if that is None. Delays are in ns. `site` is an image and the link-time address
    behind the call.
    """

    text: str
    symbols: list[Pattern] = fresh(list)
    callers: list[Pattern] = fresh(list)
    site: tuple[Pattern, int] | None = None
    first: int = 1
    last: int = NO_LAST
    step: int = 1
    chance: int = CERTAIN
    error: str | None = None
    retval: int | None = None
    errno: str | None = None
    is_fault: bool = False
    delay_enter: int = 0
    delay_exit: int = 0

    @property
    def fails(self) -> bool:
        """Return whether the function is to fail as its own error rule defines failure."""
        return self.is_fault or self.error is not None

    @property
    def returns(self) -> bool:
        """Return whether the call returns at once, without calling the function."""
        return self.fails or self.retval is not None

    def chooses(self, number: int, seed: int = 0) -> bool:
        """Return whether the rule chooses call `number`. The agent decides in the same way."""
        if not self.first <= number <= self.last or (number - self.first) % self.step:
            return False
        return self.chance >= CERTAIN or _mixed(seed + number * 0x9E3779B97F4A7C15) < self.chance


def seed_of(seed: int, rule: int) -> int:
    """Return the seed of rule number `rule`, so that two rules do not choose the same calls."""
    return _mixed(seed + (rule + 1) * 0x9E3779B97F4A7C15)


def _mixed(word: int) -> int:
    word %= _MOST
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 % _MOST
    word = (word ^ word >> 27) * 0x94D049BB133111EB % _MOST
    return word ^ word >> 31


def parse_rule(text: str) -> InjectRule:
    """Parse one argument of -e. Raises UsageError, which names the part that is wrong."""
    kind, equals, rest = text.partition("=")
    if not equals or kind not in ("inject", "fault"):
        hint = _HINT
        if _SET.fullmatch(kind) and _ERROR.fullmatch(rest):
            hint = f"did you mean -e inject={kind}:error={rest}?"
        raise UsageError(f"'{text}': it begins neither with inject= nor with fault=", hint=hint)
    rule = InjectRule(text)
    rule.is_fault = kind == "fault"
    names, *options = rest.split(":")
    for name in names.split(","):
        if not _SET.fullmatch(name):
            raise UsageError(f"'{text}': '{name}' is no name of a function", hint=_HINT)
        rule.symbols.append(Pattern(name))
    parser = _RuleParser(rule)
    for option in options:
        parser.take(option)
    parser.check()
    return rule


class _RuleParser:
    """Parses the options of one rule."""

    KEYS = "error retval errno when probability from site delay_enter delay_exit".split()

    def __init__(self, rule: InjectRule) -> None:
        self.rule = rule
        self.given: set[str] = set()

    def take(self, option: str) -> None:
        key, equals, value = option.partition("=")
        if key not in self.KEYS:
            raise self.wrong(f"'{option}' is none of {'=, '.join(self.KEYS)}=")
        if not equals or not value:
            raise self.wrong(f"{key}= has no value")
        if key in self.given and key != "from":
            raise self.wrong(f"{key}= is given twice")
        self.given.add(key)
        parse: Callable[[str], None] = getattr(self, f"_{key}")
        parse(value)

    def check(self) -> None:
        """Refuse options that do not go together."""
        rule = self.rule
        if rule.retval is not None and rule.fails:
            what = "error=" if rule.error is not None else "fault="
            raise self.wrong(f"{what} cannot be combined with retval=")
        if rule.errno is not None and rule.retval is None:
            raise self.wrong("errno= stands beside retval=; error= sets errno by itself")
        if not rule.returns and not rule.delay_enter and not rule.delay_exit:
            raise self.wrong("it has no effect: add error=, retval=, delay_enter= or delay_exit=")

    def wrong(self, what: str) -> UsageError:
        return UsageError(f"'{self.rule.text}': {what}", hint=_HINT)

    def _error(self, value: str) -> None:
        self.rule.error = value

    def _errno(self, value: str) -> None:
        self.rule.errno = value

    def _retval(self, value: str) -> None:
        number = (
            int(value, 0 if "x" in value.lower() else 10) if _NUMBER.fullmatch(value) else _MOST
        )
        if not -(_MOST // 2) <= number < _MOST:
            raise self.wrong(f"retval={value}: it is no integer of 64 bits")
        self.rule.retval = number

    def _when(self, value: str) -> None:
        rule, parts = self.rule, _WHEN.fullmatch(value)
        if parts is None:
            raise self.wrong(f"when={value}: it is not FIRST[..LAST][+[STEP]]")
        first, dots, last, plus, step = parts.groups()
        if any(len(part or "") > 18 for part in (first, last, step)):
            raise self.wrong(f"when={value}: a number is too large")
        rule.first = int(first)
        rule.step = int(step or 1)
        rule.last = int(last) if last else NO_LAST if dots or plus else rule.first
        if not rule.first:
            raise self.wrong(f"when={value}: calls are counted from 1 on")
        if not rule.step:
            raise self.wrong(f"when={value}: a step of 0 goes nowhere")
        if rule.last < rule.first:
            raise self.wrong(f"when={value}: it ends before it begins")

    def _probability(self, value: str) -> None:
        parts = _CHANCE.fullmatch(value)
        if parts is None or len(value) > 18:
            raise self.wrong(f"probability={value}: it is not from 0 to 1, or 0% to 100%")
        whole, _, part = parts[1].partition(".")
        chance = int(whole + part or "0") * CERTAIN // 10 ** len(part)
        self.rule.chance = chance // 100 if parts[2] else chance
        if self.rule.chance > CERTAIN:
            raise self.wrong(f"probability={value}: it is more than 1")

    def _from(self, value: str) -> None:
        self.rule.callers.append(ANY if value == ALL else parse_image(value))

    def _site(self, value: str) -> None:
        image, plus, offset = value.rpartition("+")
        if not plus or not image or not re.fullmatch(r"0[xX][0-9a-fA-F]{1,16}", offset):
            raise self.wrong(f"site={value}: it is not IMAGE+0xOFFSET")
        self.rule.site = parse_image(image), int(offset, 16)

    def _delay_enter(self, value: str) -> None:
        self.rule.delay_enter = self._delay("delay_enter", value)

    def _delay_exit(self, value: str) -> None:
        self.rule.delay_exit = self._delay("delay_exit", value)

    def _delay(self, key: str, value: str) -> int:
        parts = _DELAY.fullmatch(value)
        if parts is None or parts[3] not in _UNITS or len(value) > 18:
            raise self.wrong(f"{key}={value}: it is no time: microseconds, or with s, ms, us, ns")
        part = parts[2] or "."
        delay: int = int(parts[1] + part[1:]) * _UNITS[parts[3]] // 10 ** (len(part) - 1)
        if not 0 < delay < _LONGEST:
            raise self.wrong(f"{key}={value}: it is no possible time")
        return delay


# Rules of injection as tables for the agent: a filter, and an outcome for each of its rules.
#
# Each rule of injection becomes several rules of the filter, as an argument of `soscope trace -e`
# does. Each rule of the filter comes with the outcome of its calls, because the functions of one
# injection rule may fail in different ways.

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
                hint="retval= sets the result of any function",
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
            raise UsageError(f"it is not known how '{name}' fails", hint="retval= sets its result")
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


# The inject instrument: it makes the calls that rules choose fail or wait.
#
# Only the chosen calls are recorded. The records are the records of a trace, so listeners of a
# trace get the injected calls, too.


class InjectInstrument(Instrument):
    """Makes calls fail or wait by `rules`, where `seed` decides for rules that choose by chance.

    `calls` and `injected` hold, for each rule, how many calls it has seen and how many it has
    chosen.
    """

    name = "inject"
    wants_signals = True

    def __init__(
        self,
        rules: list[InjectRule],
        seed: int,
        *,
        follow: bool,
        string_limit: int,
        files: Sequence[str] | None = None,
    ) -> None:
        """Compile the rules and read the declarations of functions in `files`.

        Raises UsageError if a rule can never work, and FormatError if a file has a fault.
        """
        self.rules = rules
        self.seed = seed
        prototypes = load()
        if files:
            from soscope.prototypes.sources import add_files

            add_files(prototypes, files)
        tables = Tables(rules, prototypes, seed, follow=follow)
        self.selection = tables.selection
        self.hooks: Hooks = Hooks(
            layout.INSTRUMENT_INJECT,
            tables.selection,
            prototypes,
            # a call that fails returns at once, and is recorded with its result
            entry_only=all(rule.returns for rule in rules),
            string_limit=string_limit,
            own_size=tables.own_size,
            own=tables.own,
        )
        self.calls = [0] * len(rules)
        self.injected = [0] * len(rules)
        self._without_place = self._without_point = 0
        self._is_errno_known = True

    @property
    def uses_chance(self) -> bool:
        """Return whether a rule chooses by chance, so that the seed matters."""
        return any(rule.chance < CERTAIN for rule in self.rules)

    def options(self) -> dict[str, object]:
        """Return the rules, for a recording."""
        return {"inject": self.summary()}

    def totals(self) -> dict[str, object]:
        """Return the rules and their counts, for the end of a recording."""
        return {"inject": self.summary()}

    def summary(self) -> dict[str, object]:
        """Return the rules, and how many calls each has seen and chosen so far."""
        rows = zip(self.rules, self.calls, self.injected, strict=True)
        return {
            "seed": self.seed,
            "rules": [
                {"rule": rule.text, "calls": calls, "injected": injected}
                for rule, calls, injected in rows
            ],
        }

    def stopping(self, block: ControlBlock) -> None:
        """Stop the injection, as calls that fail from here on would be in no trace."""
        block.command = layout.COMMAND_STOP

    def take(self, program: ProgramOutcome, block: ControlBlock, sink: Sink) -> None:
        """Add the counts of the processes of one program."""
        with block.own(layout.INSTRUMENT_INJECT) as own:
            if len(own) < layout.INJECT.size:
                return
            used, lost = layout.INJECT.struct.unpack_from(own)[4:6]
            said = layout.INJECT.struct.unpack_from(block.given(layout.INSTRUMENT_INJECT))
            points, places, first = said[2], said[3], said[8]
            size = layout.INJECT_POINT.size
            if first + places * points * size > len(own):
                return
            self._without_place += max(0, used - places)
            self._without_point += lost
            for at in range(first, first + min(used, places) * points * size, size):
                calls, injected, rule, _ = layout.INJECT_POINT.struct.unpack_from(own, at)
                if 0 < rule <= len(self.rules):
                    self.calls[rule - 1] += calls
                    self.injected[rule - 1] += injected

    def notes(self) -> list[str]:
        """Return the notes that are printed at the end beside the rules."""
        lines = []
        if self.uses_chance:
            lines.append(f"--seed {self.seed} chooses the same calls again")
        if self._without_place:
            lines.append(f"calls of {self._without_place:,} processes are not among those counted")
        if self._without_point:
            lines.append(f"no room for {self._without_point:,} functions: nothing fails there")
        return lines
