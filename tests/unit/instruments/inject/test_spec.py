# SPDX-License-Identifier: Apache-2.0
"""The grammar of rules, and which calls they choose."""

from __future__ import annotations

import pytest

from soscope.errors import UsageError
from soscope.instruments.inject.instrument import CERTAIN, NO_LAST, parse_rule, seed_of


@pytest.mark.parametrize(
    ("when", "wanted"),
    [
        ("3", (3, 3, 1)),
        ("3+", (3, NO_LAST, 1)),
        ("3..", (3, NO_LAST, 1)),
        ("3+2", (3, NO_LAST, 2)),
        ("3..+2", (3, NO_LAST, 2)),
        ("3..9", (3, 9, 1)),
        ("3..9+", (3, 9, 1)),
        ("3..9+2", (3, 9, 2)),
        ("1..1", (1, 1, 1)),
    ],
)
def test_when_is_straces(when: str, wanted: tuple[int, int, int]) -> None:
    rule = parse_rule(f"inject=malloc:error=ENOMEM:when={when}")
    assert (rule.first, rule.last, rule.step) == wanted


def test_without_when_all_calls_are_meant() -> None:
    rule = parse_rule("fault=malloc")
    assert [rule.chooses(number) for number in (1, 2, 1 << 40)] == [True] * 3


@pytest.mark.parametrize(
    ("when", "chosen"),
    [("3", [3]), ("8+", [8, 9, 10]), ("2+4", [2, 6, 10]), ("2..6+3", [2, 5]), ("10..", [10])],
)
def test_calls_are_chosen_by_their_numbers(when: str, chosen: list[int]) -> None:
    rule = parse_rule(f"fault=malloc:when={when}")
    assert [number for number in range(1, 11) if rule.chooses(number)] == chosen


def test_everything_that_a_rule_can_say() -> None:
    text = (
        "inject=malloc,mem*:retval=-0x10:errno=EIO:when=2:probability=12.5%:from=MAIN:from=libc.so.6"
        ":site=libstdc++.so.6+0x1a2B:delay_enter=3:delay_exit=1.5ms"
    )
    rule = parse_rule(text)
    assert rule.text == text
    assert [symbol.text for symbol in rule.symbols] == ["malloc", "mem*"]
    assert (rule.retval, rule.errno, rule.error, rule.is_fault) == (-16, "EIO", None, False)
    assert rule.chance == CERTAIN // 8
    assert [caller.text for caller in rule.callers] == ["MAIN", "libc.so.6"]
    assert rule.site is not None
    assert (rule.site[0].text, rule.site[1]) == ("libstdc++.so.6", 0x1A2B)
    assert (rule.delay_enter, rule.delay_exit) == (3_000, 1_500_000)


def test_all_images_can_be_said() -> None:
    assert parse_rule("fault=read:from=all").callers[0].is_any


@pytest.mark.parametrize(
    ("text", "ns"), [("7", 7_000), ("7us", 7_000), ("7ns", 7), ("2ms", 2_000_000), ("1s", 10**9)]
)
def test_delays_have_units(text: str, ns: int) -> None:
    assert parse_rule(f"inject=read:delay_enter={text}").delay_enter == ns


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("010", 10),
        ("0xffffffffffffffff", (1 << 64) - 1),
        ("-9223372036854775808", -(1 << 63)),
    ],
)
def test_results_are_words(text: str, value: int) -> None:
    assert parse_rule(f"inject=read:retval={text}").retval == value


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "begins neither"),
        ("inject", "begins neither"),
        ("trace=malloc", "begins neither"),
        ("inject=", "'' is no name"),
        ("inject=a,,b:error=EIO", "'' is no name"),
        ("inject=a b:error=EIO", "'a b' is no name"),
        ("inject=a", "it has no effect"),
        ("inject=a:when=3", "it has no effect"),
        ("inject=a:error", "error= has no value"),
        ("inject=a:error=", "error= has no value"),
        ("inject=a:", "'' is none of error="),
        ("inject=a:signal=SEGV", "'signal=SEGV' is none of"),
        ("inject=a:error=EIO:error=EIO", "error= is given twice"),
        ("inject=a:error=EIO:retval=1", "error= cannot be combined with retval="),
        ("fault=a:retval=1", "fault= cannot be combined with retval="),
        ("inject=a:error=EIO:errno=EIO", "errno= stands beside retval="),
        ("inject=a:errno=EIO", "errno= stands beside retval="),
        ("fault=a:when=0", "counted from 1 on"),
        ("fault=a:when=0..3", "counted from 1 on"),
        ("fault=a:when=1+0", "a step of 0"),
        ("fault=a:when=5..3", "it ends before it begins"),
        ("fault=a:when=x", "it is not FIRST"),
        ("fault=a:when=1..2..3", "it is not FIRST"),
        ("fault=a:when=-1", "it is not FIRST"),
        ("fault=a:when=" + "9" * 19, "too large"),
        ("inject=a:retval=0x1ffffffffffffffff", "no integer of 64 bits"),
        ("inject=a:retval=1.5", "no integer of 64 bits"),
        ("fault=a:probability=2", "more than 1"),
        ("fault=a:probability=101%", "more than 1"),
        ("fault=a:probability=-1", "not from 0 to 1"),
        ("fault=a:probability=.", "not from 0 to 1"),
        ("fault=a:site=x", "not IMAGE+0xOFFSET"),
        ("fault=a:site=+0x1", "not IMAGE+0xOFFSET"),
        ("fault=a:site=x+12", "not IMAGE+0xOFFSET"),
        ("fault=a:delay_enter=3h", "no time"),
        ("fault=a:delay_exit=0", "no possible time"),
    ],
)
def test_what_is_wrong_is_named(text: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_rule(text)
    assert says in caught.value.message


def test_what_was_meant_is_told() -> None:
    with pytest.raises(UsageError) as caught:
        parse_rule("connect=ECONNREFUSED")
    assert caught.value.hint == "did you mean -e inject=connect:error=ECONNREFUSED?"
    assert parse_rule("inject=connect:error=ECONNREFUSED").symbols[0].text == "connect"


@pytest.mark.parametrize("percent", [0, 1, 25, 50, 99, 100])
def test_chance_is_as_often_as_it_says(percent: int) -> None:
    rule = parse_rule(f"fault=malloc:probability={percent}%")
    chosen = sum(rule.chooses(number, seed_of(42, 0)) for number in range(1, 10_001))
    assert abs(chosen - 100 * percent) <= 200
    assert chosen == 100 * percent or 0 < percent < 100


def test_seeds_and_rules_choose_other_calls() -> None:
    rule = parse_rule("fault=malloc:probability=50%")
    choices = {
        tuple(rule.chooses(number, seed_of(seed, index)) for number in range(1, 65))
        for seed in range(4)
        for index in range(4)
    }
    assert len(choices) == 16
