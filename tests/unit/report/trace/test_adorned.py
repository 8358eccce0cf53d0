# SPDX-License-Identifier: Apache-2.0
"""What lines may have beside ltrace's own: times in between, indents, columns, colours."""

from __future__ import annotations

import os
import pty
import re
from pathlib import Path

import pytest

from soscope.model.call import DATA_BYTES, Captured
from soscope.prototypes import load
from soscope.report.output import Output
from soscope.report.trace.display import (
    COLOUR_ALWAYS,
    COLOUR_AUTO,
    COLOUR_NEVER,
    Display,
    wants_colour,
)
from tests.unit.report.trace.test_text import SECOND, Screen, called, returned, whole

MINUS_ONE = 0xFFFF_FFFF


def test_times_in_between_count_from_line_to_line(tmp_path: Path) -> None:
    screen = Screen(tmp_path / "out", Display(relative=True))
    for at in (0, 1500, 2_000_000, 1_000_000):
        lines = screen.show(*whole(called("getpid", at=at), 7))
    starts = [line.split("getpid")[0] for line in lines]
    assert starts == ["  0.000000 ", "  0.000001 ", "  0.001998 ", "  0.000000 "]


def test_both_times_stand_in_front(tmp_path: Path) -> None:
    screen = Screen(tmp_path / "out", Display(relative=True, time=3, several=True))
    lines = screen.show(*whole(called("getpid", at=0), 7), *whole(called("getpid", at=SECOND), 7))
    assert lines[1].startswith("[pid 7]   1.000000 2.000000 getpid()")


def test_nested_calls_are_indented(tmp_path: Path) -> None:
    screen = Screen(tmp_path / "out", Display(indent=4))
    outer, inner = called("qsort", 1, 2, 3, 4), called("strlen", 5, a0=b"abc", at=10)
    inner.depth = 1
    lines = screen.show(outer, inner, returned(inner, 3), returned(outer, at=900))
    assert lines[0].startswith("qsort(")
    assert lines[1].startswith('    strlen("abc") ')
    assert lines[2].startswith("<... qsort resumed>")
    assert [line.index("=") for line in lines[1:]] == [49, 49]


@pytest.mark.parametrize("column", [0, 1, 20, 80])
def test_the_equals_sign_stands_in_its_column(column: int, tmp_path: Path) -> None:
    screen = Screen(tmp_path / "out", Display(column=column))
    line = screen.show(*whole(called("strlen", 1, a0=b"abc"), 3))[0]
    assert line.index("=") == max(column - 1, len('strlen("abc") '))


def test_colours_say_what_the_text_says(tmp_path: Path) -> None:
    plain = Screen(tmp_path / "plain")
    bright = Screen(tmp_path / "bright", Display(colour=COLOUR_ALWAYS))
    events = [
        *whole(called("strlen", 0x5000, a0=b"hello"), 5),
        *whole(called("open", 0x5000, 0, a0=b"/nosuch"), MINUS_ONE, errno=2),
        *whole(called("getpid"), 7),
    ]
    lines = bright.show(*events)
    assert [re.sub(r"\x1b\[\d*m", "", line) for line in lines] == plain.show(*events)
    assert lines[0].startswith('\x1b[36mstrlen\x1b[0m(\x1b[32m"hello"\x1b[0m) ')
    assert lines[1].endswith("= \x1b[31m-1 ENOENT (No such file or directory)\x1b[0m")
    assert lines[2].count("\x1b") == 2


@pytest.mark.parametrize(
    ("when", "terminal", "environ", "wanted"),
    [
        (COLOUR_AUTO, True, {"TERM": "xterm"}, True),
        (COLOUR_AUTO, True, {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (COLOUR_AUTO, True, {"TERM": "xterm", "NO_COLOR": ""}, True),
        (COLOUR_AUTO, True, {"TERM": "dumb"}, False),
        (COLOUR_AUTO, True, {}, False),
        (COLOUR_AUTO, False, {"TERM": "xterm"}, False),
        (COLOUR_ALWAYS, False, {"TERM": "dumb", "NO_COLOR": "1"}, True),
        (COLOUR_NEVER, True, {"TERM": "xterm"}, False),
    ],
)
def test_colours_are_for_terminals(
    when: str,
    terminal: bool,
    environ: dict[str, str],
    wanted: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("TERM", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    ends = pty.openpty() if terminal else os.pipe()
    try:
        assert wants_colour(when, Output(ends[1], "x")) == wanted
    finally:
        for end in ends:
            os.close(end)


@pytest.mark.parametrize(
    ("most", "text"), [(None, "[3, 4]"), (2, "[3, 4]"), (1, "[3, ...]"), (0, "[...]")]
)
def test_arrays_show_as_many_elements(most: int | None, text: str) -> None:
    prototypes = load()
    if most is not None:
        prototypes.show_elements(most)
    pair = Captured(data={0: (DATA_BYTES, 0, b"\3\0\0\0\4\0\0\0")})
    entry = called("pipe", 0x5000)
    leave = returned(entry, 0, captured=pair)
    (argument,) = prototypes.format_call(entry.slot, entry.captured, 32, leave)
    assert argument.shown == text
