# SPDX-License-Identifier: Apache-2.0
"""Calls in a row as one event: it says what an entry and an exit each say, and ends in time."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from soscope.model.call import Entry, Event, ProcessStart, Signal, Stretch, calls_in
from soscope.recording.drain import Feed
from soscope.recording.sink import Tee
from soscope.recording.stream import HOLD, Stream
from soscope.wire import layout
from tests.support.truth.stretches import lengths, rows
from tests.unit.recording.fake import (
    CALLER,
    EPOCH,
    GHZ,
    FakeAgent,
    FakeSampler,
    FakeThread,
    data_units,
    make_block,
)

F, G, TWICE, OPEN = range(4)
TOP = 1000  # where the stack has been when the calls of a test begin
SP = 800


class Stepped(FakeSampler):
    """Clocks of which the realtime one can be set to another time."""

    step = 0  # ns

    def sample(self, newest: int = 0) -> tuple[int, int, int]:
        tsc, realtime, monotonic = super().sample(newest)
        return tsc, realtime + self.step, monotonic


class Both:
    """A fake target whose calls are decoded both ways."""

    def __init__(self) -> None:
        self.block = make_block(8)
        self.agent = FakeAgent(self.block)
        self.agent.image("program", flags=layout.IMAGE_MAIN)
        for name in ("f", "g"):
            self.agent.slot(name)
        self.agent.slot("setjmp", flags=layout.FN_TWICE)
        self.agent.slot("open", error_rule=layout.ERROR_INT_NEGATIVE)
        self.sampler = Stepped()
        self.plain, self.stretched = Stream(), Stream(stretches=True)
        self.feed = Feed(Tee(self.plain, self.stretched), self.sampler)
        self.feed.add(self.block, "/bin/program", 100)
        self.events: list[Event] = []

    def thread(self, tid: int = 100, *, pid: int = 100) -> FakeThread:
        """Return a thread that has been at both ends of what its tests use of its stack."""
        thread = self.agent.thread(pid, tid)
        for sp in (TOP, SP - 200):
            thread.enter(G, sp, only=True)
        thread.compact = True
        return thread

    def tick(self, now: int) -> None:
        """Drain at a time (tsc)."""
        self.sampler.now = now
        self.feed.drain()

    def lengths(self) -> list[int]:
        """Compare both ways; return how many calls each stretch has."""
        self.sampler.now = 1 << 40
        self.feed.finish()
        plain = self.plain.take() + self.plain.finish()
        self.events = self.stretched.take() + self.stretched.finish()
        assert rows(self.events) == rows(plain)
        assert calls_in(self.events) == calls_in(plain)
        return lengths(self.events)


@pytest.fixture
def both() -> Iterator[Both]:
    both = Both()
    yield both
    for drainer in both.feed.drainers:
        drainer.close()
    both.block.close()


def call(thread: FakeThread, times: int = 1, *, sp: int = SP, slot: int = F) -> None:
    for _ in range(times):
        thread.enter(slot, sp, arg0=thread.tsc)
        thread.leave(slot, sp, result=thread.tsc)


def test_calls_in_a_row_are_one_event(both: Both) -> None:
    thread = both.thread()
    call(thread, 5)
    call(thread, 5, slot=G, sp=SP - 100)
    call(thread, slot=OPEN)
    assert both.lengths() == [11]
    stretch = both.events[-1]
    assert isinstance(stretch, Stretch)
    assert (stretch.pid, stretch.tid) == (100, 100)
    start, ticks, slot, arg0, result, data, errno, back = stretch.calls[0]
    assert (slot.symbol, ticks, arg0, result, data) == ("f", 10, start - 10, start, b"")
    assert (errno, back) == (None, b"")


def test_what_was_captured_at_the_entry_is_in_it(both: Both) -> None:
    thread = both.thread()
    for data in (
        data_units(layout.DATA_STRING, 0, b"a path of more units than one, indeed"),
        b"",
        data_units(layout.DATA_WORDS, 1, struct.pack("<2Q", 2, 3)),
    ):
        thread.enter(F, SP, arg0=7, data=data)
        thread.leave(F, SP)
    assert both.lengths() == [3]


def test_those_who_do_not_ask_get_none(both: Both) -> None:
    call(both.thread(), 5)
    both.lengths()
    assert not lengths(both.plain.take())


def test_another_threads_call_ends_it(both: Both) -> None:
    one, other = both.thread(100), both.thread(101)
    call(one, 3)
    other.tsc = one.tsc
    call(other, 2)
    one.tsc = other.tsc
    call(one, 4)
    other.tsc = one.tsc - 15  # inside of the last one
    call(other, 1)
    assert both.lengths() == [3, 2, 3]


def test_what_happens_to_the_process_ends_it(both: Both) -> None:
    both.tick(1500)  # so that there is a clock
    thread = both.thread()
    call(thread, 3)
    both.feed.event(Signal(EPOCH + (thread.tsc + 4) // GHZ, 100, 100, 15))
    call(thread, 2)
    assert both.lengths() == [3, 2]


def test_a_call_with_others_inside_is_none_of_it(both: Both) -> None:
    thread = both.thread()
    call(thread, 5)
    thread.enter(F, SP + 100)  # with another one inside
    call(thread, 4)
    thread.leave(F, SP + 100)
    call(thread, 1)
    assert both.lengths() == [5, 4, 1]


def test_a_call_that_says_that_others_are_over_is_none_of_it(both: Both) -> None:
    thread = both.thread()
    thread.enter(F, SP)  # is left by longjmp
    call(thread, 3, sp=SP - 100)
    call(thread, 2, sp=SP + 100)
    assert both.lengths() == [3, 1]


def test_a_call_where_one_was_left_is_none_of_it(both: Both) -> None:
    thread = both.thread()
    thread.enter(F, SP - 100)
    call(thread, 1, sp=SP)  # says that it is over: it may return after all
    call(thread, 2, sp=SP)
    call(thread, 2, sp=SP - 100)  # or not any more
    assert both.lengths() == [2, 1]


def test_a_call_on_another_part_of_the_stack_is_none_of_it(both: Both) -> None:
    thread = both.thread()
    call(thread, 2)
    call(thread, 2, sp=SP - 300)  # deeper than ever
    call(thread, 2, sp=SP + (1 << 30))  # another stack
    call(thread, 2)
    assert both.lengths() == [2, 1, 1, 1]


def test_a_call_in_place_of_an_open_one_is_none_of_it(both: Both) -> None:
    thread = both.thread()
    call(thread, 2)
    thread.enter(F, SP)
    thread.enter(G, SP, tail=True)
    thread.leave(G, SP)
    thread.leave(F, SP)
    call(thread, 2)
    thread.enter(G, SP, tail=True)  # of a function that is not seen
    thread.leave(G, SP)
    assert both.lengths() == [2, 3]


def test_a_function_that_may_return_again_is_none_of_it(both: Both) -> None:
    thread = both.thread()
    call(thread, 2)
    number = thread._site(TWICE, CALLER)
    start = thread.tsc - both.block.tsc_start
    commit = layout.UNIT_WHOLE << 28 | number << layout.TICKS_LOW | 5
    thread.write(layout.WHOLE.struct.pack(commit, SP, start, 0, 0))
    thread.leave(TWICE, SP, result=1)
    call(thread, 2)
    assert both.lengths() == [2, 2]


def test_time_of_the_agent_within_a_call_ends_it(both: Both) -> None:
    thread = both.thread()
    call(thread, 2)
    thread.enter(F, SP)
    thread.overhead(4)
    thread.leave(F, SP)
    call(thread, 1)
    thread.tsc -= 5  # a span that is told late, and lies in the call in front of it
    thread.overhead(2)
    thread.tsc += 3
    call(thread, 3)
    assert both.lengths() == [2, 3]


def test_a_time_that_goes_back_ends_it(both: Both) -> None:
    thread = both.thread()
    call(thread, 2)
    thread.tsc -= 25
    call(thread, 3)  # the first one begins before the end of what was before
    assert both.lengths() == [2, 2]


def test_an_unknown_time_ends_it(both: Both) -> None:
    thread = both.thread()
    call(thread, 2)
    number = thread._site(F, CALLER + SP)
    ticks = layout.NO_TICKS
    commit = layout.UNIT_WHOLE << 28 | number << layout.TICKS_LOW
    commit |= ticks & (1 << layout.TICKS_LOW) - 1
    start = thread.tsc - both.block.tsc_start | ticks >> layout.TICKS_LOW << layout.START_BITS
    thread.write(layout.WHOLE.struct.pack(commit, SP, start, 0, 0))
    call(thread, 2)
    assert both.lengths() == [2, 2]


def test_a_new_piece_of_the_clock_ends_it(both: Both) -> None:
    thread = both.thread()
    both.tick(thread.tsc)
    now = thread.tsc + 4 * HOLD * GHZ
    both.tick(now)  # a pair that was read while the thread wrote
    thread.tsc = now - 55
    call(thread, 5)  # the third begins on the old piece and ends on the new one
    both.tick(now + 4 * HOLD * GHZ)
    assert both.lengths() == [2, 2]


def test_a_clock_that_goes_back_ends_it(both: Both) -> None:
    thread = both.thread()
    now = thread.tsc + 4 * HOLD * GHZ
    both.tick(now)
    thread.tsc = now
    call(thread, 3)  # the clock is set back little by little
    both.sampler.step = -10 * HOLD
    both.tick(now + 2 * HOLD * GHZ)
    both.tick(now + 4 * HOLD * GHZ)
    thread.tsc = now + 4 * HOLD * GHZ
    call(thread, 3)  # it goes on from there, behind what it has said before
    assert both.lengths() == []


def test_calls_that_come_late_are_none_of_it(both: Both) -> None:
    early, late = both.thread(100), both.thread(101)
    early.tsc = late.tsc + 10_000
    call(early, 2)
    both.tick(20_000)
    both.tick(20_000 + HOLD * GHZ)
    call(late, 3)  # long ago: they are told at the time of the others
    assert both.lengths() == [2]


def test_a_loss_ends_it(both: Both) -> None:
    thread = both.thread()
    thread.enter(F, SP + 100)
    call(thread, 2)
    both.tick(thread.tsc + 2)
    thread.lost_exits = both.block.dropped_exits = 1
    thread.give_back()
    call(thread, 2)
    assert both.lengths() == [2, 2]
    entry = next(one for one in both.events if isinstance(one, Entry) and not one.entry_only)
    assert entry.slot.symbol == "f"


def test_a_forked_child_inside_of_its_parents_calls_has_none(both: Both) -> None:
    parent = both.thread()
    parent.enter(F, SP + 100)
    call(parent, 2)
    child = both.agent.thread(200, 200)
    child.tsc = parent.tsc + 20
    child.compact = True
    both.tick(child.tsc)
    time = EPOCH + child.tsc // GHZ
    both.feed.event(ProcessStart(time, 200, "fork", 100, "/bin/program"))
    call(child, 3)
    assert both.lengths() == [2]


def test_the_events_do_not_depend_on_how_much_is_taken(both: Both) -> None:
    thread = both.thread()
    call(thread, 300)
    both.sampler.now = 1 << 40
    both.feed.finish()
    batches = []
    both.stretched.let_go()
    while some := both.stretched.take(1):
        batches.append(some)
    plain = both.plain.take() + both.plain.finish()
    assert rows(event for batch in batches for event in batch) == rows(plain)
    assert sum(map(calls_in, batches)) == 302


def test_no_more_is_taken_than_asked_for(both: Both) -> None:
    threads = both.thread(100), both.thread(101)
    for number in range(100):
        threads[number % 2].tsc = threads[number % 2 - 1].tsc
        call(threads[number % 2], 3)
    both.sampler.now = 1 << 40
    both.feed.finish()
    both.stretched.let_go()
    counts = []
    while some := both.stretched.take(30):
        counts.append(calls_in(some))
    assert sum(counts) == 304
    assert max(counts) <= 20  # 30 entries and exits, of which four have no other


def test_an_exit_with_data_or_errno_ends_a_call_of_a_stretch(both: Both) -> None:
    thread = both.thread()
    for compact in (True, False):
        thread.compact = compact
        thread.enter(F, SP, arg0=7, data=data_units(layout.DATA_WORDS, 1, struct.pack("<Q", 2)))
        thread.leave(F, SP, result=3, data=data_units(layout.DATA_STRING, 1, b"what it wrote"))
        thread.enter(OPEN, SP)
        thread.leave(OPEN, SP, result=-1, errno=2)
        call(thread)
    assert both.lengths() == [6]
    stretch = both.events[-1]
    assert isinstance(stretch, Stretch)
    assert [call[6] for call in stretch.calls] == [None, 2, None] * 2
    assert [bool(call[7]) for call in stretch.calls] == [True, False, False] * 2


def test_an_exit_of_another_function_ends_no_call_of_a_stretch(both: Both) -> None:
    thread = both.thread()
    thread.compact = False
    call(thread, 2)
    thread.enter(F, SP)
    thread.leave(G, SP)
    thread.enter(F, SP)
    thread.leave(F, SP - 16)
    thread.enter(TWICE, SP)
    thread.leave(TWICE, SP)
    thread.enter(F, SP, tail=True)
    thread.leave(F, SP)
    assert both.lengths() == [2]
