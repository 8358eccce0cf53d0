# SPDX-License-Identifier: Apache-2.0
"""What a script runs again and again is one program at the end."""

from __future__ import annotations

from soscope.instruments.trace import replay
from soscope.instruments.trace.outcome import MergedPrograms, TraceProgramOutcome
from soscope.instruments.trace.settings import INSTRUMENTS
from soscope.instruments.trace.summary import rows_of
from soscope.model.call import Cell, Stats
from soscope.model.image import HOOKED, IMAGE_MAIN, SLOT_JUMP_SLOT, TracedImage, TracedSlot


def run_of(
    path: str, names: list[str], *, counts: dict[int, int] | None = None, stats: Stats | None = None
) -> TraceProgramOutcome:
    """Make a run of a program that has found its slots in this order."""
    main = TracedImage(0, 0, "true", path, 0, 0, 0, b"id", IMAGE_MAIN, len(names), 5, 0, 1)
    slots = [
        TracedSlot(at, 0, name, "", main, None, 0, SLOT_JUMP_SLOT, HOOKED, False, False, None, 0)
        for at, name in enumerate(names)
    ]
    return TraceProgramOutcome(
        0, path, [main], slots, counts=counts, stats=stats, rules_matched=[1, 0], slots_left=5
    )


def test_runs_of_one_program_are_added_up_whatever_the_order_of_their_slots() -> None:
    programs = MergedPrograms()
    programs.add(run_of("/bin/true", ["a", "b"], counts={0: 1, 1: 2}))
    programs.add(run_of("/bin/true", ["b", "c", "a"], counts={0: 10, 1: 100, 2: 1000}))
    programs.add(run_of("/bin/other", ["a"], counts={0: 5}))
    first, other = programs.all()
    assert [(row.symbol, row.calls) for row in rows_of([first])] == [
        ("a", 1001),
        ("c", 100),
        ("b", 12),
    ]
    assert len({one.index for one in first.slots}) == 3
    assert (first.rules_matched, first.slots_left, other.path) == ([2, 0], 5, "/bin/other")


def test_a_lower_bound_stays_one_among_other_runs() -> None:
    programs = MergedPrograms()
    for partial in (False, True):
        run = run_of("/bin/true", ["a"], counts={0: 1})
        run.slots[0].partial = partial
        programs.add(run)
    (program,) = programs.all()
    assert program.lacks_calls
    assert [(row.calls, row.is_lower_bound) for row in rows_of([program])] == [(2, True)]


def test_times_are_added_up_and_the_extremes_kept() -> None:
    programs = MergedPrograms()
    cells: list[Cell] = [
        (1, 0, 0, 0, 0, 0, 0),
        (2, 2, 1, 30, 10, 20, 25),
        (3, 3, 0, 15, 4, 6, 15),
    ]
    for cell in cells:
        programs.add(run_of("/bin/true", ["a"], stats={0: cell}))
    (program,) = programs.all()
    assert program.stats == {0: (6, 5, 1, 45, 4, 20, 40)}


def test_counts_of_rules_that_are_no_numbers_are_not_believed() -> None:
    """A recording may be damaged in a way that leaves it JSON."""
    kind = next(iter(INSTRUMENTS.values()))
    facts: dict[str, object] = {"instruments": [kind], "rules_matched": [[3, [1], "2", None, 1e3]]}
    assert replay._rules_matched(facts) == [3, 0, 0, 0, 0]
