# SPDX-License-Identifier: Apache-2.0
"""What is said of an option that there is not."""

from __future__ import annotations

import pytest

from soscope.errors import UsageError
from soscope.verbs import trace
from soscope.verbs.mem import snapshot
from soscope.verbs.parser import VerbParser


def test_an_option_that_is_typed_wrong_is_named_with_the_one_that_is_like_it() -> None:
    parser = VerbParser("trace", [], usage="", short="", description="", epilog="")
    parser.add_argument("--slower")
    with pytest.raises(UsageError, match=r"there is no --slowr$") as caught:
        parser.parse_args(["--slowr=1s"])
    assert caught.value.hint == "did you mean --slower?"
    with pytest.raises(UsageError, match="unrecognized arguments: --xyz") as caught:
        parser.parse_args(["--xyz"])
    assert caught.value.hint == "soscope trace --help lists the options"


def test_only_words_that_were_typed_are_told() -> None:
    for words, said in ((["-o", "file"], "-o file"), (["-o", "--", "file"], "-o file")):
        with pytest.raises(UsageError, match=rf"^unrecognized arguments: {said}$"):
            snapshot.VERB.read(words)


def test_a_word_behind_an_option_that_takes_none_is_said() -> None:
    with pytest.raises(UsageError, match=r"^--decode-fds takes no value$"):
        trace.parse(["--decode-fds=all", "ls"])
