# SPDX-License-Identifier: Apache-2.0
"""Counts and statistics become rows: by function, and by pair of images."""

from __future__ import annotations

from soscope.instruments.trace.outcome import TraceProgramOutcome
from soscope.instruments.trace.summary import SummaryRow, by_caller, by_function, by_image, rows_of
from soscope.model.call import Stats
from soscope.model.image import (
    ERROR_NONE,
    ERROR_NULL,
    HOOKED,
    IMAGE_MAIN,
    SLOT_JUMP_SLOT,
    TracedImage,
    TracedSlot,
)

PROG = TracedImage(0, 0, "prog", "/bin/prog", 0, 0, 0, b"", IMAGE_MAIN, 2, 5, 0, 1)
LIBC = TracedImage(1, 0, "libc.so.6", "/lib/libc.so.6", 0, 0, 0, b"", 0, 1, 7, 0, 1)


def slot(
    index: int,
    symbol: str,
    caller: TracedImage | None,
    callee: TracedImage | None,
    *,
    known: bool = True,
) -> TracedSlot:
    """Make a slot; a known function has a prototype and fails with NULL."""
    rule = ERROR_NULL if known else ERROR_NONE
    prototype = 1 if known else None
    return TracedSlot(
        index,
        0,
        symbol,
        "",
        caller,
        callee,
        0,
        SLOT_JUMP_SLOT,
        HOOKED,
        False,
        False,
        prototype,
        rule,
    )


SLOTS = [
    slot(0, "malloc", PROG, LIBC),
    slot(1, "malloc", LIBC, LIBC),
    slot(2, "free", PROG, LIBC),
    slot(3, "odd", PROG, None, known=False),
    slot(4, "never", PROG, LIBC),
]


def program(
    *, counts: dict[int, int] | None = None, stats: Stats | None = None
) -> TraceProgramOutcome:
    """Make the outcome of a program whose clock ticks every half nanosecond."""
    return TraceProgramOutcome(
        0, "/bin/prog", [PROG, LIBC], SLOTS, counts=counts, stats=stats, ns_per_tick=0.5
    )


def test_what_was_taken_off_may_be_wrong() -> None:
    outcome = program(stats={0: (9, 8, 0, 300, 1, 40, 200), 1: (1, 1, 0, 300, 300, 300, 300)})
    outcome.doubt_ticks = 50
    quick, slow = sorted(rows_of([outcome]), key=lambda row: row.is_told())
    assert (quick.self_ns, quick.doubt_ns) == (100, 8 * 25)
    assert (slow.self_ns, slow.doubt_ns) == (150, 25)
    assert not quick.is_told()
    assert slow.is_told()
    assert (quick.doubt_of_call_ns, slow.doubt_of_call_ns) == (25, 25)
    both = by_function([quick, slow])[0]
    assert (both.self_ns, both.doubt_ns, both.is_told()) == (250, 225, True)


def shown(rows: list[SummaryRow]) -> list[tuple[str, str, str, int]]:
    """Show what tells rows apart, and their calls."""
    return [(row.caller, row.callee, row.symbol, row.calls) for row in rows]


def test_counts_are_rows_with_the_most_calls_first() -> None:
    rows = rows_of([program(counts={0: 3, 1: 2, 2: 9, 4: 0})])
    assert shown(rows) == [
        ("prog", "libc.so.6", "free", 9),
        ("prog", "libc.so.6", "malloc", 3),
        ("libc.so.6", "libc.so.6", "malloc", 2),
    ]
    assert all(row.total_ns is None and row.errors is None for row in rows)


def test_statistics_are_rows_with_the_most_time_first() -> None:
    rows = rows_of(
        [program(stats={0: (3, 2, 1, 100, 40, 60, 80), 2: (9, 9, 0, 900, 50, 200, 300)})]
    )
    assert shown(rows) == [
        ("prog", "libc.so.6", "free", 9),
        ("prog", "libc.so.6", "malloc", 3),
    ]
    free, malloc = rows
    assert (free.self_ns, malloc.self_ns) == (150, 40)
    assert (free.total_ns, free.min_ns, free.max_ns, free.errors) == (450, 25, 100, 0)
    assert (malloc.total_ns, malloc.returns, malloc.errors) == (50, 2, 1)


def test_what_is_not_known_is_none() -> None:
    rows = rows_of([program(stats={3: (1, 1, 0, 10, 10, 10, 10), 4: (2, 0, 0, 0, 0, 0, 0)})])
    odd, never = rows
    assert (odd.callee, odd.errors, odd.total_ns) == ("", None, 5)
    assert (never.total_ns, never.min_ns, never.max_ns, never.errors) == (None, None, None, None)


def test_rows_of_one_function_are_merged() -> None:
    rows = by_function(
        rows_of([program(stats={0: (3, 2, 1, 100, 40, 60, 90), 1: (1, 1, 0, 30, 30, 30, 30)})])
    )
    assert shown(rows) == [("", "", "malloc", 4)]
    assert (rows[0].total_ns, rows[0].min_ns, rows[0].max_ns) == (65, 15, 30)
    assert (rows[0].returns, rows[0].errors, rows[0].self_ns) == (3, 1, 60)


def test_what_an_older_recording_does_not_say_is_not_known() -> None:
    stats: Stats = {0: (3, 3, 0, 90, 20, 40, None), 2: (1, 1, 0, 30, 30, 30, 30)}
    rows = rows_of([program(stats=stats)])
    assert {row.symbol: row.self_ns for row in rows} == {"malloc": None, "free": 15}
    assert by_image(rows)[0].self_ns is None


def test_rows_are_merged_by_caller_and_by_image() -> None:
    rows = rows_of([program(counts={0: 3, 1: 2, 2: 9, 3: 1})])
    assert shown(by_caller(rows)) == [
        ("prog", "", "free", 9),
        ("prog", "", "malloc", 3),
        ("libc.so.6", "", "malloc", 2),
        ("prog", "", "odd", 1),
    ]
    assert shown(by_image(rows)) == [("", "libc.so.6", "", 14), ("", "", "", 1)]


def test_durations_of_merged_rows_are_added() -> None:
    first, second = (
        program(stats={0: (2, 2, 0, 100, 40, 60, 100)}),
        program(stats={0: (1, 1, 0, 50, 50, 50, 50)}),
    )
    first.durations, second.durations = {0: {3: 1, 4: 1}}, {0: {4: 1}}
    (row,) = rows_of([first, second])
    assert row.durations == {3: 1, 4: 2}


def test_programs_are_taken_together() -> None:
    rows = rows_of([program(counts={0: 3}), program(counts={0: 4})])
    assert shown(rows) == [("prog", "libc.so.6", "malloc", 7)]
