# SPDX-License-Identifier: Apache-2.0
"""What calls switch on and off in a report, event by event."""

from __future__ import annotations

from soscope.instruments.trace.choice import Choice
from soscope.instruments.trace.filters import ChosenListener, choose
from soscope.instruments.trace.outcome import TraceOutcome
from soscope.model.call import Event, ProcessStart
from soscope.select.filter import compile_selection
from tests.unit.instruments.trace.test_chosen import FREE, OPEN, Kept, called, returned

ON = compile_selection(["open"])
OFF = compile_selection(["free"])


def shown(choice: Choice, events: list[Event]) -> list[Event]:
    kept = Kept()
    listener = choose(kept, choice)
    listener.events(events)
    listener.end(TraceOutcome([], ON))
    return kept.seen


def test_both_calls_are_shown_and_one_under_way_keeps_its_end() -> None:
    early, on, off, late = (
        called(slot, at) for slot, at in ((FREE, 0), (OPEN, 10), (FREE, 20), (FREE, 40))
    )
    events: list[Event] = [early, on, off, returned(early), returned(off), late, returned(on)]
    assert shown(Choice(on=ON, off=OFF), events) == [on, off, events[4], events[6]]


def test_a_forked_child_is_as_its_parent_and_then_its_own() -> None:
    on, child = called(OPEN, 0, pid=7), called(OPEN, 20, pid=8)
    off = called(FREE, 30, pid=8)
    parent, other = called(OPEN, 40, pid=7), called(OPEN, 50, pid=8)
    fork = ProcessStart(10, 8, "fork", 7, "/bin/sh")
    off_by_open = Choice(on=compile_selection(["nosuch"]), off=OFF)
    assert shown(off_by_open, [on, fork, child, off]) == [fork]
    only_off = Choice(off=OFF)
    assert shown(only_off, [on, fork, child, off, parent, other]) == [on, fork, child, off, parent]


def test_the_last_of_a_trace_has_what_was_under_way() -> None:
    choice = Choice(last_ns=50)
    choice.earliest_ns = 100
    kept = Kept()
    listener = ChosenListener(kept, choice)
    over, begun, waiting, late = (called(OPEN, at) for at in (0, 10, 20, 120))
    ends = returned(over), returned(begun, took=95), returned(late)
    listener.events([over, begun, waiting, ends[0], ends[1], late, ends[2]])
    listener.end(TraceOutcome([], ON))
    assert kept.seen == [begun, ends[1], late, ends[2], waiting]
