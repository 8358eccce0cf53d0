# SPDX-License-Identifier: Apache-2.0
"""JSON Lines: the promised members, in the order in which calls began."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

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
from soscope.report.trace.json import JsonLinesListener
from soscope.select.filter import compile_selection
from tests.support.processes.leftovers import at_end
from tests.support.schemas import checked as schema

PROG = TracedImage(0, 0, "prog", "/bin/prog", 0, 0, 0, b"", IMAGE_MAIN, 2, 5, 0, 1)
LIBC = TracedImage(1, 0, "libc.so.6", "/lib/libc.so.6", 0, 0, 0, b"", 0, 0, 7, 0, 1)
PROTOTYPES = load()


def slot(symbol: str, callee: TracedImage | None = LIBC) -> TracedSlot:
    """Make a slot of the program."""
    rule = ERROR_INT_NEGATIVE if symbol == "open" else ERROR_NONE
    return TracedSlot(
        0, 0, symbol, "V1", PROG, callee, 0, SLOT_JUMP_SLOT, HOOKED, False, False, 1, rule
    )


def called(
    symbol: str,
    at: int,
    *,
    entry_only: bool = False,
    text: bytes = b"abc",
    flags: int = 0,
    **more: Any,
) -> Entry:
    """Make an entry with one string."""
    captured = Captured((0x5000, 0), data={0: (DATA_STRING, flags, text)})
    return Entry(at, 7, 8, slot(symbol, **more), 1, 0x1234, captured, entry_only)


def returned(entry: Entry, result: int | None, **more: Any) -> Exit:
    """Make the end of a call."""
    fields = {"errno": None, "ended": "return", "duration_ns": 30, **more}
    return Exit(
        entry,
        entry.time_ns + 30,
        fields["duration_ns"],
        result,
        fields["errno"],
        NOTHING,
        fields["ended"],
        7,
        8,
        entry.slot,
    )


class Page:
    """A JSON Lines listener whose objects can be read at any time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        output = Output.open(os.fspath(path))
        at_end(output.close)
        self.listener = JsonLinesListener(output, Display())
        self.selection = compile_selection([])
        self.listener.begin(PROTOTYPES, self.selection)

    def show(self, *events: Event) -> list[dict[str, Any]]:
        """Hand in events; return all objects so far."""
        self.listener.events(list(events))
        return self.objects()

    def end(self) -> list[dict[str, Any]]:
        """End the trace; return all objects."""
        self.listener.end(TraceOutcome([], self.selection))
        return self.objects()

    def objects(self) -> list[dict[str, Any]]:
        """Return all objects so far."""
        return [json.loads(line) for line in self.path.read_text().splitlines()]


@pytest.fixture
def page(tmp_path: Path) -> Page:
    """Make an empty page."""
    return Page(tmp_path / "out")


def test_a_call_has_the_members_that_are_promised(page: Page) -> None:
    entry = called("strlen", 1000)
    assert page.show(entry, returned(entry, 3)) == [
        {
            "type": "call",
            "time_ns": 1000,
            "pid": 7,
            "tid": 8,
            "caller": "prog",
            "callee": "libc.so.6",
            "symbol": "strlen",
            "version": "V1",
            "depth": 1,
            "args": [{"name": "s", "type": "const char *", "text": '"abc"', "value": "abc"}],
            "result": {"type": "size_t", "text": "3", "value": 3},
            "errno": None,
            "duration_ns": 30,
            "return_addr": "0x1234",
            "ended": "return",
        }
    ]


