# SPDX-License-Identifier: Apache-2.0
"""The trace as a tree: one line for what has nothing inside, braces for the rest."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from soscope.instruments.trace.choice import Choice
from soscope.instruments.trace.filters import choose
from soscope.instruments.trace.listener import Listener
from soscope.instruments.trace.outcome import TraceOutcome
from soscope.model.call import (
    DATA_BYTES,
    DATA_STRING,
    NOTHING,
    Captured,
    Entry,
    Event,
    Exit,
    ProcessExit,
    ProcessStart,
)
from soscope.model.image import (
    ERROR_NONE,
    HOOKED,
    IMAGE_MAIN,
    SLOT_JUMP_SLOT,
    TracedImage,
    TracedSlot,
)
from soscope.prototypes import load
from soscope.report.output import Output
from soscope.report.trace.display import Display
from soscope.report.trace.tree import TreeListener
from soscope.select.filter import compile_selection
from tests.support.processes.leftovers import at_end

PROG = TracedImage(0, 0, "prog", "/bin/prog", 0, 0, 0, b"", IMAGE_MAIN, 2, 5, 0, 1)
PROTOTYPES = load()
EVERYTHING = compile_selection([])
LONG = 100_000_000


def called(symbol: str, depth: int, *words: int, at: int = 0, tid: int = 7, **data: bytes) -> Entry:
    slot = TracedSlot(
        0, 0, symbol, "", PROG, None, 0, SLOT_JUMP_SLOT, HOOKED, False, False, 1, ERROR_NONE
    )
    items = {int(name[1:]): (DATA_STRING, 0, text) for name, text in data.items()}
    never_ends = symbol == "exit"
    return Entry(at, 7, tid, slot, depth, 0x1234, Captured(words, data=items), never_ends)


def left(
    entry: Entry,
    result: int = 0,
    *,
    took: int = 300,
    ended: str = "return",
    captured: Captured = NOTHING,
    thread: tuple[int, int] | None = None,
) -> Exit:
    pid, tid = thread or (entry.pid, entry.tid)
    at = entry.time_ns + took
    return Exit(entry, at, took, result, None, captured, ended, pid, tid, entry.slot)


class Screen:
    """A tree that is written to a file which can be read at any time."""

    def __init__(self, path: Path, display: Display, choice: Choice | None = None) -> None:
        self.path = path
        output = Output.open(os.fspath(path))
        at_end(output.close)
        tree = TreeListener(output, display)
        self.listener: Listener = choose(tree, choice)
        self.listener.begin(PROTOTYPES, EVERYTHING)

    def show(self, *events: Event) -> list[str]:
        self.listener.events(list(events))
        return self.lines()

    def lines(self) -> list[str]:
        return self.path.read_text().splitlines()

    def end(self) -> list[str]:
        self.listener.end(TraceOutcome([], EVERYTHING))
        return self.lines()


@pytest.fixture
def screen(tmp_path: Path) -> Screen:
    return Screen(tmp_path / "out", Display(column=0, tree=True))


def test_a_call_without_calls_inside_is_one_line(screen: Screen) -> None:
    entry = called("strlen", 0, 0x5000, a0=b"hello")
    assert screen.show(entry, left(entry, 5)) == ['  0.300 us | strlen("hello") = 5']


def test_calls_inside_stand_between_braces(screen: Screen) -> None:
    outer, inner = called("qsort", 0, 1, 2, 3, 4), called("strlen", 1, 5, a0=b"abc", at=10)
    last = called("strlen", 0, 5, a0=b"", at=2000)
    lines = screen.show(outer, inner, left(inner, 3), left(outer, took=1500), last, left(last))
    assert lines == [
        "           | qsort(0x1, 2, 3, 0x4) {",
        '  0.300 us |   strlen("abc") = 3',
        "  1.500 us | } = <void> /* qsort */",
        '  0.300 us | strlen("") = 0',
    ]


def test_what_a_call_fills_in_stands_at_its_end(screen: Screen) -> None:
    got = Captured(data={1: (DATA_BYTES, 0, b"hi")})
    outer, inner = called("read", 0, 3, 0x5000, 10), called("getpid", 1, at=10)
    lines = screen.show(outer, inner, left(inner, 7), left(outer, 2, captured=got))
    assert lines[0] == "           | read(3, ...) {"
    assert lines[2] == '  0.300 us | } = 2 /* read(..., "hi", 10) */'


def test_another_thread_has_a_tree_of_its_own(screen: Screen) -> None:
    outer, inner = called("qsort", 0, 1, 2, 3, 4), called("getpid", 0, at=10, tid=8)
    nested = called("getpid", 1, at=20)
    lines = screen.show(outer, inner, left(inner, 7), nested, left(nested, 7), left(outer))
    assert lines[1:] == [
        "[pid 8]   0.300 us | getpid() = 7",
        "[pid 7]   0.300 us |   getpid() = 7",
        "[pid 7]   0.300 us | } = <void> /* qsort */",
    ]


def test_a_call_that_takes_long_is_shown_while_it_waits(screen: Screen) -> None:
    assert screen.show(called("read", 0, 3, 0x5000, 10)) == []
    screen.listener.caught_up(LONG - 1)
    assert screen.lines() == []
    screen.listener.caught_up(LONG)
    assert screen.lines() == ["           | read(3, ...) {"]


def test_calls_that_never_end(screen: Screen) -> None:
    stopped, last = called("qsort", 0, 1, 2, 3, 4), called("exit", 1, 3)
    lines = screen.show(stopped, last, left(stopped, ended="exit"), ProcessExit(9, 7, 3, None))
    assert lines[1:] == ["           |   exit(3) <no return ...>", "+++ exited (status 3) +++"]
    screen.show(called("pause", 0))
    assert screen.end()[-1] == "           | pause() <unfinished ...>"


def test_what_is_left_by_longjmp_is_closed(screen: Screen) -> None:
    outer, inner = called("qsort", 0, 1, 2, 3, 4), called("getpid", 1)
    after = called("getpid", 0, at=50)
    lines = screen.show(
        outer, inner, left(inner, 7), left(outer, ended="unwound"), after, left(after)
    )
    assert lines[2:] == ["  0.300 us | } = <unwound> /* qsort */", "  0.300 us | getpid() = 0"]


def test_a_forked_child_goes_on_where_its_parent_was(screen: Screen) -> None:
    outer, fork = called("qsort", 0, 1, 2, 3, 4), called("fork", 1, at=10)
    mine, theirs = called("getpid", 1, at=20), called("getpid", 1, at=20, tid=9)
    lines = screen.show(
        outer, fork, ProcessStart(15, 9, "fork", 7, "prog"),
        left(fork, 0, thread=(9, 9)), theirs, left(theirs, 9), left(outer, thread=(9, 9)),
        left(fork, 9), mine, left(mine, 7),
    )  # fmt: skip
    assert [line.partition(" | ")[2] for line in lines] == [
        "qsort(0x1, 2, 3, 0x4) {",
        "  fork() {",
        "  } = 0 /* fork */",
        "  getpid() = 9",
        "} = <void> /* qsort */",
        "  } = 9 /* fork */",
        "  getpid() = 7",
    ]


def test_a_slow_call_is_shown_with_the_calls_around_it(tmp_path: Path) -> None:
    screen = Screen(tmp_path / "out", Display(column=0), Choice(slower_ns=1000))
    outer, slow = called("qsort", 0, 1, 2, 3, 4), called("getpid", 1, at=10)
    quick = called("getuid", 1, at=5)
    alone = called("getgid", 0, at=8000)
    lines = screen.show(
        outer, quick, left(quick), slow, left(slow, 7, took=2000), left(outer, took=5000),
        alone, left(alone),
    )  # fmt: skip
    assert lines == [
        "           | qsort(0x1, 2, 3, 0x4) {",
        "  2.000 us |   getpid() = 7",
        "  5.000 us | } = <void> /* qsort */",
    ]
    assert screen.listener.shown == 2


def test_calls_around_that_the_filter_leaves_out_take_no_room(tmp_path: Path) -> None:
    screen = Screen(
        tmp_path / "out", Display(column=0), Choice(selection=compile_selection(["get*"]))
    )
    outer, inner = called("qsort", 0, 1, 2, 3, 4), called("getpid", 1)
    assert screen.show(outer, inner, left(inner, 7), left(outer)) == ["  0.300 us | getpid() = 7"]


def test_options_of_the_display(tmp_path: Path) -> None:
    screen = Screen(tmp_path / "out", Display(column=30, indent=4, relative=True, durations=True))
    outer, inner = called("qsort", 0, 1, 2, 3, 4), called("getpid", 1, at=2000)
    lines = screen.show(outer, inner, left(inner, 7), left(outer, took=9000))
    assert lines[1] == "  0.000002   0.300 us |     getpid() = 7"
    assert lines[2] == "  0.000007   9.000 us | }    = <void> /* qsort */"
