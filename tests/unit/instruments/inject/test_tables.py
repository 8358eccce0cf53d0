# SPDX-License-Identifier: Apache-2.0
"""What the agent is told of rules."""

from __future__ import annotations

import pytest

from soscope.errors import UsageError
from soscope.instruments.inject.instrument import Tables, parse_rule
from soscope.prototypes import load
from soscope.select.filter import chooses
from soscope.wire import layout

PROTOTYPES = load()


def tables(*texts: str, follow: bool = False) -> Tables:
    return Tables([parse_rule(text) for text in texts], PROTOTYPES, 1, follow=follow)


def outcome(made: Tables, symbol: str, caller: str = "libx.so") -> tuple[int, int, int, int] | None:
    """Return value, errno, rule and flags of the last rule of the filter that holds."""
    found = None
    header = layout.INJECT.struct.unpack_from(made.own)
    for number, word in enumerate(made.selection.words):
        at = number * layout.RULE.size
        kind, _, pattern, image, *_ = layout.RULE.struct.unpack_from(made.selection.rules, at)
        if kind == layout.RULE_CALLER or image == layout.PATTERN_MAIN:
            continue
        if not all(
            which == layout.PATTERN_ANY or made.selection.patterns[which].matches(name.encode())
            for which, name in ((pattern, symbol), (image, caller))
        ):
            continue
        place = header[7] + number * layout.INJECT_OUTCOME.size
        said = layout.INJECT_OUTCOME.struct.unpack_from(made.own, place)
        found = said if kind == layout.RULE_INCLUDE else None
        assert word.kind == kind
    return found


def test_functions_of_one_rule_fail_each_in_its_way() -> None:
    made = tables("inject=malloc,open,pthread_create,getaddrinfo:error=11")
    both = layout.INJECT_RETURN | layout.INJECT_ERRNO
    assert outcome(made, "malloc") == (0, 11, 0, both)
    assert outcome(made, "open") == ((1 << 64) - 1, 11, 0, both)
    assert outcome(made, "pthread_create") == (11, 0, 0, layout.INJECT_RETURN)
    assert outcome(made, "getaddrinfo") == (11, 0, 0, layout.INJECT_RETURN)
    assert outcome(made, "read") is None


def test_globs_mean_the_functions_that_can_fail_so() -> None:
    made = tables("inject=*:error=EAGAIN")
    assert outcome(made, "malloc") == (0, 11, 0, 3)
    assert outcome(made, "pthread_create") == (11, 0, 0, 1)
    for name in ("strlen", "getaddrinfo", "sqrt", "nobody_knows"):
        assert outcome(made, name) is None
    assert len(made.selection.patterns) < 10


def test_globs_with_a_result_leave_floats_alone() -> None:
    made = tables("inject=s*:retval=-1:errno=EIO")
    assert outcome(made, "something") == ((1 << 64) - 1, 5, 0, 3)
    assert outcome(made, "strlen") == ((1 << 64) - 1, 5, 0, 3)
    assert outcome(made, "sqrt") is None
    assert not chooses(made.selection, "sqrt", caller="a", callee="b")
    assert chooses(made.selection, "something", caller="a", callee="b")


def test_globs_with_a_result_leave_structures_alone() -> None:
    made = tables("inject=mall*:retval=0")
    assert chooses(made.selection, "malloc", caller="a", callee="b")
    assert not chooses(made.selection, "mallinfo2", caller="a", callee="b")


def test_delays_let_calls_through() -> None:
    made = tables("inject=sqrt,nobody_knows:delay_enter=3")
    assert outcome(made, "sqrt") == (0, 0, 0, 0)
    rule = layout.INJECT_RULE.struct.unpack_from(made.own, layout.INJECT.size)
    assert rule[5:7] == (3000, 0)


def test_callers_and_sites() -> None:
    made = tables("fault=malloc:from=a.so:from=b*", "fault=malloc:site=MAIN+0x40")
    assert outcome(made, "malloc", "a.so") == (0, 12, 0, 3)
    assert outcome(made, "malloc", "bb") == (0, 12, 0, 3)
    header = layout.INJECT.struct.unpack_from(made.own)
    second = layout.INJECT_RULE.struct.unpack_from(made.own, header[6] + layout.INJECT_RULE.size)
    assert second[7:9] == (0x40, 3)
    kinds = [word.kind for word in made.selection.words]
    assert kinds == [layout.RULE_INCLUDE] * 3 + [layout.RULE_CALLER]


def test_a_word_is_unmatched_if_none_of_its_callers_calls() -> None:
    selection = tables("fault=malloc,calloc:from=a.so:from=b.so").selection
    assert selection.unmatched([0, 1, 0, 1]) == []
    assert [word.text for word in selection.unmatched([0, 1, 0, 0])] == ["calloc"]


def test_processes_that_are_followed_have_places() -> None:
    (alone, several) = (tables("fault=malloc", follow=follow) for follow in (False, True))
    names = 2  # malloc, and __libc_malloc, which means it
    assert layout.INJECT.struct.unpack_from(alone.own)[2:4] == (names, 1)
    assert layout.INJECT.struct.unpack_from(several.own)[2:4] == (names, 4096)
    assert several.own_size - alone.own_size == 4095 * names * layout.INJECT_POINT.size


def test_a_name_fails_as_its_twins_do() -> None:
    made = tables("fault=open:error=EMFILE", "inject=basename:retval=0")
    for name in ("open64", "__open_2", "__open64_2"):
        assert outcome(made, name) == outcome(made, "open"), name
    assert outcome(made, "__xpg_basename") == outcome(made, "basename")
    assert None not in (outcome(made, "open"), outcome(made, "basename"))
    assert outcome(tables("fault=__open_2:error=EMFILE"), "open") is None
    assert tables("fault=m*", follow=True).own_size < 65 << 20


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("fault=strlen", "it is not known how 'strlen' fails"),
        ("fault=str*en", "no function is known that matches 'str*en'"),
        ("inject=sqrt:error=EDOM", "'sqrt' returns a float"),
        ("inject=sqrt:retval=1", "'sqrt' returns a float"),
        ("inject=ldiv:retval=1", "'ldiv' returns a struct"),
        ("inject=csqrt:retval=1", "'csqrt' returns a complex number"),
        ("inject=read:error=EAI_AGAIN", "'EAI_AGAIN' is no errno"),
        ("inject=*:error=EBOGUS", "'EBOGUS' is no errno"),
        ("inject=read:retval=1:errno=x", "'x' is no errno"),
        ("inject=read:error=0", "'0' is no errno"),
        ("inject=getaddrinfo:error=ENOMEM", "is no error of getaddrinfo"),
    ],
)
def test_what_can_never_work_is_refused(text: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        tables(text)
    assert says in caught.value.message
    assert f"'{text}'" in caught.value.message


def test_too_many_rules_are_refused() -> None:
    with pytest.raises(UsageError):
        tables(*["fault=malloc"] * 65)
    with pytest.raises(UsageError):
        tables(*[f"fault=malloc:from={number}" + ":from=y" * 30 for number in range(64)])
