# SPDX-License-Identifier: Apache-2.0
"""When recording begins and ends, and what the flight recorder does not go with."""

from __future__ import annotations

import signal

import pytest

from soscope.errors import UsageError
from soscope.verbs import report, trace


def test_recording_is_off_at_first_where_something_can_switch_it_on() -> None:
    gates = [
        trace.parse([*words, "prog"]).settings.gate
        for words in ([], ["--on", "a"], ["--off", "a"], ["--toggle", "USR1"])
    ]
    assert gates == [None, False, True, False]
    assert trace.parse(["--toggle", "usr2", "prog"]).settings.toggle == signal.SIGUSR2
    with pytest.raises(UsageError, match="not a signal to switch with"):
        trace.parse(["--toggle", "TERM", "prog"])


def test_the_flight_recorder_overwrites() -> None:
    settings = trace.parse(["--last", "2s", "--on-crash", "-p", "1"]).settings
    assert settings.flight is not None
    assert (settings.flight.last_ns, settings.flight.on_crash) == (2_000_000_000, True)
    assert (settings.when_full, settings.wants_events) == ("overwrite", False)


@pytest.mark.parametrize(
    "words", ["-c", "-C", "--count-only", "--on a", "--off a", "--toggle USR1", "--duration 1s",
              "--when-full drop", "-ff -o x", "--graph", "--svg x"],
)  # fmt: skip
def test_the_flight_recorder_stands_alone(words: str) -> None:
    with pytest.raises(
        UsageError, match=f"--last .*{words.split(maxsplit=1)[0]}|--last writes all"
    ):
        trace.parse(["--last", "1s", *words.split(), "prog"])


def test_its_reasons_need_it() -> None:
    for words in (["--on-crash"], ["--on-symbol", "abort"]):
        with pytest.raises(UsageError, match="is a trigger of --last"):
            trace.parse([*words, "prog"])


def test_a_report_has_them_too() -> None:
    choice = report.parse(["--on", "a", "--last", "1s", "run.sosr"]).choice
    assert choice is not None
    assert choice.on is not None
    assert (choice.off, choice.last_ns) == (None, 1_000_000_000)
