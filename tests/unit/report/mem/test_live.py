# SPDX-License-Identifier: Apache-2.0
"""The table of what grows: rates, and what to ask next."""

from __future__ import annotations

import pytest

from soscope.instruments.mem.diff import BLOCKS, OBJECTS, DiffRow
from soscope.instruments.mem.live import Growth
from soscope.report.mem import live_text

MIB = 1 << 20


def growth(*grown: tuple[int, int], what: str = OBJECTS) -> Growth:
    """Return growth in four seconds: of each row by so many things of so many bytes."""
    rows = [
        DiffRow(("/a b/app.py", number, "list"), (0, 0), each)
        for number, each in enumerate(grown, 8)
    ]
    result = Growth(7, 4.0, rows, 10, 1000, what)
    result.grown = sum(size for _, size in grown)
    return result


@pytest.mark.parametrize(
    ("grown", "shown"),
    [((1, 60), "+1 in all       +60 B"), ((-1, -60), "-1 in all       -60 B"),
     ((2, 60), "      +30      +900 B"), ((0, 60), "       +0      +900 B")],
)  # fmt: skip
def test_one_that_comes_and_goes_is_no_rate(grown: tuple[int, int], shown: str) -> None:
    (row,) = [
        line for line in live_text(growth(grown, what=BLOCKS)).splitlines() if "app.py" in line
    ]
    assert shown in row


@pytest.mark.parametrize("goes_on", [False, True])
def test_who_holds_them_is_the_next_question(goes_on: bool) -> None:
    watched = growth((5, 100), (3, 90))
    watched.goes_on = goes_on
    *_, last = live_text(watched).splitlines()
    attach = "" if goes_on else "soscope mem attach -p 7; "
    assert last == f"who holds them: {attach}soscope mem refs -p 7 '/a b/app.py:8'"


def test_nobody_asks_who_holds_a_block() -> None:
    assert "who holds" not in live_text(growth((5, 100), what=BLOCKS))
    assert "who holds" not in live_text(growth((1, 100)))
    assert "who holds" not in live_text(growth())


@pytest.mark.parametrize(
    ("resident", "grown", "is_told"),
    [(50 * MIB, 0, True), (50 * MIB, -5 * MIB, True), (50 * MIB, 20 * MIB, True),
     (50 * MIB, 30 * MIB, False), (MIB, 0, False), (-MIB, 0, False)],
)  # fmt: skip
def test_memory_that_is_no_object(resident: int, grown: int, is_told: bool) -> None:
    watched = growth(*([(9, grown)] if grown else []))
    watched.resident = resident
    said = live_text(watched)
    assert ("RSS grew by" in said) == is_told
    assert ("soscope mem live --blocks -p 7" in said) == is_told
