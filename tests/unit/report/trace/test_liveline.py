# SPDX-License-Identifier: Apache-2.0
"""The live line, on terminals that show nothing and of programs with odd names."""

from __future__ import annotations

import os
import termios
import time
from collections.abc import Iterator

import pytest

from soscope.report.trace import liveline
from soscope.report.trace.liveline import LiveLine


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    ends = os.openpty()
    yield ends
    for end in ends:
        os.close(end)


def test_a_terminal_that_stands_still_is_not_waited_for(
    terminal: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(liveline, "_EVERY", 0.0)
    mine, theirs = terminal
    termios.tcflow(theirs, termios.TCOOFF)  # Ctrl-S
    line = LiveLine(theirs)
    line.calls = lambda: 7
    line.move()  # would wait until Ctrl-Q
    termios.tcflow(theirs, termios.TCOON)
    line.move()
    assert b"7 calls" in os.read(mine, 1000)


def test_names_are_no_commands_to_the_terminal(terminal: tuple[int, int]) -> None:
    line = LiveLine(terminal[1])
    # in place of what a control block counts
    line._count = lambda: (3, "f\x1b]0;title\x07 100%")  # type: ignore[method-assign]
    assert line._text(time.monotonic()).isprintable()
