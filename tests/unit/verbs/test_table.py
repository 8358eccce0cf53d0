# SPDX-License-Identifier: Apache-2.0
"""Words are read as getopt reads them, and words that cannot be read are explained."""

from __future__ import annotations

from getopt import getopt
from importlib import import_module

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soscope.errors import UsageError
from soscope.verbs import trace
from soscope.verbs.help import long_help
from soscope.verbs.main import VERBS, module_name
from soscope.verbs.mem import leaks
from soscope.verbs.options import Option, Values, command_at, scan, split, table

WORDS = st.sampled_from(
    "-e -emalloc -malloc -c -cf -fe -T -tt -tTo -o out -o- - -- --json --json=x --from all "
    "--from=all --to= --bogus -z -q -v -qv -s 10 -s5 --buffer=1m --when-full drop ls -l x".split()
)


@settings(max_examples=400)
@given(st.lists(WORDS, max_size=6))
def test_words_that_are_not_read_are_explained(words: list[str]) -> None:
    """Whatever is refused has a message; whatever is read is options, then the command."""
    try:
        scanned = scan(trace.VERB.options, words)
    except UsageError:
        return  # a value that is none
    if scanned is None:
        with pytest.raises(UsageError, match=r"\w"):
            trace.VERB.read(words)
        return
    _, command = scanned
    at = command_at(trace.VERB.options, words)
    assert command == (words[at + 1 :] if words[at : at + 1] == ["--"] else words[at:])


@settings(max_examples=300)
@given(st.lists(WORDS, max_size=6))
def test_getopt_reads_the_same(words: list[str]) -> None:
    """The standard library's getopt takes what we take, where no value begins with a dash."""
    try:
        scanned = scan(trace.VERB.options, words)
    except UsageError:
        return
    if scanned is None:
        return
    letters = ""
    names: list[str] = []
    for option in trace.VERB.options:
        for flag in option.flags:
            if flag.startswith("--"):
                names.append(flag[2:] + "=" * option.takes_word)
            else:
                letters += flag[1] + ":" * option.takes_word
    given_options, rest = getopt(words, letters, names)
    by_flag = {flag: option for option in trace.VERB.options for flag in option.flags}
    wanted = Values(trace.VERB.options)
    for flag, value in given_options:
        option = by_flag[flag]
        wanted.take(option, value if option.takes_word else None)
    assert (vars(scanned[0]), scanned[1]) == (vars(wanted), rest)


def test_a_value_may_look_like_an_option() -> None:
    """As with getopt: in ltrace, -e -malloc is everything but malloc."""
    for words in (["-e", "-malloc", "-f", "ls"], ["-e-malloc", "-f", "ls"]):
        options = trace.parse(words)
        assert options.settings.select == ["-malloc"]
        assert options.settings.follow
    assert trace.parse(["--select", "-malloc", "ls"]).settings.select == ["-malloc"]


def test_letters_can_be_put_together() -> None:
    by_flag = {flag: option for option in trace.VERB.options for flag in option.flags}
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


@pytest.mark.parametrize("verb", VERBS)
def test_a_spelling_means_the_same_in_every_verb(verb: str) -> None:
    """What is shared has one name of its value, whatever the spelling."""
    meant = {
        "duration": {"--duration", "--for"},
        "json": {"--json"},
        "output": {"-o", "--output"},
        "quiet": {"-q", "--quiet"},
        "follow": {"-f", "--follow-forks"},
        "debug": {"--debug"},
    }
    for option in import_module(f"soscope.verbs.{module_name(verb)}").VERB.options:
        for dest, flags in meant.items():
            assert flags.isdisjoint(option.spellings) == (option.dest != dest), option.flags


def test_a_former_spelling_is_taken_and_no_help_tells_of_it() -> None:
    for flag in ("--duration", "--for"):
        assert leaks.VERB.read(["-p", "7", flag, "5s"])[0].duration == 5_000_000_000
    for flag in ("--top", "--limit"):
        assert leaks.VERB.read([flag, "3", "r"])[0].rows == 3
    assert "--for " not in long_help(leaks.VERB)
    assert "--top" not in long_help(leaks.VERB)
    with pytest.raises(UsageError, match="there is no --fo"):
        leaks.VERB.read(["--fo", "5s", "r"])


def _options(verb: str) -> list[Option]:
    options: list[Option] = import_module(f"soscope.verbs.{module_name(verb)}").VERB.options
    return options


@pytest.mark.parametrize(
    ("verb", "spelling", "former", "dest"),
    [
        ("trace", "--max-size", "--limit", "max_size"),
        ("inject", "--max-size", "--limit", "max_size"),
        ("report", "--top", "--limit", "top"),
        ("mem refs", "--sample-size", "--samples", "sample_size"),
        ("patch", "--check-types", "--check", "check"),
        ("prof run", "--to", "--image", "images"),
        ("prof attach", "--to", "--image", "images"),
    ],
)
def test_what_had_the_spelling_of_another_option_has_it_still(
    verb: str, spelling: str, former: str, dest: str
) -> None:
    options = _options(verb)
    [option] = [one for one in options if former in one.spellings]
    assert (option.dest, spelling in option.flags) == (dest, True)
    values = ["7"] * option.takes_word
    now, before = scan(options, [spelling, *values]), scan(options, [former, *values])
    assert now is not None
    assert before is not None
    assert getattr(now[0], dest) == getattr(before[0], dest)
    assert f"{former} " not in long_help(import_module(f"soscope.verbs.{module_name(verb)}").VERB)


def test_a_documented_spelling_has_a_value_in_all_verbs_or_in_none() -> None:
    with_value: dict[str, bool] = {}
    for verb in VERBS:
        for option in _options(verb):
            for flag in option.flags:
                if len(flag) > 2:
                    assert with_value.setdefault(flag, option.takes_word) == option.takes_word, flag


def test_an_option_says_by_its_flag_and_metavar_what_it_is() -> None:
    options = [
        Option("--wait", metavar="TIME", help=""),
        Option("-s", "--kept-size", metavar="SIZE", help=""),
        Option("--rows", dest="most", metavar="N", help=""),
        Option("--loud", help=""),
    ]
    scanned = scan(options, "--wait 2s -s 1k --rows 3 --loud".split())
    assert scanned is not None
    values, _ = scanned
    assert (values.wait, values.kept_size, values.most) == (2_000_000_000, 1024, 3)
    assert values.loud is True


def test_a_text_in_a_table_is_the_group_of_the_options_behind_it() -> None:
    own = Option("--own", group="", help="")
    rows = table(Option("-a", help=""), "first", Option("-b", help=""), own, "second", own)
    assert [row.group for row in rows] == ["", "first", "", ""]
    assert [row.group for row in table("third", *rows)] == ["", "first", "", ""]
