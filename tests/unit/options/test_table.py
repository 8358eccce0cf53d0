# SPDX-License-Identifier: Apache-2.0
"""The quick parser and argparse understand the same words in the same way."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soscope.errors import UsageError
from soscope.verbs import trace
from soscope.verbs.options import Values, joined, scan, split

WORDS = st.sampled_from(
    "-e -emalloc -malloc -c -cf -fe -T -tt -tTo -o out -o- - -- --json --json=x --from all "
    "--from=all --to= --bogus -z -q -v -qv -s 10 -s5 --buffer=1m --when-full drop ls -l x".split()
)


def told(values: Values, command: list[str]) -> dict[str, object]:
    """Return everything that a parser understood."""
    said = {option.dest: getattr(values, option.dest) for option in trace.OPTIONS}
    return {**said, "command": command}


@settings(max_examples=400)
@given(st.lists(WORDS, max_size=6))
def test_what_the_quick_parser_takes_argparse_takes_too(words: list[str]) -> None:
    if any(word != "--" and word.endswith("--") for word in joined(trace.OPTIONS, words)):
        return  # argparse loses a value that is two dashes
    try:
        scanned = scan(trace.OPTIONS, words)
    except UsageError as error:
        quick: object = error.message
    else:
        if scanned is None:
            return
        quick = told(*scanned)
    try:
        slow: object = told(*trace.VERB.read_slowly(words))
    except UsageError as error:
        slow = error.message
    assert quick == slow


@settings(max_examples=200)
@given(st.lists(WORDS, max_size=6))
def test_what_the_quick_parser_refuses_argparse_explains(words: list[str]) -> None:
    try:
        if scan(trace.OPTIONS, words) is not None:
            return
    except UsageError:
        return
    with pytest.raises(UsageError, match=r"\w"):
        trace.VERB.read_slowly(words)


def test_a_value_may_look_like_an_option() -> None:
    """As with getopt: in ltrace, -e -malloc is everything but malloc."""
    for words in (["-e", "-malloc", "-f", "ls"], ["-e-malloc", "-f", "ls"]):
        options = trace.parse(words)
        assert options.settings.select == ["-malloc"]
        assert options.settings.follow
    assert trace.parse(["--select", "-malloc", "ls"]).settings.select == ["-malloc"]
    assert joined(trace.OPTIONS, ["-e", "-a", "--to", "-b", "--", "-e", "-c"]) == [
        "-e-a",
        "--to=-b",
        "--",
        "-e",
        "-c",
    ]


def test_letters_can_be_put_together() -> None:
    by_flag = {flag: option for option in trace.OPTIONS for flag in option.flags}
    assert split("-cfofile", by_flag) == [("-c", None), ("-f", None), ("-o", "file")]
    assert split("--from=a=b", by_flag) == [("--from", "a=b")]


def test_a_list_is_not_shared_between_runs() -> None:
    trace.parse(["-e", "a", "ls"])
    assert trace.parse(["ls"]).settings.select == []


def test_the_name_of_the_option_is_in_the_message() -> None:
    for words in (["--buffer", "x", "ls"], ["--buffer", "x", "--bogus"]):
        with pytest.raises(UsageError, match="--buffer: 'x' is not a size") as raised:
            trace.parse(words)
        assert raised.value.hint