@pytest.mark.parametrize(
    ("text", "flags", "wanted"),
    [
        (b"\xff", 0, {"text": r'"\377"', "value": r"\xff", "bytes": "ff"}),
        (rb"\xff", 0, {"text": r'"\\xff"', "value": r"\xff"}),
        ("é".encode(), 0, {"text": r'"\303\251"', "value": "é"}),
        (b"ab", DATA_TRUNCATED, {"text": '"ab"...', "value": "ab", "cut": True}),
        # only the line is cut
        (b"a" * 40, 0, {"text": f'"{"a" * 32}"...', "value": "a" * 40}),
        (
            b"a\xc3",
            DATA_TRUNCATED,
            {"text": r'"a\303"...', "value": r"a\xc3", "cut": True, "bytes": "61c3"},
        ),
    ],
)
def test_a_string_is_what_its_bytes_are(
    text: bytes, flags: int, wanted: dict[str, object], page: Page
) -> None:
    entry = called("strlen", 1000, text=text, flags=flags)
    (line,) = page.show(entry, returned(entry, 3))
    assert line["args"] == [{"name": "s", "type": "const char *", **wanted}]
    assert not schema.wrong_members(line, schema.LINES["call"])


def test_an_argument_that_the_call_fills_in_has_both(page: Page) -> None:
    captured = Captured((3, 0x7000, 4096))
    entry = Entry(1, 7, 8, slot("read"), 0, 0, captured, False)
    leave = returned(entry, 2)
    leave.captured = Captured(data={1: (DATA_BYTES, 0, b"a\xff")})
    (line,) = page.show(entry, leave)
    out = {
        "name": "buffer",
        "type": "void *",
        "text": r'"a\377"',
        "value": r"a\xff",
        "bytes": "61ff",
    }
    assert line["args"] == [
        {"name": "fd", "type": "int", "text": "3", "value": 3},
        {"name": "buffer", "type": "void *", "text": "0x7000", "value": "0x7000", "out": out},
        {"name": "size", "type": "size_t", "text": "4096", "value": 4096},
    ]
    assert not schema.wrong_members(line, schema.LINES["call"])


def test_a_call_of_an_unknown_function_is_a_guess(page: Page) -> None:
    entry = Entry(1, 7, 8, slot("of_nobody"), 0, 0, Captured((1, 2)), False)
    (line,) = page.show(entry, returned(entry, 0))
    guess = {"type": "?", "guess": True}
    assert line["args"] == [
        {"name": None, "text": "1", "value": 1, **guess},
        {"name": None, "text": "2 ?", "value": 2, **guess},
    ]
    assert line["result"] == {"text": "0 ?", "value": 0, **guess}


def test_arguments_of_a_format_are_further_arguments(page: Page) -> None:
    data = {0: (DATA_STRING, 0, b"%d %p %s"), 3: (DATA_STRING, 0, b"abc")}
    captured = Captured((0x1000, 5, 0x2000, 0x3000), data=data)
    entry = Entry(1, 7, 8, slot("printf"), 0, 0, captured, False)
    (line,) = page.show(entry, returned(entry, 3))
    assert [(one["name"], one["value"]) for one in line["args"]] == [
        ("format", "%d %p %s"),
        (None, 5),
        (None, "0x2000"),
        (None, "abc"),
    ]


def test_a_mangled_name_stands_beside_what_it_means(page: Page) -> None:
    new = Entry(1, 7, 8, slot("_Znwm"), 0, 0, Captured((24,)), False)
    (line,) = page.show(new, returned(new, 0x5000))
    assert (line["symbol"], line["demangled"]) == ("_Znwm", "operator new(unsigned long)")
    assert line["result"]["value"] == "0x5000"


def test_a_failure_has_the_name_of_its_errno(page: Page) -> None:
    entry = called("open", 1)
    (call,) = page.show(entry, returned(entry, 0xFFFF_FFFF, errno=2))
    assert call["result"]["value"] == -1
    assert call["errno"] == "ENOENT"


def test_void_entries_alone_and_unknown_images_are_null_or_empty(page: Page) -> None:
    free, last = called("free", 1), called("exit", 2, entry_only=True, callee=None)
    first, second = page.show(free, returned(free, 0), last)
    assert first["result"] is None
    assert first["ended"] == "return"
    assert (second["ended"], second["result"], second["duration_ns"]) == (None, None, None)
    assert second["callee"] == ""


