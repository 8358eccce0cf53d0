# SPDX-License-Identifier: Apache-2.0
"""The trace as text: ltrace's words and shape."""

from __future__ import annotations

import os
import time as clock
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from soscope.instruments.trace.outcome import TraceOutcome
from soscope.model.call import (
    DATA_BYTES,
    DATA_STRING,
    DATA_TRUNCATED,
    NOTHING,
    Captured,
    Dropped,
    Entry,
    Event,
    Exit,
    ProcessExit,
    ProcessStart,
    Signal,
)
from soscope.model.image import (
    ERROR_INT_NEGATIVE,
    ERROR_LONG_NEGATIVE,
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
from soscope.report.trace.text import TextListener
from soscope.select.filter import compile_selection
from tests.support.processes.leftovers import at_end

PROG = TracedImage(0, 0, "prog", "/bin/prog", 0, 0, 0, b"", IMAGE_MAIN, 2, 5, 0, 1)
RULES = {"open": ERROR_INT_NEGATIVE, "read": ERROR_LONG_NEGATIVE}
SECOND = 1_000_000_000
LONG = 100_000_000
PROTOTYPES = load()


def slot(symbol: str) -> TracedSlot:
    """Make a slot of the program."""
    rule = RULES.get(symbol, ERROR_NONE)
    return TracedSlot(
        0, 0, symbol, "", PROG, None, 0, SLOT_JUMP_SLOT, HOOKED, False, False, 1, rule
    )


def called(
    symbol: str, *words: int, tid: int = 7, entry_only: bool = False, at: int = 0, **data: bytes
) -> Entry:
    """Make an entry; `data` are strings by the name of their argument: a0, a1."""
    items = {int(name[1:]): (DATA_STRING, 0, text) for name, text in data.items()}
    return Entry(
        SECOND + at, 7, tid, slot(symbol), 0, 0x1234, Captured(words, data=items), entry_only
    )


def returned(
    entry: Entry | None,
    result: int | None = 0,
    *,
    errno: int | None = None,
    ended: str = "return",
    took: int | None = 300,
    captured: Captured = NOTHING,
    at: int = 300,
    symbol: str = "f",
    tid: int | None = None,
) -> Exit:
    """Make the end of a call."""
    known = entry.slot if entry else slot(symbol)
    thread = tid if tid is not None else entry.tid if entry else 7
    return Exit(entry, SECOND + at, took, result, errno, captured, ended, 7, thread, known)


class Screen:
    """A text listener that writes to a file which can be read at any time."""

    def __init__(self, path: Path, display: Display | None = None, select: str = "") -> None:
        self.path = path
        self.output = Output.open(os.fspath(path))
        at_end(self.output.close)
        self.listener = TextListener(self.output, display or Display())
        self.selection = compile_selection([select] if select else [])
        self.listener.begin(PROTOTYPES, self.selection)

    def show(self, *events: Event) -> list[str]:
        """Hand in events; return all lines so far."""
        self.listener.events(list(events))
        return self.path.read_text().splitlines()

    def end(self) -> list[str]:
        """End the trace; return all lines."""
        self.listener.end(TraceOutcome([], self.selection))
        return self.path.read_text().splitlines()


@pytest.fixture
def screen(tmp_path: Path) -> Screen:
    """Make a screen without any option."""
    return Screen(tmp_path / "out")


def whole(entry: Entry, *args: object, **kwargs: object) -> Sequence[Event]:
    """Make a call that returns at once."""
    return entry, returned(entry, *args, **kwargs)  # type: ignore[arg-type]  # as returned() takes them


def test_a_call_is_one_line_with_the_result_in_ltraces_column(screen: Screen) -> None:
    lines = screen.show(*whole(called("strlen", 0x5000, a0=b"hello"), 5))
    assert lines == ['strlen("hello")                                  = 5']
    assert lines[0].index("=") == 49


def test_a_long_call_has_one_blank_before_the_result(screen: Screen) -> None:
    long = called("strcmp", 1, 2, a0=b"x" * 20, a1=b"y" * 20)
    assert screen.show(*whole(long, 1)) == [f'strcmp("{"x" * 20}", "{"y" * 20}") = 1']


def test_a_function_without_a_result_is_void(screen: Screen) -> None:
    assert screen.show(*whole(called("free", 0)))[0].split("= ")[1] == "<void>"


def test_a_failure_has_its_errno(screen: Screen) -> None:
    call = called("open", 0x5000, 0, a0=b"/nosuch")
    minus_one = 0xFFFF_FFFF
    line = screen.show(*whole(call, minus_one, errno=2))[0]
    assert line.endswith("= -1 ENOENT (No such file or directory)")


def test_an_unknown_function_shows_marked_words(screen: Screen) -> None:
    line = screen.show(*whole(called("add", 1, 2, 0, 0x7FFF_FFFF_0000), 3))[0]
    assert line.startswith("add(1, 2, 0, 0x7fffffff0000")
    assert "?" in line


def test_what_a_call_fills_in_is_shown_when_it_returns(screen: Screen) -> None:
    got = Captured(data={1: (DATA_BYTES, 0, b"root")})
    call = called("read", 3, 0x5000, 4096)
    assert screen.show(*whole(call, 4, captured=got))[0].startswith('read(3, "root", 4096) ')


def test_a_nested_call_makes_two_lines_of_the_outer_one(screen: Screen) -> None:
    outer, inner = called("qsort", 1, 2, 3, 4), called("strlen", 5, a0=b"abc", at=10)
    lines = screen.show(outer, inner, returned(inner, 3), returned(outer, at=900))
    assert lines[0].startswith("qsort(")
    assert lines[0].endswith(" <unfinished ...>")
    assert lines[1].startswith('strlen("abc")')
    assert lines[2] == "<... qsort resumed> )                            = <void>"


def test_an_interrupted_call_shows_what_it_filled_in_when_it_resumes(screen: Screen) -> None:
    outer, inner = called("read", 3, 0x5000, 10), called("getpid", at=10, tid=8)
    got = Captured(data={1: (DATA_BYTES, 0, b"hi")})
    lines = screen.show(outer, inner, returned(inner, 9), returned(outer, 2, captured=got))
    assert lines[0].endswith("read(3, <unfinished ...>")
    assert lines[2].startswith('[pid 7] <... read resumed> "hi", 10) ')


def test_the_caller_is_named_where_a_filter_is_given(tmp_path: Path) -> None:
    screen = Screen(tmp_path / "out", select="strlen")
    assert screen.show(*whole(called("strlen", 1, a0=b"a"), 1))[0].startswith('prog->strlen("a")')


def test_pids_stand_in_front_once_there_are_two_threads(screen: Screen) -> None:
    first, second = called("getpid"), called("getpid", tid=8)
    lines = screen.show(*whole(first, 7), *whole(second, 7), *whole(called("getpid"), 7))
    assert lines[0].startswith("getpid()")
    assert lines[1].startswith("[pid 8] getpid()")
    assert lines[2].startswith("[pid 7] getpid()")
    assert lines[1].index("=") == 49


def test_a_fork_brings_pids_even_if_the_child_says_nothing(screen: Screen) -> None:
    fork = ProcessStart(SECOND, 9, "fork", 7, "/bin/prog")
    assert screen.show(*whole(called("getpid")), fork, *whole(called("getpid")))[1].startswith(
        "[pid 7] "
    )


def test_the_end_of_a_process_and_its_signals_are_lines(screen: Screen) -> None:
    lines = screen.show(
        ProcessStart(SECOND, 7, "start", None, "/bin/prog"),
        Signal(SECOND, 7, 7, 15),
        ProcessStart(SECOND, 7, "exec", None, "/bin/other"),
        ProcessExit(SECOND, 7, 3, None),
    )
    assert lines == [
        "--- SIGTERM (Terminated) ---",
        "--- Called exec() ---",
        "+++ exited (status 3) +++",
    ]


def test_a_call_that_never_returns_is_said_to(screen: Screen) -> None:
    lines = screen.show(called("exit", 0, entry_only=True), ProcessExit(SECOND, 7, 0, None))
    assert lines == ["exit(0 <no return ...>", "+++ exited (status 0) +++"]


def test_an_entry_alone_has_no_result(screen: Screen) -> None:
    assert screen.show(called("strlen", 1, a0=b"a", entry_only=True)) == ['strlen("a")']


def test_a_killed_program_leaves_its_call_unfinished(screen: Screen) -> None:
    call = called("getpid")
    lines = screen.show(call, returned(call, None, ended="killed"), ProcessExit(SECOND, 7, None, 9))
    assert lines == ["getpid( <unfinished ...>", "+++ killed by SIGKILL +++"]


def test_an_exit_closes_the_call_that_made_it_and_no_other(screen: Screen) -> None:
    outer, inner = called("qsort", 1, 2, 3, 4), called("getpid")
    lines = screen.show(
        outer,
        inner,
        returned(inner, None, ended="exit"),
        returned(outer, None, ended="exit"),
        ProcessExit(SECOND, 7, 0, None),
    )
    assert lines[1:] == ["getpid( <no return ...>", "+++ exited (status 0) +++"]


@pytest.mark.parametrize("ended", ["unwound", "lost"])
def test_a_call_that_ended_otherwise_says_how(screen: Screen, ended: str) -> None:
    call = called("getpid")
    line = screen.show(call, returned(call, None, ended=ended, took=None))[0]
    assert line.split("= ")[1] == f"<{ended}>"


def test_a_result_whose_entry_was_lost_is_no_line(screen: Screen) -> None:
    call = called("getpid")
    lines = screen.show(call, returned(None, 5, symbol="strlen"), returned(call, 7))
    assert [line.split("(")[0] for line in lines] == ["getpid"]


def test_a_forked_childs_return_is_a_line_of_the_child(screen: Screen) -> None:
    fork = called("fork")
    child = returned(fork, 0, tid=9)
    child.pid = 9
    lines = screen.show(
        fork, ProcessStart(SECOND, 9, "fork", 7, "/bin/prog"), child, returned(fork, 9)
    )
    assert [" ".join(line.split()) for line in lines] == [
        "[pid 7] fork( <unfinished ...>",
        "[pid 9] <... fork resumed> ) = 0",
        "[pid 7] <... fork resumed> ) = 9",
    ]


def test_a_call_that_ends_on_another_thread_resumes_there(screen: Screen) -> None:
    call = called("getpid")
    lines = screen.show(*whole(called("getppid", tid=8)), call, returned(call, 7, tid=8))
    assert [" ".join(line.split()) for line in lines[1:]] == [
        "[pid 7] getpid( <unfinished ...>",
        "[pid 8] <... getpid resumed> ) = 7",
    ]


def test_a_function_that_returns_twice_resumes(screen: Screen) -> None:
    call = called("_setjmp", 0x5000)
    lines = screen.show(call, returned(call, 0), *whole(called("getpid")), returned(call, 1))
    assert lines[0].startswith("_setjmp(")
    assert lines[0].endswith("= 0")
    assert lines[2].startswith("<... _setjmp resumed> )")
    assert lines[2].endswith("= 1")


def test_losses_are_lines(screen: Screen) -> None:
    assert screen.show(Dropped(1204, "the ring was full")) == [
        "--- 1,204 events dropped: the ring was full ---"
    ]


def test_a_call_that_waits_is_shown_as_far_as_it_is_known(screen: Screen) -> None:
    call = called("read", 0, 0x5000, 10)
    assert screen.show(call) == []
    screen.listener.caught_up(0)  # some events still wait to be handed over
    screen.listener.caught_up(SECOND + LONG - 1)
    assert screen.path.read_text() == ""
    screen.listener.caught_up(SECOND + LONG)
    screen.listener.caught_up(SECOND + LONG)
    assert screen.path.read_text() == "read(0, "
    got = Captured(data={1: (DATA_BYTES, 0, b"hi")})
    lines = screen.show(returned(call, 2, captured=got))
    assert lines == ['read(0, "hi", 10)                                = 2']


def test_a_call_that_waits_may_be_interrupted(screen: Screen) -> None:
    call = called("read", 0, 0x5000, 10)
    screen.show(call)
    screen.listener.caught_up(SECOND + LONG)
    lines = screen.show(Signal(SECOND, 7, 7, 10))
    assert lines == ["read(0, <unfinished ...>", "--- SIGUSR1 (User defined signal 1) ---"]


def test_a_call_without_out_arguments_waits_whole(screen: Screen) -> None:
    call = called("strlen", 1, a0=b"abc")
    screen.show(call)
    screen.listener.caught_up(SECOND + LONG)
    assert screen.path.read_text() == 'strlen("abc"'
    assert (
        screen.show(returned(call, 3))[0] == 'strlen("abc")                                    = 3'
    )


def test_the_last_call_of_a_trace_is_not_swallowed(screen: Screen) -> None:
    screen.show(called("getpid"))
    assert screen.end() == ["getpid( <unfinished ...>"]


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Be in Greenwich for a while."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        clock.tzset()
        yield
    clock.tzset()


@pytest.mark.usefixtures("utc")
@pytest.mark.parametrize(
    ("time", "start"), [(1, "00:00:01 "), (2, "00:00:01.000123 "), (3, "1.000123 ")]
)
def test_times_stand_in_front(time: int, start: str, tmp_path: Path) -> None:
    screen = Screen(tmp_path / "out", Display(time=time))
    lines = screen.show(*whole(called("getpid", at=123_456)))
    assert lines[0].startswith(f"{start}getpid()")


def test_durations_stand_at_the_end(tmp_path: Path) -> None:
    screen = Screen(tmp_path / "out", Display(durations=True))
    lines = screen.show(
        *whole(called("getpid"), 7, took=257), *whole(called("getpid"), 7, took=3 * SECOND + 5)
    )
    assert lines[0].endswith("= 7 <0.000000257>")
    assert lines[1].endswith("= 7 <3.000000005>")


def test_strings_are_cut_at_the_limit(tmp_path: Path) -> None:
    screen = Screen(tmp_path / "out", Display(string_limit=4))
    call = called("strlen", 1, a0=b"abcdefgh")
    assert '"abcd"...' in screen.show(*whole(call, 8))[0]
    cut = Captured((1,), data={0: (DATA_STRING, DATA_TRUNCATED, b"abc")})
    entry = Entry(SECOND, 7, 7, slot("strlen"), 0, 0, cut, False)
    assert '"abc"...' in screen.show(*whole(entry, 8))[1]
