# SPDX-License-Identifier: Apache-2.0
"""The table of -c and --count-only, and the document of --json."""

from __future__ import annotations

import copy
import json
import os
import re
from pathlib import Path

import pytest

from soscope.instruments.trace.outcome import TraceOutcome, TraceProgramOutcome
from soscope.instruments.trace.summary import SummaryRow
from soscope.model.call import Stats
from soscope.model.image import (
    ERROR_NULL,
    HOOKED,
    IMAGE_MAIN,
    REFUSED_ADDRESS_TAKEN,
    SLOT_CALL_SITES,
    SLOT_JUMP_SLOT,
    TracedImage,
    TracedSlot,
)
from soscope.report.output import Output
from soscope.report.trace.display import TableSettings
from soscope.report.trace.table import SummaryJsonListener, SummaryListener, document, table
from soscope.select.filter import compile_selection


def row(
    symbol: str, calls: int, *times: int, errors: int | None = None, caller: str = "prog"
) -> SummaryRow:
    """Make a row; `times` are self, total, min and max."""
    made = SummaryRow(caller, "libc.so.6", symbol, "GLIBC_2.2.5")
    made.calls = made.returns = calls
    made.errors = errors
    if times:
        made.self_ns, made.total_ns, made.min_ns, made.max_ns = times
    return made


ROWS = [row("qsort", 4, 3000, 9000, 100, 5000, errors=1), row("odd", 2, 1000, 1000, 500, 500)]
USUAL = TableSettings()


def show(rows: list[SummaryRow], *, select: str = "", **more: object) -> list[list[str]]:
    """Return the words of each line of a table."""
    settings = TableSettings(**more)  # type: ignore[arg-type]  # as it takes them
    selection = compile_selection([select] if select else [], ["all"])
    selection.by_image = False
    return [line.split() for line in table(rows, settings, selection, timed=True).splitlines()]


def test_the_table_has_ltraces_columns_and_then_all_of_the_time() -> None:
    assert table(ROWS, USUAL, timed=True) == (
        "% time     seconds  usecs/call     calls    errors       total         min         max"
        " function\n"
        "------ ----------- ----------- --------- --------- ----------- ----------- -----------"
        " --------------------\n"
        " 75.00 0.000003000       0.750         4         1 0.000009000       0.100       5.000"
        " qsort\n"
        " 25.00 0.000001000       0.500         2         - 0.000001000       0.500       0.500"
        " odd\n"
        "------ ----------- ----------- --------- --------- ----------- ----------- -----------"
        " --------------------\n"
        "100.00 0.000004000       0.667         6         1           -       0.100       5.000"
        " total\n"
    )


def test_inclusive_times_are_those_of_ltrace() -> None:
    lines = show(ROWS, inclusive=True)
    assert lines[2][:3] == ["90.00", "0.000009000", "2.250"]
    assert lines[-1][:3] == ["100.00", "0.000010000", "1.667"]


def test_times_of_an_older_recording_are_inclusive() -> None:
    rows = [row("a", 1, 500, 1000, 1, 1), row("b", 1, 0, 3000, 1, 1)]
    rows[1].self_ns = None
    assert [line[0] for line in show(rows)[2:4]] == ["75.00", "25.00"]


@pytest.mark.parametrize(
    ("key", "order"),
    [("total", "bca"), ("calls", "acb"), ("errors", "cab"), ("min", "cab"), ("name", "abc")],
)
def test_rows_are_in_the_order_that_is_asked_for(key: str, order: str) -> None:
    rows = [
        row("a", 9, 100, 100, 20, 30, errors=1),
        row("b", 1, 100, 900, 10, 900),
        row("c", 5, 100, 200, 40, 80, errors=2),
    ]
    assert "".join(line[-1] for line in show(rows, sort=key)[2:5]) == order


