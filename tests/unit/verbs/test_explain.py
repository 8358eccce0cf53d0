# SPDX-License-Identifier: Apache-2.0
"""Which words `soscope explain` takes: a file and a symbol, two files, or a process."""

from __future__ import annotations

import pytest

from soscope.errors import UsageError
from soscope.verbs.explain import VERB, asked_of


def test_a_file_or_two() -> None:
    values, words = VERB.read(["program", "malloc", "--width", "120"])
    assert (values.pid, values.width) == (None, 120)
    assert asked_of(values, words) == ("malloc", ["program"])
    values, words = VERB.read(["--svg", "out.svg", "a", "malloc@GLIBC_2.2.5", "b"])
    assert values.svg == "out.svg"
    assert asked_of(values, words) == ("malloc@GLIBC_2.2.5", ["a", "b"])


def test_a_process() -> None:
    values, words = VERB.read(["-p", "7", "malloc", "--from", "MAIN", "--width", "80"])
    assert asked_of(values, words) == ("malloc", [])
    assert (values.pid, values.from_, values.width) == (7, "MAIN", 80)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["malloc"], "no process: -p PID is missing, and no FILE stands before the symbol"),
        (["-p", "7", "program", "malloc"], "-p PID takes one SYMBOL"),
        (["program", ""], "'' is no symbol"),
        (["program", "@V1"], "'@V1' is no symbol"),
        (["program", "malloc", "--from", "MAIN"], "--from needs -p PID"),
        (["-p", "7", "malloc", "--svg", "x"], "--svg is for files"),
        (["program", "malloc", "--width", "0"], "--width: at least one column"),
        (["-p", "7", "malloc", "--arch", "arm64"], "--arch is for files"),
    ],
)
def test_words_that_do_not_go_together(words: list[str], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        asked_of(*VERB.read(words))
    assert caught.value.message == said


def test_more_words_than_there_is_room_for() -> None:
    with pytest.raises(UsageError):
        VERB.read(["a", "malloc", "b", "c"])
