# SPDX-License-Identifier: Apache-2.0
"""What the words behind `soscope trace` and `soscope report` become."""

from __future__ import annotations

import pytest

from soscope.errors import UsageError
from soscope.verbs import report, trace


def test_options_come_first_and_the_command_after() -> None:
    options = trace.parse(["-e", "open*", "ls", "-l", "-e", "x", "--", "--json"])
    assert options.settings.select == ["open*"]
    assert options.settings.command == ["ls", "-l", "-e", "x", "--", "--json"]
    assert not options.asked.json


def test_one_leading_double_dash_is_stripped() -> None:
    assert trace.parse(["--", "ls", "--", "x"]).settings.command == ["ls", "--", "x"]
    assert trace.parse(["-f", "--", "--odd"]).settings.command == ["--odd"]
    assert trace.parse(["-T", "ls"]).settings.command == ["ls"]


def test_all_options_arrive() -> None:
    options = trace.parse(
        "-e a -ebc --from all --from X -l libz* --to libm* -c -f -o out -tt -T -s 100 "
        "--duration 250ms --buffer 1m --max-size 1g --when-full drop --json -v --record r.sosr "
        "--debug -- prog".split()
    )
    settings, display = options.settings, options.display
    assert settings.select == ["a", "bc"]
    assert settings.from_ == ["all", "X"]
    assert settings.to == ["libz*", "libm*"]
    assert settings.mode == "summary"
    assert settings.follow
    assert settings.string_limit == 100
    assert settings.duration_ns == 250_000_000
    assert settings.buffer == 1 << 20
    assert settings.limit == 1 << 30
    assert settings.when_full == "drop"
    assert settings.record == "r.sosr"
    assert settings.debug
    assert (display.time, display.durations, display.string_limit) == (2, True, 100)
    assert display.verbose
    assert not display.quiet
    assert options.asked.output == "out"
    assert options.asked.json


def test_the_defaults_are_those_of_ltrace() -> None:
    options = trace.parse(["true"])
    settings = options.settings
    assert (settings.mode, settings.follow, settings.string_limit) == ("trace", False, 32)
    assert settings.when_full == "block"
    assert settings.limit is None
    assert settings.duration_ns is None
    assert options.asked.output is None
    assert options.display.time == 0


@pytest.mark.parametrize(
    ("words", "prints", "wants_events"),
    [
        ("ls", True, True),
        ("--record r ls", False, False),
        ("--record r -o x ls", True, True),
        ("-c ls", True, False),
        ("--count-only ls", True, False),
    ],
)
def test_a_recording_alone_prints_nothing(words: str, prints: bool, wants_events: bool) -> None:
    options = trace.parse(words.split())
    assert options.prints == prints
    assert options.settings.wants_events == wants_events


@pytest.mark.parametrize("letters", ["-t -t -t", "-ttt", "-tttt"])
def test_repeated_t_means_more_of_the_time(letters: str) -> None:
    assert trace.parse([*letters.split(), "ls"]).display.time == 3


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("", "no command"),
        ("--", "no command"),
        ("-e", "-e"),
        ("--sel x ls", "--sel"),
        ("--bogus ls", "--bogus"),
        ("-c --count-only ls", "not allowed with"),
        ("-c --entry-only ls", "not allowed with"),
        ("--entry-only --slower 1ms ls", "--slower: --entry-only records no ends"),
        ("--entry-only -z ls", "-z: --entry-only records no ends"),
        ("--entry-only -Z ls", "-Z: --entry-only records no ends"),
        ("--entry-only --where ret<0 ls", "--where: --entry-only records no ends"),
        ("-q -v ls", "not allowed with"),
        ("--when-full maybe ls", "maybe"),
        ("--buffer 10x ls", "10x"),
        ("--buffer 1k ls", "--buffer"),
        ("--duration soon ls", "soon"),
        ("-s 100000 ls", "-s"),
        ("-s x ls", "number"),
        ("--max-size 1m ls", "--max-size"),
    ],
)
def test_wrong_words_are_usage_errors(words: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        trace.parse(words.split())


def test_what_entries_tell_can_be_asked_of_them_alone() -> None:
    words = ["--entry-only", "--where", "size > 3", "--depth", "1", "-P", "/etc/passwd", "ls"]
    assert trace.parse(words).settings.entry_only


def test_durations_that_are_not_recorded_are_remarked() -> None:
    remarks = trace.parse(["--entry-only", "-T", "ls"]).display.remarks
    assert remarks == ["--entry-only records no ends of calls, so -T shows no durations"]
    assert not trace.parse(["--entry-only", "ls"]).display.remarks


def test_report_takes_the_display_options_and_one_file() -> None:
    options = report.parse(["--json", "-T", "run.sosr"])
    assert options.path == "run.sosr"
    assert options.asked.json
    assert options.display.durations
    with pytest.raises(UsageError, match="FILE"):
        report.parse([])
    with pytest.raises(UsageError, match="unrecognized"):
        report.parse(["a", "b"])


def test_stacks_have_as_many_frames_as_are_wanted() -> None:
    for words, frames in (([], 0), (["-k"], 64), (["-k", "--stack-depth", "3"], 3)):
        options = trace.parse([*words, "ls"])
        assert (options.settings.stacks, options.display.stacks) == (frames, frames)


@pytest.mark.parametrize(
    "words",
    [
        ["--stack-depth", "3"],
        ["-k", "--stack-depth", "0"],
        ["-k", "--stack-depth", "65"],
        ["-k", "-c"],
        ["-k", "--count-only"],
    ],
)
def test_stacks_without_calls_and_sizes_that_cannot_be(words: list[str]) -> None:
    with pytest.raises(UsageError, match=r"-k|--stack-depth"):
        trace.parse([*words, "ls"])
