# SPDX-License-Identifier: Apache-2.0
"""The options of the table of -c, which trace and report share."""

from __future__ import annotations

import pytest

from soscope.errors import UsageError
from soscope.verbs import report, trace
from soscope.verbs.display import parse_column, parse_columns


def test_all_of_them_arrive_in_both() -> None:
    words = "-c --sort max --by caller -U calls,name --top 5 --inclusive".split()
    for table in (trace.parse([*words, "prog"]).table, report.parse([*words, "a.sosr"]).table):
        assert (table.sort, table.by, table.top, table.inclusive) == ("max", "caller", 5, True)
        assert table.columns == ("calls", "name")
        assert not table.histogram


def test_columns_have_the_names_that_others_give_them() -> None:
    assert parse_columns("time-percent,total_time,avg-time,calls,errors,syscall") == (
        *("time", "seconds", "usecs", "calls", "errors", "name"),
    )
    assert parse_column("self") == "seconds"
    for words, said in (("calls,odd", "'odd' is no column"), ("calls,count", "named twice")):
        with pytest.raises(UsageError, match=said):
            parse_columns(words)


def test_the_name_of_an_image_is_that_of_its_row() -> None:
    table = trace.parse("-c --by image -U calls,name,image --sort name prog".split()).table
    assert (table.columns, table.sort) == (("calls", "callee"), "callee")


@pytest.mark.parametrize(
    "words",
    ["--by image -U caller,calls", "--by symbol --sort caller", "--by caller -U callee,name"],
)
def test_a_column_that_rows_do_not_have_is_refused(words: str) -> None:
    with pytest.raises(UsageError, match=f"{words.partition(' -')[0]}: a row sums up calls with"):
        trace.parse(["-c", *words.split(), "prog"])


def test_a_table_is_asked_for_by_its_options_in_a_report_alone() -> None:
    assert report.parse(["--top", "3", "a.sosr"]).asked.summary
    assert not report.parse(["a.sosr"]).asked.summary
    assert not report.parse(["-C", "--top", "3", "a.sosr"]).asked.summary
    with pytest.raises(UsageError, match="--top is about the table") as raised:
        trace.parse(["--top", "3", "prog"])
    assert "-C" in (raised.value.hint or "")
    trace.parse(["--count-only", "--sort", "name", "prog"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("-C --json prog", "-C and --json"),
        ("--count-only --histogram prog", "--count-only takes none"),
        ("-c --top 0 prog", "--top"),
        ("-c -C prog", "not allowed"),
        ("-ff -o out -C prog", "-ff is for calls"),
        ("-c --sort p99 -ff -o out prog", "-ff is for calls"),
    ],
)
def test_what_cannot_be_is_refused(words: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        trace.parse(words.split())


def test_single_durations_are_recorded_where_the_table_needs_them() -> None:
    options = trace.parse(["-c", "--histogram", "prog"])
    assert (options.settings.mode, options.tables_calls) == ("trace", True)
    assert not options.settings.wants_events
    both = trace.parse(["-C", "prog"])
    assert both.tables_calls
    assert both.settings.wants_events
    assert not trace.parse(["-c", "prog"]).tables_calls