@pytest.mark.parametrize("ended", ["unwound", "exit", "killed", "lost"])
def test_a_call_that_did_not_return_says_how_it_ended(page: Page, ended: str) -> None:
    entry = called("strlen", 1)
    (call,) = page.show(entry, returned(entry, None, ended=ended, duration_ns=None))
    assert (call["ended"], call["result"], call["duration_ns"]) == (ended, None, None)


def test_objects_are_in_the_order_in_which_calls_began(page: Page) -> None:
    outer, inner = called("open", 10), called("strlen", 20)
    assert page.show(outer, inner, returned(inner, 3), Signal(60, 7, 8, 15)) == []
    shown = page.show(returned(outer, 3))
    assert [one["time_ns"] for one in shown] == [10, 20, 60]


def test_a_second_return_is_no_second_call(page: Page) -> None:
    entry = called("strlen", 1)
    call, again = page.show(entry, returned(entry, 0), returned(entry, 1))
    assert (call["type"], again["type"]) == ("call", "return")
    assert (call["result"]["value"], again["result"]["value"]) == (0, 1)
    assert again["call_time_ns"] == call["time_ns"]


def test_an_end_without_a_beginning_is_no_call(page: Page) -> None:
    torn = returned(called("strlen", 1), 3)
    torn.entry = None
    assert page.show(torn) == []


def test_a_forked_childs_return_does_not_end_its_parents_call(page: Page) -> None:
    fork = called("fork", 1)
    child = returned(fork, 0)
    child.pid = child.tid = 9
    call, other = page.show(fork, child, returned(fork, 9))
    assert (call["pid"], call["tid"], call["result"]["value"]) == (7, 8, 9)
    assert (other["pid"], other["tid"], other["result"]["value"]) == (9, 9, 0)
    assert (other["call_pid"], other["call_tid"]) == (7, 8)


def test_a_call_that_nobody_closed_is_lost(page: Page) -> None:
    page.show(called("strlen", 1), Signal(2, 7, 8, 10))
    call, signal = page.end()
    assert (call["ended"], call["result"]) == ("lost", None)
    assert signal["signal"] == "SIGUSR1"


def test_other_events_have_the_members_that_are_promised(page: Page) -> None:
    assert page.show(
        ProcessStart(1, 7, "start", None, "/bin/prog", "ppc64le", "poison"),
        ProcessStart(2, 9, "fork", 7, "/bin/prog"),
        Signal(3, 7, 8, 15),
        ProcessExit(4, 9, 3, None),
        ProcessExit(5, 7, None, 9),
        Dropped(12, "the ring was full"),
    ) == [
        {
            "type": "process",
            "time_ns": 1,
            "pid": 7,
            "event": "start",
            "parent": None,
            "program": "/bin/prog",
            "arch": "ppc64le",
            "engine": "poison",
        },
        {
            "type": "process",
            "time_ns": 2,
            "pid": 9,
            "event": "fork",
            "parent": 7,
            "program": "/bin/prog",
            "arch": None,
            "engine": None,
        },
        {"type": "signal", "time_ns": 3, "pid": 7, "tid": 8, "signal": "SIGTERM"},
        {"type": "exit", "time_ns": 4, "pid": 9, "status": 3, "signal": None},
        {"type": "exit", "time_ns": 5, "pid": 7, "status": None, "signal": "SIGKILL"},
        {"type": "dropped", "count": 12, "why": "the ring was full"},
    ]


def test_a_number_that_json_does_not_know_is_null(page: Page) -> None:
    captured = Captured((), floats=(float("nan"),))
    entry = Entry(1, 7, 8, slot("sin"), 0, 0, captured, False)
    (call,) = page.show(entry, returned(entry, 0))
    assert call["args"][0]["value"] is None
    assert call["args"][0]["text"]
