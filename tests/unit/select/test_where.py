# SPDX-License-Identifier: Apache-2.0
"""Conditions on single calls."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soscope.errors import UsageError
from soscope.select.where import Address, Condition

VALUES: dict[str, tuple[float | str, str, bool]] = {
    "ret": (-1, "-1", False),
    "size": (1 << 20, "1048576", False),
    "path": ("/etc/passwd", '"/etc/passwd"', False),
    "cut": ("/etc/pas", '"/etc/pas"...', True),
    "flags": (0x80241, "O_WRONLY|O_CREAT|O_CLOEXEC", False),
    "mode": (0, "O_RDONLY", False),
    "p": (Address(0x7F00), "0x7f00", False),
    "x": (2.5, "2.5", False),
    "errno": (2, "ENOENT", False),
    "duration": (1_500_000, "1500000", False),
}


def holds(text: str) -> bool | None:
    """Say what a condition says of the call above."""
    return Condition(text).holds(VALUES.get)


@pytest.mark.parametrize(
    "text",
    [
        "ret < 0", "ret == -1", "ret <= -1 and ret>=-1", "ret != 0", "ret",
        "size > 1000KiB", "size == 1MiB", "size >= 1048576", "size < 2MB", "size != 1MB",
        "size == 0x100000", "size & 0x100000", "not size & 1", "x > 2", "x == 2.5", "x < 2.6",
        "path == '/etc/passwd'", 'path = "/etc/passwd"', "path != '/etc'", "path ~ '/etc/*'",
        "path !~ '*.conf'", "path != NULL", "not path == NULL",
        "flags & O_CREAT", "not flags & O_EXCL", "mode == O_RDONLY", "flags != O_RDONLY",
        "O_RDONLY == mode", "errno == ENOENT", "errno == 2", "errno ~ 'E*'",
        "duration > 1ms", "duration < 1.6ms", "duration < 1s", "duration < 1min",
        "p == 0x7f00", "p != NULL", "p",
        "ret < 0 and size > 1", "ret > 0 or size > 1", "ret > 0 or not (size < 1 or ret > 1)",
        "ret < 0 && !(size < 1) || nothing", "nothing > 1 or ret < 0",
        "cut != '/var'", "not cut == '/var/x'",
    ],
)  # fmt: skip
def test_what_holds(text: str) -> None:
    assert holds(text) is True
    assert holds(f"not ({text})") is False


@pytest.mark.parametrize(
    "text",
    [
        "nothing", "nothing > 1", "not nothing == 1", "nothing & O_CREAT", "nothing ~ '*'",
        "nothing == nothing", "ret < 0 and nothing > 1", "ret > 0 or nothing",
        "path > 3", "path < 'x'", "p > 100", "p < 0x8000",  # there is no order of these
        "cut == '/etc/passwd'", "cut ~ '/etc/*'", "x & 1",
    ],
)  # fmt: skip
def test_what_is_not_known_neither_holds_nor_does_not(text: str) -> None:
    assert holds(text) is None
    assert holds(f"not ({text})") is None


def test_it_says_which_names_it_asks_for() -> None:
    assert Condition("a > 1 and not b or c == O_RDONLY and d ~ 'e'").names == {"a", "b", "c", "d"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it ends too early"),
        ("ret <", "it ends too early"),
        ("(ret < 0", "it ends too early"),
        ("ret < 0)", "unexpected ')'"),
        ("ret 0", "unexpected '0'"),
        ("5", "it ends too early"),
        ("and", "unexpected 'and'"),
        ("ret < 0 ret", "unexpected 'ret'"),
        ("ret $ 3", "unexpected '$ 3'"),
        ("size > 1m", "1min is minutes, 1MiB is mebibytes"),
        ("size > 1qb", "'qb' is no unit"),
        ("size > O_CREAT", "O_CREAT is compared by its name"),
        ("path ~ 3", "unexpected '3'"),
        ("path ~ '[a'", "["),
        ("path == 'x", "unexpected"),
    ],
)
def test_mistakes_are_named(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        Condition(text)


@given(st.text(alphabet="ret and or not()<>=!~&'\"0123456789.xkKiB_\\\t ", max_size=20))
def test_any_text_is_a_condition_or_a_mistake(text: str) -> None:
    try:
        condition = Condition(text)
    except UsageError:
        return
    assert condition.holds(VALUES.get) in (True, False, None)
