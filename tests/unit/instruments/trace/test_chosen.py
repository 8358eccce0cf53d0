# SPDX-License-Identifier: Apache-2.0
"""The filter in front of a report, event by event."""

from __future__ import annotations

from soscope.instruments.trace.choice import FAILURES, SUCCESSES, Choice
from soscope.instruments.trace.filters import ChosenListener
from soscope.instruments.trace.listener import Listener
from soscope.instruments.trace.outcome import TraceOutcome
from soscope.model.call import (
    NOTHING,
    Captured,
    Dropped,
    Entry,
    Event,
    Exit,
    ProcessExit,
    Signal,
    Stretch,
    WholeCall,
)
from soscope.model.image import ERROR_INT_NEGATIVE, HOOKED, SLOT_JUMP_SLOT, TracedSlot
from soscope.recording.names import Programs
from soscope.select.filter import compile_selection

OPEN = TracedSlot(
    0, 0, "open", "", None, None, 0, SLOT_JUMP_SLOT, HOOKED, False, False, 1, ERROR_INT_NEGATIVE
)
FREE = TracedSlot(1, 0, "free", "", None, None, 0, SLOT_JUMP_SLOT, HOOKED, False, False, 1, 0)
MINUS_ONE = 0xFFFF_FFFF


class Kept(Listener):
    """Keeps what it is given."""

    takes_stretches = True

    def __init__(self) -> None:
        self.seen: list[Event] = []
        self.until = 0
        self.programs: Programs | None = None

    def meet(self, programs: Programs) -> None:
        self.programs = programs

    def events(self, batch: list[Event]) -> None:
        self.seen += batch

    def caught_up(self, time_ns: int) -> None:
        self.until = time_ns


def made(choice: Choice) -> tuple[ChosenListener, Kept]:
    kept = Kept()
    return ChosenListener(kept, choice), kept


def called(slot: TracedSlot, at: int, *, depth: int = 0, pid: int = 7, tid: int = 7) -> Entry:
    return Entry(at, pid, tid, slot, depth, 0x1234, Captured((1,)), False)


def returned(
    entry: Entry, result: int = 0, *, took: int | None = 10, ended: str = "return", pid: int = 7
) -> Exit:
    at = entry.time_ns + (took or 10)
    return Exit(entry, at, took, result, None, NOTHING, ended, pid, entry.tid, entry.slot)


def test_the_listener_gets_the_programs() -> None:
    filtered, kept = made(Choice(slower_ns=100))
    programs = Programs()
    filtered.meet(programs)
    assert kept.programs is programs


def test_a_call_stands_where_it_ended_if_its_end_decides() -> None:
    filtered, kept = made(Choice(slower_ns=100))
    outer, inner = called(OPEN, 0), called(OPEN, 10, depth=1)
    inner_end, outer_end = returned(inner, took=150), returned(outer, took=500)
    quick = called(FREE, 5)
    filtered.events([outer, quick, returned(quick), inner])
    assert kept.seen == []
    filtered.events([inner_end, outer_end])
    assert kept.seen == [inner, inner_end, outer, outer_end]
    assert filtered.shown == 2


def test_a_call_that_is_waited_for_is_shown_while_it_waits() -> None:
    filtered, kept = made(Choice(slower_ns=1000))
    entry = called(OPEN, 0)
    filtered.events([entry])
    filtered.caught_up(999)
    assert kept.seen == []
    filtered.caught_up(1000)
    assert kept.seen == [entry]
    # its own time is a little less, without what the agent took of it
    end = returned(entry, took=990)
    filtered.events([end])
    assert kept.seen == [entry, end]
    assert filtered.shown == 1


def test_a_call_that_is_open_at_the_end_has_taken_its_time() -> None:
    filtered, kept = made(Choice(slower_ns=1000))
    entry, late = called(OPEN, 0), called(OPEN, 4500)
    filtered.events([entry, late, ProcessExit(5000, 8, 0, None)])
    filtered.end(TraceOutcome([], compile_selection([])))
    assert kept.seen[1:] == [entry]


def test_failures_are_told_by_the_rule_of_the_function() -> None:
    for ends, wanted in ((FAILURES, [True, False, False]), (SUCCESSES, [False, True, True])):
        filtered, kept = made(Choice(ends=ends))
        bad, good, void = called(OPEN, 0), called(OPEN, 20), called(FREE, 40)
        unwound = called(OPEN, 60)
        filtered.events([bad, returned(bad, MINUS_ONE), good, returned(good, 3)])
        filtered.events([void, returned(void, MINUS_ONE)])
        filtered.events([unwound, returned(unwound, ended="unwound")])
        assert [entry in kept.seen for entry in (bad, good, void)] == wanted
        assert unwound not in kept.seen


def test_further_returns_follow_their_call() -> None:
    filtered, kept = made(Choice(selection=compile_selection(["open"])))
    entry, other = called(OPEN, 0), called(FREE, 20)
    ends = [returned(entry), returned(entry, 1), returned(entry, 2, pid=8)]
    filtered.events([entry, *ends, other, returned(other), returned(other, 5)])
    assert kept.seen == [entry, *ends]
    assert filtered.shown == 1


def test_a_childs_return_does_not_end_its_parents_call() -> None:
    filtered, kept = made(Choice(ends=SUCCESSES))
    entry = called(OPEN, 0)
    child, parent = returned(entry, 3, pid=8), returned(entry, 4)
    filtered.events([entry, child, parent])
    assert kept.seen == [child, entry, parent]


def test_an_end_without_a_beginning_is_nobodys() -> None:
    filtered, kept = made(Choice(slower_ns=1))
    filtered.events([Exit(None, 5, 5, 0, None, NOTHING, "return", 7, 7, OPEN)])
    assert kept.seen == []


def test_stretches_lose_the_calls_that_are_not_chosen() -> None:
    piece = (0, 1 << 60, 1000, 2.0, 0.5)  # two ns of the clock a tick, half a ns of a duration
    calls: list[WholeCall] = [
        (0, 100, OPEN, 1, 3, b"", None, b""),
        (200, 400, FREE, 1, 0, b"", None, b""),
        (700, 50, OPEN, 1, MINUS_ONE, b"", 2, b""),
    ]
    stretch = Stretch(7, 7, piece, calls, 0)

    def left(choice: Choice) -> list[int]:
        filtered, kept = made(choice)
        filtered.events([stretch])
        shown = [call for some in kept.seen if isinstance(some, Stretch) for call in some.calls]
        assert filtered.shown == len(shown)
        return [calls.index(call) for call in shown]

    assert left(Choice(selection=compile_selection(["open"]))) == [0, 2]
    assert left(Choice(slower_ns=50)) == [0, 1]
    assert left(Choice(ends=FAILURES)) == [2]
    assert left(Choice(ends=SUCCESSES)) == [0, 1]
    assert left(Choice(tids=[8])) == []
    assert left(Choice(pids=[7], tids=[7])) == [0, 1, 2]
    assert not made(Choice(depth=1))[0].takes_stretches


def test_signals_and_losses() -> None:
    signal, other, lost = Signal(5, 7, 7, 15), Signal(6, 7, 9, 15), Dropped(3, "no room")
    for choice, wanted in (
        (Choice(signals=False), [lost]),
        (Choice(tids=[9]), [other, lost]),
        (Choice(pids=[8]), [lost]),
        (Choice(slower_ns=5), [signal, other, lost]),
    ):
        filtered, kept = made(choice)
        filtered.events([signal, other, lost])
        assert kept.seen == wanted