def test_the_columns_are_those_that_are_asked_for() -> None:
    lines = show(ROWS, columns=("name", "total", "calls"))
    assert lines[0] == ["function", "total", "calls"]
    assert lines[2] == ["qsort", "0.000009000", "4"]
    assert lines[-1] == ["total", "-", "6"]
    assert show(ROWS, columns=("calls", "caller"))[2] == ["4", "prog"]


def test_what_is_not_shown_is_one_row() -> None:
    rows = [
        row(name, 1, time, time, time, time)
        for name, time in zip("abcd", (4, 3, 2, 1), strict=True)
    ]
    lines = show(rows, top=2)
    assert [line[-1] for line in lines[2:4]] == ["a", "b"]
    assert lines[4][0] == "30.00"
    assert lines[4][-2:] == ["(2", "more)"]
    assert lines[-1][3] == "4"


def test_calls_by_caller_are_compared_with_the_function_that_is_named_first() -> None:
    rows = [
        row("getaddrinfo", 1, 10, 10, 10, 10, caller="libcurl.so.4"),
        row("curl_easy_perform", 100, 20, 900, 5, 10, caller="prog"),
        row("SSL_connect", 100, 30, 30, 1, 5, caller="libcurl.so.4"),
    ]
    lines = show(rows, by="caller", select="curl_easy_perform+SSL_connect+getaddrinfo")
    assert lines[0][5] == "calls/curl_easy_perform"
    assert [(line[4], line[-2], line[-1]) for line in lines[2:5]] == [
        ("1.00", "libcurl.so.4", "SSL_connect"),
        ("1.00", "prog", "curl_easy_perform"),
        ("0.01", "libcurl.so.4", "getaddrinfo"),
    ]
    assert "calls/curl_easy_perform" not in show(rows, by="caller")[0]
    assert "calls/SSL_connect" in show(rows, by="caller", select="SSL_*+curl*")[0]
    assert show(rows, by="caller", select="*e*")[0][4:6] == ["calls", "errors"]


def test_a_histogram_says_how_many_took_how_long() -> None:
    made = row("read", 4, 100, 100, 3, 70)
    made.durations = {3: 1, 8: 2, 34: 1}  # 3 ns, 8 ns twice, 36 or 37
    text = table([made], TableSettings(histogram=True), timed=True)
    assert "read: 4 returns; 50 % within 8ns, 90 % within 37ns, 99 % within 37ns\n" in text
    lines = [line.split("|")[0].split() for line in text.splitlines() if line.endswith("|")]
    assert lines == [
        ["2ns", "…", "4ns", "1"],
        ["4ns", "…", "8ns", "0"],
        ["8ns", "…", "16ns", "2"],
        ["16ns", "…", "32ns", "0"],
        ["32ns", "…", "64ns", "1"],
    ]
    assert show([made], columns=("p50", "p90", "name"))[2] == ["0.008", "0.037", "read"]


def test_all_callers_are_two_more_columns() -> None:
    everybody = compile_selection([], ["all"])
    lines = table(ROWS, USUAL, everybody, timed=False).splitlines()
    assert lines[0].split() == ["calls", "caller", "callee", "function"]
    assert lines[2].split() == ["4", "prog", "libc.so.6", "qsort"]
    assert lines[-1].split() == ["6", "total"]


def test_images_are_rows_of_all_their_functions() -> None:
    lines = show(ROWS, by="image")
    assert lines[0][-1] == "image"
    assert lines[2][3:5] == ["6", "1"]
    assert lines[2][-1] == "libc.so.6"
    assert lines[-1][-1] == "total"


def test_counts_alone_are_two_columns() -> None:
    assert table([row("malloc", 12345678901)], USUAL, timed=False).splitlines() == [
        "      calls function",
        "----------- --------------------",
        "12345678901 malloc",
        "----------- --------------------",
        "12345678901 total",
    ]


