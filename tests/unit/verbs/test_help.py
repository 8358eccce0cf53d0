# SPDX-License-Identifier: Apache-2.0
"""The help of every verb, and what is said of wrong words: both come from the table of options."""

from __future__ import annotations

from importlib import import_module

import pytest

from soscope.errors import UsageError
from soscope.verbs import trace
from soscope.verbs.help import Help, short_help
from soscope.verbs.main import VERBS, module_name
from soscope.verbs.mem import snapshot
from soscope.verbs.options import Option, Verb


def verb_of(name: str) -> Verb:
    """Return the table of a verb."""
    verb: Verb = import_module(f"soscope.verbs.{module_name(name)}").VERB
    return verb


def made(*options: Option, least: int = 0, most: int | None = 0) -> Verb:
    """Return a verb that takes arguments, if it takes any, called FILE."""
    return Verb(
        "mine",
        *options,
        usage="soscope mine",
        short="",
        description="",
        epilog="",
        argument=("FILE", "a file"),
        least=least,
        most=most,
    )


SLOWER = Option("-s", "--slower", metavar="TIME", group="", help="by it")
LOUD = Option("--loud", group="how", rivals="noise", help="loud")
QUIET = Option("-q", "--quiet", group="how", rivals="noise", help="not loud")


@pytest.mark.parametrize(
    ("words", "said", "hint"),
    [
        (["--slowr=1s"], "there is no --slowr", "did you mean --slower?"),
        (["--hepl"], "there is no --hepl", "did you mean --help?"),
        (["--xyz", "-z"], "unrecognized arguments: --xyz -z", None),
        (["a", "b"], "unrecognized arguments: a b", None),
        (["-z", "file"], "unrecognized arguments: -z file", None),
        (["-s"], "-s: TIME is missing", None),
        (["--slower"], "--slower: TIME is missing", None),
        (["file", "--loud", "-s"], "-s: TIME is missing", None),
        (["--loud=very"], "--loud takes no value", None),
        (["--loud", "-q"], "-q: not allowed with --loud", None),
    ],
)
def test_wrong_words_are_said(words: list[str], said: str, hint: str | None) -> None:
    with pytest.raises(UsageError) as caught:
        made(SLOWER, LOUD, QUIET).read(words)
    assert caught.value.message == said
    assert caught.value.hint == (hint or "soscope mine --help lists the options")


def test_arguments_are_counted() -> None:
    with pytest.raises(UsageError, match=r"^the following arguments are required: FILE$"):
        made(least=1, most=2).read([])
    with pytest.raises(UsageError, match=r"^unrecognized arguments: c$"):
        made(least=1, most=2).read(["a", "b", "c"])
    assert made(most=None).read(["a", "--", "-b"])[1] == ["a", "-b"]


def test_only_words_that_were_typed_are_told() -> None:
    for words in (["-o", "file"], ["-o", "--", "file"]):
        with pytest.raises(UsageError, match=r"^unrecognized arguments: -o file$"):
            snapshot.VERB.read(words)


def test_a_word_behind_an_option_that_takes_none_is_said() -> None:
    with pytest.raises(UsageError, match=r"^--decode-fds takes no value$"):
        trace.parse(["--decode-fds=all", "ls"])


@pytest.mark.parametrize("verb", VERBS)
def test_help_is_asked_for_at_any_place_among_the_options(verb: str) -> None:
    table = verb_of(verb)
    for flag, begin in (("-h", "usage: soscope "), ("--help", "usage: soscope ")):
        for words in ([flag], ["--bogus", flag], ["--debug", flag, "-p"]):
            with pytest.raises(Help) as asked:
                table.read(words)
            assert asked.value.text.startswith(begin)
            assert asked.value.text.endswith("\n")


@pytest.mark.parametrize("verb", VERBS)
def test_the_long_help_has_every_option_and_fits(verb: str) -> None:
    table = verb_of(verb)
    with pytest.raises(Help) as asked:
        table.read(["--help"])
    out = asked.value.text
    for option in table.options:
        for flag in option.flags:
            assert f"{flag} {option.metavar}".rstrip() in out
        assert " ".join(option.help.split()) in " ".join(out.split())
    rows = out.partition("\ngeneral:\n")[2].partition(table.epilog.strip())[0]
    assert max(map(len, rows.splitlines())) <= 100
    assert table.description.strip() in out
    assert table.epilog.strip() in out


@pytest.mark.parametrize("verb", VERBS)
def test_the_short_help_fits_a_screen(verb: str) -> None:
    table = verb_of(verb)
    with pytest.raises(Help) as asked:
        table.read(["-h"])
    lines = asked.value.text.splitlines()
    assert len(lines) <= 30
    assert max(map(len, lines[1:])) <= 100
    by_flag = {flag: option for option in table.options for flag in option.flags}
    rows = [line for line in lines if line.startswith("  -") and line.split()[0] != "-"]
    assert rows
    for row in rows:
        flag, *rest = row.split()
        option = by_flag[flag]
        assert not option.takes_word or rest[0] == option.metavar
        text = " ".join(rest[option.takes_word :])
        assert option.help.startswith(text)


@pytest.mark.parametrize("name", VERBS)
def test_a_screen_begins_with_the_usage_and_ends_with_where_the_rest_is(name: str) -> None:
    lines = short_help(verb_of(name)).splitlines()
    assert lines[0].startswith("usage: soscope ")
    assert lines[-1] == f"soscope {name} --help lists all options."
