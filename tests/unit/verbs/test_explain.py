# SPDX-License-Identifier: Apache-2.0
"""Which words `soscope explain` takes: a file and a symbol, two files, or a process."""

from __future__ import annotations

import pytest

from soscope.errors import UsageError
from soscope.verbs.explain import parse


def test_a_file_or_two() -> None:
    one = parse(["program", "malloc", "--width", "120"])
    assert (one.files, one.symbol, one.pid, one.width) == (["program"], "malloc", None, 120)
    two = parse(["--svg", "out.svg", "a", "malloc@GLIBC_2.2.5", "b"])
    assert (two.files, two.symbol, two.svg) == (["a", "b"], "malloc@GLIBC_2.2.5", "out.svg")


def test_a_process() -> None:
    options = parse(["-p", "7", "malloc", "--from", "MAIN", "--width", "80"])
    assert (options.pid, options.symbol, options.files) == (7, "malloc", [])
    assert (options.from_, options.width) == ("MAIN", 80)


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
        parse(words)
    assert caught.value.message == said


def test_more_words_than_there_is_room_for() -> None:
    with pytest.raises(UsageError):
        parse(["a", "malloc", "b", "c"])