def test_a_trace_without_calls_is_a_table_without_rows() -> None:
    lines = table([], USUAL, timed=True).splitlines()
    assert len(lines) == 4
    assert lines[-1].split() == ["0.00", "-", "-", "0", "-", "-", "-", "-", "total"]


PROG = TracedImage(0, 0, "prog", "/bin/prog", 0, 0, 0, b"", IMAGE_MAIN, 1, 5, 1, 1)
LIBC = TracedImage(1, 0, "libc.so.6", "/lib/libc.so.6", 0, 0, 0, b"", 0, 0, 7, 0, 1)


def outcome(*, counts: dict[int, int] | None = None, stats: Stats | None = None) -> TraceOutcome:
    """Make the end of a trace."""
    slots = [
        TracedSlot(
            index,
            0,
            symbol,
            "V1",
            PROG,
            LIBC,
            0,
            SLOT_JUMP_SLOT,
            refusal,
            False,
            False,
            1,
            ERROR_NULL,
        )
        for index, (symbol, refusal) in enumerate(
            [("malloc", HOOKED), ("free", REFUSED_ADDRESS_TAKEN)]
        )
    ]
    program = TraceProgramOutcome(0, "/bin/prog", [PROG, LIBC], slots, counts=counts, stats=stats)
    return TraceOutcome(
        ["prog", "-x"],
        compile_selection([]),
        signal=9,
        programs=[program],
        dropped=[(3, "the ring was full")],
    )


def test_a_time_that_may_be_as_wrong_as_it_is_long_is_marked_and_comes_last() -> None:
    quick, slow = row("quick", 1000, 6000, 6000, 0, 9), row("slow", 10, 3980, 3980, 300, 500)
    tiny = row("tiny", 1, 20, 20, 20, 20)
    quick.doubt_ns, slow.doubt_ns, tiny.doubt_ns = 12_000, 120, 12
    for more in ({}, {"sort": "time"}, {"inclusive": True}):
        lines = show([tiny, quick, slow], **more)
        assert [line[0] for line in lines[2:5]] == ["39.80", "60.00?", "0.20"]
        assert lines[-1][:2] == ["100.00", "0.000010000"]
    by_calls = show([quick, slow], sort="calls")
    assert by_calls[2][-1] == "quick"  # their number is no time
    without_share = show([quick, slow], columns=("seconds", "usecs", "total", "min", "name"))
    assert without_share[2:4] == [
        ["0.000003980", "0.398", "0.000003980", "0.300", "slow"],
        ["0.000006000?", "0.006?", "0.000006000?", "0.000?", "quick"],
    ]


def test_whether_a_mark_is_printed_is_known_by_what_is_printed() -> None:
    """The rule about marks stands below a table only if there is one in it."""
    slow = row("slow", 10, 9_000_000, 9_000_000, 300, 500)
    parts = [row("asked?", 1000, 6000, 60_000, 0, 9), row("asked?", 1000, 9000, 60_000, 0, 9)]
    parts[1].caller = "libother.so"
    slow.doubt_ns = 120
    parts[0].doubt_ns, parts[1].doubt_ns = 9000, 100
    rows = [slow, *parts]
    for settings, has_marks in (
        (TableSettings(), False),  # of both together the time is more than the error
        (TableSettings(columns=("name", "caller", "time")), True),
        (TableSettings(columns=("caller", "calls", "name")), False),
        (TableSettings(columns=("name", "caller", "time"), top=1), False),
        (TableSettings(columns=("name", "caller", "time"), inclusive=True), False),
    ):
        made = [copy.copy(each) for each in rows]
        text = table(made, settings, timed=True)
        assert text.has_marks == has_marks, text
        assert bool(re.search(r"\d\?", text)) == has_marks, text


