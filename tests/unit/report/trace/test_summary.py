# SPDX-License-Identifier: Apache-2.0
"""The table of -c and --count-only, and the document of --json."""

from __future__ import annotations

import json
import os
from pathlib import Path

from soscope.instruments.trace.outcome import Stats, TraceOutcome, TraceProgramOutcome
from soscope.instruments.trace.summary import SummaryRow
from soscope.model.image import IMAGE_MAIN, TracedImage
from soscope.model.slot import (
    ERROR_NULL,
    HOOKED,
    REFUSED_ADDRESS_TAKEN,
    SLOT_CALL_SITES,
    SLOT_JUMP_SLOT,
    TracedSlot,
)
from soscope.report.output import Output
from soscope.report.trace.summaryjson import SummaryJsonListener, document
from soscope.report.trace.summarytext import SummaryListener, table
from soscope.select.filter import compile_selection


def row(symbol: str, calls: int, *times: int, errors: int | None = None) -> SummaryRow:
    """Make a row; `times` are total, min and max."""
    made = SummaryRow("prog", "libc.so.6", symbol, "GLIBC_2.2.5")
    made.calls = made.returns = calls
    made.errors = errors
    if times:
        made.total_ns, made.min_ns, made.max_ns = times
    return made


ROWS = [row("malloc", 4, 3000, 100, 2000, errors=1), row("odd", 2, 1000, 500, 500)]


def test_the_table_has_ltraces_columns() -> None:
    assert table(ROWS, timed=True, by_image=False) == (
        "% time     seconds  usecs/call     calls    errors         min         max function\n"
        "------ ----------- ----------- --------- --------- ----------- -----------"
        " --------------------\n"
        " 75.00 0.000003000       0.750         4         1       0.100       2.000 malloc\n"
        " 25.00 0.000001000       0.500         2         -       0.500       0.500 odd\n"
        "------ ----------- ----------- --------- --------- ----------- -----------"
        " --------------------\n"
        "100.00 0.000004000       0.667         6         1       0.100       2.000 total\n"
    )


def test_all_callers_are_two_more_columns() -> None:
    lines = table(ROWS, timed=False, by_image=True).splitlines()
    assert lines[0].split() == ["calls", "caller", "callee", "function"]
    assert lines[2].split() == ["4", "prog", "libc.so.6", "malloc"]
    assert lines[-1].split() == ["6", "total"]


def test_counts_alone_are_two_columns() -> None:
    assert table([row("malloc", 12345678901)], timed=False, by_image=False).splitlines() == [
        "      calls function",
        "----------- --------------------",
        "12345678901 malloc",
        "----------- --------------------",
        "12345678901 total",
    ]


def test_a_trace_without_calls_is_a_table_without_rows() -> None:
    lines = table([], timed=True, by_image=False).splitlines()
    assert len(lines) == 4
    assert lines[-1].split() == ["0.00", "-", "-", "0", "-", "-", "-", "total"]


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


def test_the_document_has_the_schema_that_is_promised() -> None:
    assert document(outcome(stats={0: (2, 2, 1, 300, 100, 200)})) == {
        "schema": "soscope/trace-summary/1",
        "command": ["prog", "-x"],
        "exit": {"status": None, "signal": "SIGKILL"},
        "rows": [
            {
                "caller": "prog",
                "callee": "libc.so.6",
                "symbol": "malloc",
                "version": "V1",
                "calls": 2,
                "errors": 1,
                "total_ns": 300,
                "min_ns": 100,
                "max_ns": 200,
                "lower_bound": False,
            }
        ],
        "totals": {"calls": 2, "dropped": 3, "complete": False},
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
    assert {rows[0][name] for name in ("errors", "total_ns", "min_ns", "max_ns")} == {None}


def test_both_forms_are_written_at_the_end(tmp_path: Path) -> None:
    for name, listener in (("text", SummaryListener), ("json", SummaryJsonListener)):
        output = Output.open(os.fspath(tmp_path / name))
        listener(output).end(outcome(counts={0: 2}))
        output.close()
    assert (tmp_path / "text").read_text().splitlines()[-1].split() == ["2", "total"]
    assert json.loads((tmp_path / "json").read_text())["totals"]["calls"] == 2
