# SPDX-License-Identifier: Apache-2.0
"""Parse what `soscope inject -e` takes: strace's grammar, for functions in place of system calls.

    inject=SET[:KEY=VALUE]…        fault=SET[:KEY=VALUE]…

SET is names or globs separated by commas. The keys are in `_RuleParser.KEYS`; `from` may be
repeated.
"""

from __future__ import annotations

import re

from soscope.errors import UsageError
from soscope.select.filter import ALL, ANY, Pattern, parse_image

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

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


class InjectRule:
    """One rule: the calls that it chooses, and what happens to them.

    `text` is what the user wrote. `symbols` and `callers` are patterns of functions and of
    calling images (no callers: all images). Of the calls that match, the rule chooses number
    `first` and then each `step`th one up to number `last`, each with a probability of `chance` /
    CERTAIN. `error` (a name or a number, None if nothing fails), `retval` and `errno` are kept as
    the user wrote them. `is_fault` means that the function fails with `error`, or with its own
    first error if that is None. Delays are in ns. `site` is an image and the link-time address
    behind the call.
    """

    __slots__ = (
        "callers",
        "chance",
        "delay_enter",
        "delay_exit",
        "errno",
        "error",
        "first",
        "is_fault",
        "last",
        "retval",
        "site",
        "step",
        "symbols",
        "text",
    )

    def __init__(self, text: str) -> None:
        self.text = text
        self.symbols: list[Pattern] = []
        self.callers: list[Pattern] = []
        self.site: tuple[Pattern, int] | None = None
        self.first, self.last, self.step = 1, NO_LAST, 1
        self.chance = CERTAIN
        self.error: str | None = None
        self.retval: int | None = None
        self.errno: str | None = None
        self.is_fault = False
        self.delay_enter = self.delay_exit = 0

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
            raise self.wrong(f"{what} and retval= are two results")
        if rule.errno is not None and rule.retval is None:
            raise self.wrong("errno= stands beside retval=; error= sets errno by itself")
        if not rule.returns and not rule.delay_enter and not rule.delay_exit:
            raise self.wrong(
                "it says nothing to do: error=, retval=, delay_enter= or delay_exit= is missing"
            )

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