def test_the_document_has_the_schema_that_is_promised() -> None:
    assert document(outcome(stats={0: (2, 2, 1, 300, 100, 200, 250)})) == {
        "schema": "soscope/trace-summary/1",
        "command": ["prog", "-x"],
        "arch": None,
        "engine": None,
        "exit": {"status": None, "signal": "SIGKILL"},
        "rows": [
            {
                "caller": "prog",
                "callee": "libc.so.6",
                "symbol": "malloc",
                "version": "V1",
                "calls": 2,
                "errors": 1,
                "self_ns": 250,
                "total_ns": 300,
                "doubt_ns": None,
                "min_ns": 100,
                "max_ns": 200,
                "lower_bound": False,
            }
        ],
        "totals": {
            "calls": 2,
            "dropped": 3,
            "complete": False,
            "waited_ns": 0,
            "waited_of_ns": 0,
            "waits_unknown": 0,
        },
        "cost": None,
        "executed_by_children": {"programs": 0, "names": [], "can_follow": True},
        "images": [
            {
                "name": "prog",
                "path": "/bin/prog",
                "hooked_slots": 1,
                "not_hooked": [{"symbol": "free", "reason": "address-taken"}],
                "lower_bounds": [],
                "without_room": 0,
            },
            {
                "name": "libc.so.6",
                "path": "/lib/libc.so.6",
                "hooked_slots": 0,
                "not_hooked": [],
                "lower_bounds": [],
                "without_room": 0,
            },
        ],
    }


def test_a_lower_bound_is_one_in_its_row_and_image_and_the_trace_is_not_complete() -> None:
    made = outcome(counts={0: 2, 2: 3})
    first = made.programs[0].slots[0]
    names = ("malloc", "calloc")  # malloc by a slot that sees all, too; calloc was not called
    made.programs[0].slots += [
        TracedSlot(
            index,
            0,
            symbol,
            "V1",
            PROG,
            LIBC,
            0,
            SLOT_CALL_SITES,
            HOOKED,
            *(False,) * 2,
            1,
            0,
            True,
        )
        for index, symbol in enumerate(names, 2)
    ]
    made.dropped = []
    made.programs[0].slots[1:2] = []
    said = json.loads(json.dumps(document(made)))
    assert not first.partial
    assert [(row["symbol"], row["calls"], row["lower_bound"]) for row in said["rows"]] == [
        ("malloc", 5, True)
    ]
    assert [image["lower_bounds"] for image in said["images"]] == [["malloc", "calloc"], []]
    assert said["totals"]["complete"] is False
    made.programs[0].slots[1:] = []
    made.programs[0].counts = {0: 2}
    assert json.loads(json.dumps(document(made)))["totals"]["complete"] is True


def test_counts_alone_have_no_times_and_errors() -> None:
    rows = document(outcome(counts={0: 2}))["rows"]
    assert isinstance(rows, list)
    assert {rows[0][name] for name in ("errors", "self_ns", "total_ns", "min_ns", "max_ns")} == {
        None
    }


def test_durations_of_single_calls_are_in_the_document_where_they_are_asked_for() -> None:
    made = outcome(stats={0: (2, 2, 1, 300, 100, 200, 250)})
    made.programs[0].durations = {0: {57: 1, 73: 1}}
    rows = document(made, TableSettings(histogram=True))["rows"]
    assert isinstance(rows, list)
    assert rows[0]["p50_ns"] == 103  # of 100 to 103
    assert rows[0]["p99_ns"] == 200
    assert rows[0]["histogram"] == [(64, 128, 1), (128, 256, 1)]
    assert "histogram" not in document(made)["rows"][0]  # type: ignore[index]  # a list


def test_both_forms_are_written_at_the_end(tmp_path: Path) -> None:
    for name, listener in (("text", SummaryListener), ("json", SummaryJsonListener)):
        output = Output.open(os.fspath(tmp_path / name))
        listener(output).end(outcome(counts={0: 2}))
        output.close()
    assert (tmp_path / "text").read_text().splitlines()[-1].split() == ["2", "total"]
    assert json.loads((tmp_path / "json").read_text())["totals"]["calls"] == 2
