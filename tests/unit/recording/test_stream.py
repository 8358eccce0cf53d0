# SPDX-License-Identifier: Apache-2.0
"""From units in a ring to calls: every way in which a call can end."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from soscope.model.call import (
    DATA_NULL,
    DATA_STRING,
    RESULT_ITEM,
    Dropped,
    Entry,
    Event,
    Exit,
    ProcessExit,
    ProcessStart,
    Signal,
    Stretch,
)
from soscope.recording import drain as drain_module
from soscope.recording.drain import Feed
from soscope.recording.stream import HOLD, Stream
from soscope.wire import layout
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


class Run:
    """A fake target, drained into a stream."""

    def __init__(self, chunks: int = 8, when_full: int = layout.FULL_BLOCK) -> None:
        self.block = make_block(chunks, when_full)
        self.agent = FakeAgent(self.block)
        self.agent.image("program", flags=layout.IMAGE_MAIN)
        self.sampler = FakeSampler()
        self.stream = Stream()
        self.feed = Feed(self.stream, self.sampler)
        self.feed.add(self.block, "/bin/program", 100)
        self.events: list[Event] = []

    def tick(self, now: int) -> list[Event]:
        self.sampler.now = now
        self.feed.drain()
        out = self.stream.take()
        self.events += out
        return out

    def finish(self, now: int = 1 << 40) -> list[Event]:
        self.sampler.now = now
        self.feed.finish()
        out = self.stream.take() + self.stream.finish()
        self.events += out
        return out

    def calls(self) -> list[tuple[str, int, str | None]]:
        """Finish, and return (symbol, depth, how it ended) in order of the entries."""
        self.finish()
        ended: dict[int, str] = {}
        for event in self.events:
            if isinstance(event, Exit) and event.entry is not None:
                ended[id(event.entry)] = event.ended
        return [
            (event.slot.symbol, event.depth, ended.get(id(event)))
            for event in self.events
            if isinstance(event, Entry)
        ]


@pytest.fixture(autouse=True, params=[False, True], ids=["pairs", "whole"])
def units(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every test see calls in units of their own, too."""
    monkeypatch.setattr(FakeThread, "all_compact", request.param)


@pytest.fixture
def run() -> Iterator[Run]:
    run = Run()
    yield run
    for drainer in run.feed.drainers:
        drainer.close()
    run.block.close()


@pytest.fixture
def thread(run: Run) -> FakeThread:
    for name in ("f", "g", "h"):
        run.agent.slot(name)
    run.agent.slot("setjmp", flags=layout.FN_TWICE)
    run.agent.slot("open", error_rule=layout.ERROR_INT_NEGATIVE)
    return run.agent.thread()


F, G, H, SETJMP, OPEN = range(5)


def test_nested_calls_are_paired(run: Run, thread: FakeThread) -> None:
    thread.enter(F, 1000, arg0=7)
    thread.enter(G, 900)
    thread.leave(G, 900, result=5)
    thread.enter(G, 900)
    thread.leave(G, 900)
    thread.leave(F, 1000, result=-1)
    assert run.calls() == [("f", 0, "return"), ("g", 1, "return"), ("g", 1, "return")]
    first = run.events[0]
    assert isinstance(first, Entry)
    assert first.time_ns == EPOCH + 2010 // GHZ
    assert (first.pid, first.tid, first.captured.words) == (100, 100, (7,))
    assert first.return_addr == CALLER + 1000
    assert first.slot.caller is not None
    assert first.slot.caller.path == "/bin/program"
    last = run.events[-1]
    assert isinstance(last, Exit)
    assert last.entry is first
    assert last.duration_ns == 50 // GHZ
    assert last.result == (1 << 64) - 1
    assert last.errno is None


def test_a_failure_has_an_errno_and_a_success_has_none(run: Run, thread: FakeThread) -> None:
    for result in (-1, 3):
        thread.enter(OPEN, 1000)
        thread.leave(OPEN, 1000, result=result, errno=2)
    run.finish()
    assert [event.errno for event in run.events if isinstance(event, Exit)] == [2, None]


def test_errno_is_unknown_where_the_agent_cannot_read_it(run: Run, thread: FakeThread) -> None:
    run.block.agent_flags = 0
    thread.enter(OPEN, 1000)
    thread.leave(OPEN, 1000, result=-1, errno=2)
    run.finish()
    assert [event.errno for event in run.events if isinstance(event, Exit)] == [None]


def test_calls_below_a_later_one_were_unwound(run: Run, thread: FakeThread) -> None:
    thread.enter(F, 1000)
    thread.enter(G, 900)
    thread.enter(H, 800)
    thread.enter(G, 950)
    thread.leave(G, 950)
    thread.leave(F, 1000)
    assert run.calls() == [
        ("f", 0, "return"),
        ("g", 1, "unwound"),
        ("h", 2, "unwound"),
        ("g", 1, "return"),
    ]


def test_an_exit_ends_what_lies_below_it(run: Run, thread: FakeThread) -> None:
    thread.enter(F, 1000)
    thread.enter(G, 900)
    thread.leave(F, 1000)
    assert run.calls() == [("f", 0, "return"), ("g", 1, "unwound")]
    order = [(type(e).__name__, e.slot.symbol) for e in run.events if isinstance(e, Entry | Exit)]
    assert order == [("Entry", "f"), ("Entry", "g"), ("Exit", "g"), ("Exit", "f")]


def test_a_call_at_the_address_of_another_ends_it(run: Run, thread: FakeThread) -> None:
    for _ in range(1000):
        thread.enter(F, 1000)
    thread.leave(F, 1000)
    calls = run.calls()
    assert calls == [("f", 0, "unwound")] * 999 + [("f", 0, "return")]


def test_tail_calls_share_an_address(run: Run, thread: FakeThread) -> None:
    thread.enter(F, 1000)
    thread.enter(G, 1000, tail=True)
    thread.enter(G, 1000, tail=True)
    thread.enter(H, 1000, tail=True, only=True)
    thread.leave(G, 1000)
    thread.leave(G, 1000)
    thread.leave(F, 1000)
    assert run.calls() == [
        ("f", 0, "return"),
        ("g", 1, "return"),
        ("g", 2, "return"),
        ("h", 3, None),
    ]
    entries = [event for event in run.events if isinstance(event, Entry)]
    assert {entry.return_addr for entry in entries} == {CALLER + 1000}
    assert entries[3].entry_only


def test_a_tail_call_of_an_unknown_call_has_no_return_address(run: Run, thread: FakeThread) -> None:
    thread.enter(G, 1000, tail=True)
    thread.leave(G, 1000)
    run.finish()
    assert [e.return_addr for e in run.events if isinstance(e, Entry)] == [0]


def test_entry_only_calls_are_not_open(run: Run, thread: FakeThread) -> None:
    thread.enter(F, 1000, only=True)
    thread.enter(G, 900)
    thread.leave(G, 900)
    assert run.calls() == [("f", 0, None), ("g", 0, "return")]


def test_setjmp_returns_as_often_as_it_likes(run: Run, thread: FakeThread) -> None:
    thread.enter(SETJMP, 1000)
    thread.leave(SETJMP, 1000)
    thread.enter(F, 1000)
    thread.enter(G, 900)
    thread.leave(SETJMP, 1000, result=1)
    thread.enter(F, 1000)
    thread.leave(F, 1000)
    assert run.calls() == [
        ("setjmp", 0, "return"),
        ("f", 0, "unwound"),
        ("g", 1, "unwound"),
        ("f", 0, "return"),
    ]
    exits = [event for event in run.events if isinstance(event, Exit)]
    assert [one.slot.symbol for one in exits] == ["setjmp", "g", "setjmp", "f", "f"]
    assert exits[2].entry is exits[0].entry


def test_another_stack_does_not_unwind(run: Run, thread: FakeThread) -> None:
    far = 0x4000_0000
    thread.enter(F, 1000)
    thread.enter(G, far)
    thread.enter(H, 900)
    thread.leave(G, far)
    thread.leave(H, 900)
    thread.leave(F, 1000)
    assert run.calls() == [("f", 0, "return"), ("g", 0, "return"), ("h", 1, "return")]


def test_a_near_stack_unwinds_and_then_returns(run: Run, thread: FakeThread) -> None:
    near = 1000 + 65536
    thread.enter(F, 1000)
    thread.enter(G, near)
    thread.leave(F, 1000, result=3)
    thread.leave(G, near)
    run.finish()
    exits = [event for event in run.events if isinstance(event, Exit)]
    assert [(one.slot.symbol, one.ended, one.result) for one in exits] == [
        ("f", "unwound", None),
        ("f", "return", 3),
        ("g", "return", 0),
    ]


def test_a_coroutine_may_return_in_another_thread(run: Run, thread: FakeThread) -> None:
    other = run.agent.thread(tid=101)
    thread.enter(F, 0x4000_0000)
    run.tick(thread.tsc)
    other.tsc = thread.tsc
    other.leave(F, 0x4000_0000, result=9)
    assert run.calls() == [("f", 0, "return")]
    last = run.events[-1]
    assert isinstance(last, Exit)
    assert (last.tid, last.result, last.duration_ns) == (101, 9, 10 // GHZ)


def test_a_forked_child_returns_from_its_parents_calls(run: Run, thread: FakeThread) -> None:
    thread.enter(F, 1000)
    child = run.agent.thread(pid=200, tid=200)
    child.tsc = thread.tsc
    child.leave(F, 1000)
    thread.tsc += 100
    thread.leave(F, 1000)
    run.finish()
    exits = [event for event in run.events if isinstance(event, Exit)]
    assert [one.pid for one in exits] == [200, 100]
    assert exits[0].entry is exits[1].entry is run.events[0]


def test_an_exit_without_entry_is_told_without_one(run: Run, thread: FakeThread) -> None:
    thread.leave(F, 1000, result=4)
    run.finish()
    (event,) = run.events
    assert isinstance(event, Exit)
    assert (event.entry, event.slot.symbol, event.result) == (None, "f", 4)
    assert event.duration_ns is None


@pytest.mark.parametrize(("status", "signal", "ended"), [(0, None, "exit"), (None, 9, "killed")])
def test_open_calls_end_with_their_process(
    run: Run, thread: FakeThread, status: int | None, signal: int | None, ended: str
) -> None:
    thread.enter(F, 1000)
    thread.enter(G, 900)
    run.feed.event(ProcessExit(EPOCH + 5000, 100, status, signal))
    assert run.calls() == [("f", 0, ended), ("g", 1, ended)]
    assert isinstance(run.events[-1], ProcessExit)
    exits = [event for event in run.events if isinstance(event, Exit)]
    assert [one.time_ns for one in exits] == [EPOCH + 5000] * 2
    assert [one.duration_ns for one in exits] == [None] * 2


def test_open_calls_end_with_an_exec(run: Run, thread: FakeThread) -> None:
    run.feed.event(ProcessStart(EPOCH, 100, "start", None, "/bin/program"))
    thread.enter(F, 1000)
    run.feed.event(ProcessStart(EPOCH + 5000, 100, "exec", None, "/bin/other"))
    thread.chunk = -1
    thread.enter(G, 900)
    assert run.calls() == [("f", 0, "exit"), ("g", 0, None)]


def test_an_end_told_after_the_stop_lies_behind_it(run: Run, thread: FakeThread) -> None:
    # The time of the end is that of another clock, which may be late by a reading.
    thread.enter(F, 1000)
    run.sampler.now = 5000
    run.feed.stop(run.feed.now())
    run.feed.event(ProcessExit(EPOCH + 4900 // GHZ, 100, 0, None))
    run.finish()
    assert [one.ended for one in run.events if isinstance(one, Exit)] == ["lost"]


def test_open_calls_of_a_living_process_stay_open(run: Run, thread: FakeThread) -> None:
    thread.enter(F, 1000)
    assert run.calls() == [("f", 0, None)]


def test_events_stand_in_order_of_their_times(run: Run, thread: FakeThread) -> None:
    others = [run.agent.thread(tid=tid) for tid in (101, 102)]
    run.tick(1500)
    others[0].tsc = 2003
    others[1].tsc = 2007
    for one in (others[1], thread, others[0]):
        for _ in range(5):
            one.enter(F, 1000)
            one.leave(F, 1000)
    run.feed.event(Signal(EPOCH + 2050 // GHZ, 100, 100, 15))
    run.finish()
    times = [event.time_ns for event in run.events if not isinstance(event, Dropped | Stretch)]
    assert times == sorted(times)
    assert len(times) == 31


@pytest.mark.parametrize("is_told_first", [False, True])
@pytest.mark.parametrize("late_ns", [-3000, -1, 0, 1, 3000])
def test_a_process_starts_before_its_first_record(
    run: Run, thread: FakeThread, late_ns: int, *, is_told_first: bool
) -> None:
    """The time of a fork is another clock's, which may be late."""
    run.tick(5_000)  # the second pair, from which the clock's rate is known
    thread.tsc = 10_000
    thread.enter(F, 1000)
    child, grandchild = (run.agent.thread(pid, pid) for pid in (200, 300))
    forks = [
        ProcessStart(EPOCH + 20_000 // GHZ + late_ns, 200, "fork", 100, "/bin/program"),
        ProcessStart(EPOCH + 20_500 // GHZ + late_ns, 300, "fork", 200, "/bin/program"),
    ]
    grandchild.tsc, child.tsc = 21_000, 24_000
    if is_told_first:
        for fork in forks:
            run.feed.event(fork)
    for each in (grandchild, child):
        each.leave(F, 1000)
        each.enter(G, 1000)
        each.leave(G, 1000)
    if not is_told_first:
        for fork in forks:
            run.feed.event(fork)
    thread.tsc = 30_000
    thread.leave(F, 1000)
    run.finish()
    starts = [at for at, event in enumerate(run.events) if isinstance(event, ProcessStart)]
    assert [run.events[at] for at in starts] == forks
    for at, pid in zip(starts, (200, 300), strict=True):
        assert not [event for event in run.events[:at] if getattr(event, "pid", None) == pid]
    returned = [event for event in run.events if isinstance(event, Exit) and event.is_inherited]
    assert [event.pid for event in returned] == [300, 200]
    calls = [event for event in run.events if isinstance(event, Entry) and event.pid != 100]
    assert [(event.pid, event.depth) for event in calls] == [(300, 0), (200, 0)]


def test_events_wait_for_what_was_done_before_them(run: Run, thread: FakeThread) -> None:
    """A thread may lose its processor between reading the clock and writing its record."""
    late = run.agent.thread(tid=101)
    thread.tsc = 10_000
    thread.enter(F, 1000)
    assert run.tick(20_000) == []
    late.tsc = 9_000
    late.enter(F, 1000)
    assert run.tick(20_000 + (HOLD - 1) * GHZ) == []
    found = run.tick(20_000 + HOLD * GHZ)
    assert [(event.tid, event.time_ns) for event in found if isinstance(event, Entry)] == [
        (101, EPOCH + 9_010 // GHZ),
        (100, EPOCH + 10_010 // GHZ),
    ]


def test_it_is_known_up_to_when_all_has_been_told(run: Run, thread: FakeThread) -> None:
    thread.tsc = 10_000
    thread.enter(F, 1000)
    thread.enter(G, 900)
    run.tick(20_000)
    run.tick(20_000 + HOLD * GHZ)
    assert run.stream.told_until == EPOCH + 20_000 // GHZ
    thread.enter(H, 800)
    run.sampler.now = 20_000 + 2 * HOLD * GHZ
    run.feed.drain()
    assert run.stream.told_until == 0  # the last entry waits to be taken
    run.stream.take()
    assert run.stream.told_until == EPOCH + (20_000 + HOLD * GHZ) // GHZ


def test_events_wait_for_what_is_held_back(
    run: Run, thread: FakeThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A handler's calls are not handed over before the record that it interrupted."""
    monkeypatch.setattr(drain_module, "time", SimpleNamespace(monotonic=lambda: 100.0))
    other = run.agent.thread(tid=101)
    thread.enter(F, 1000)
    memory, hole = run.block.chunk(thread.chunk), thread.at
    thread.enter(G, 900)
    commit = bytes(memory[hole : hole + 4])
    memory[hole : hole + 4] = bytes(4)
    thread.enter(H, 800)
    other.tsc = 10_000
    other.enter(F, 1000)
    for now in range(20_000, 20_000 + 4 * HOLD * GHZ, HOLD * GHZ):
        run.tick(now)
    assert run.events == []
    memory[hole : hole + 4] = commit
    run.tick(20_000 + 5 * HOLD * GHZ)
    run.tick(20_000 + 6 * HOLD * GHZ)
    found = [(one.tid, one.slot.symbol) for one in run.events if isinstance(one, Entry)]
    assert found == [(100, "f"), (100, "g"), (100, "h"), (101, "f")]


def test_what_comes_later_still_has_the_time_of_the_latest(run: Run, thread: FakeThread) -> None:
    late = run.agent.thread(tid=101)
    thread.enter(F, 1000)
    thread.leave(F, 1000)
    run.tick(20_000)
    run.tick(20_000 + HOLD * GHZ)
    late.tsc = 1_500
    late.enter(F, 1000)
    late.leave(F, 1000)
    run.feed.event(Signal(EPOCH + 1_600 // GHZ, 100, 101, 15))
    run.finish()
    times = [event.time_ns for event in run.events if not isinstance(event, Dropped | Stretch)]
    assert times == [EPOCH + 2_010 // GHZ] + [EPOCH + 2_020 // GHZ] * 4
    last = [event for event in run.events if isinstance(event, Exit)][-1]
    assert (last.tid, last.duration_ns) == (101, 10 // GHZ)


def test_the_time_of_a_thread_never_goes_back(run: Run, thread: FakeThread) -> None:
    thread.enter(F, 1000)
    thread.tsc -= 500  # a signal came between the clock and the place
    thread.enter(G, 900)
    thread.leave(G, 900)
    thread.leave(F, 1000)
    run.finish()
    times = [event.time_ns for event in run.events if isinstance(event, Entry | Exit)]
    assert times == sorted(times)


def test_durations_leave_out_the_agents_own_time(run: Run, thread: FakeThread) -> None:
    thread.overhead(1000)  # before
    thread.enter(F, 1000)
    thread.overhead(400)
    thread.enter(G, 900)
    thread.leave(G, 900)
    thread.leave(F, 1000)
    thread.overhead(1000)  # after
    run.finish()
    exits = [event for event in run.events if isinstance(event, Exit)]
    assert [(one.slot.symbol, one.duration_ns) for one in exits] == [
        ("g", 10 // GHZ),
        ("f", 30 // GHZ),
    ]


def test_many_overheads_are_folded(run: Run, thread: FakeThread) -> None:
    thread.enter(F, 1000)
    for _ in range(3):
        for _ in range(400):
            thread.overhead(100)
        thread.enter(G, 900)
        thread.overhead(60)
        thread.leave(G, 900)
        run.tick(thread.tsc)
        run.tick(thread.tsc + HOLD * GHZ)
        thread.tsc += HOLD * GHZ
    thread.leave(F, 1000)
    run.finish()
    exits = [event.duration_ns for event in run.events if isinstance(event, Exit)]
    assert exits == [10 // GHZ] * 3 + [3 * HOLD + 70 // GHZ]


def test_what_the_agent_took_is_known_behind_a_time_far_ahead(run: Run, thread: FakeThread) -> None:
    ahead = 1 << 20
    thread.tsc += ahead
    thread.enter(F, 1000)
    thread.leave(F, 1000)
    thread.tsc -= ahead
    for _ in range(100):
        thread.enter(F, 1000)
        thread.overhead(40)
        thread.leave(F, 1000)
    run.sampler.now = 1 << 40
    run.feed.finish()
    run.stream.let_go()
    while some := run.stream.take(1):  # others' calls come in between
        run.events += some
    exits = [event.duration_ns for event in run.events if isinstance(event, Exit)]
    assert exits == [10 // GHZ] * 101


def test_without_a_clock_there_are_no_times(run: Run, thread: FakeThread) -> None:
    for sp in (1000, 900):
        thread.write(layout.ENTRY.struct.pack(layout.UNIT_ENTRY << 28, sp, 0, CALLER, 0))
        thread.write(layout.EXIT.struct.pack(layout.UNIT_EXIT << 28, sp, 0, 0, 0, 0))
    assert run.calls() == [("f", 0, "return")] * 2
    assert {event.time_ns for event in run.events if isinstance(event, Entry | Exit)} == {0}
    assert {event.duration_ns for event in run.events if isinstance(event, Exit)} == {None}


def test_captured_data_belongs_to_its_entry_and_exit(run: Run, thread: FakeThread) -> None:
    thread.enter(
        OPEN,
        1000,
        arg0=1,
        data=data_units(layout.DATA_WORDS, 1, struct.pack("<5Q", 2, 3, 4, 5, 6))
        + data_units(layout.DATA_STACK, 0, struct.pack("<2Q", 7, 8))
        + data_units(layout.DATA_FLOATS, 0, struct.pack("<d", 2.5))
        + data_units(layout.DATA_STRING, 0, b"/etc/hostname, a path of 2 units")
        + data_units(layout.DATA_STRING, 2, b"", DATA_NULL),
    )
    thread.leave(OPEN, 1000, data=data_units(layout.DATA_STRING, RESULT_ITEM, b"x" * 48))
    run.finish()
    entry, leaving = run.events
    assert isinstance(entry, Entry)
    assert isinstance(leaving, Exit)
    assert entry.captured.words == (1, 2, 3, 4, 5, 6)
    assert entry.captured.stack == (7, 8)
    assert entry.captured.floats == (2.5,)
    assert entry.captured.data == {
        0: (DATA_STRING, 0, b"/etc/hostname, a path of 2 units"),
        2: (DATA_STRING, DATA_NULL, b""),
    }
    assert leaving.captured.data == {RESULT_ITEM: (DATA_STRING, 0, b"x" * 48)}


def test_the_data_of_an_entry_that_was_never_finished_is_left_out(
    run: Run, thread: FakeThread
) -> None:
    thread.enter(F, 1000)
    start = thread.at
    thread.enter(G, 900, arg0=3, data=data_units(layout.DATA_STRING, 0, b"never"))
    run.block.chunk(thread.chunk)[start : start + 4] = bytes(4)
    thread.enter(H, 800)
    thread.give_back()
    assert [name for name, _, _ in run.calls()] == ["f", "h"]
    assert all(not e.captured.data for e in run.events if isinstance(e, Entry))


def test_an_exit_that_was_dropped_makes_a_call_lost(run: Run, thread: FakeThread) -> None:
    run.block.when_full = layout.FULL_DROP
    thread.enter(F, 1000)
    thread.enter(G, 900)
    thread.give_back()
    for index in range(1, len(run.block.chunk_states())):
        run.block.set_chunk_state(index, layout.CHUNK_OWNED)
    run.block.set_chunk_state(0, layout.CHUNK_OWNED)
    thread.leave(G, 900)
    run.block.set_chunk_state(0, layout.CHUNK_FULL)
    run.tick(thread.tsc + 5)
    thread.tsc += 10
    thread.leave(F, 1000)
    thread.enter(F, 1000)
    thread.enter(G, 900)
    thread.enter(G, 950)
    calls = run.calls()
    assert calls == [
        ("f", 0, "return"),
        ("g", 1, "lost"),
        ("f", 0, None),
        ("g", 1, "unwound"),
        ("g", 1, None),
    ]
    assert [(e.count, e.why) for e in run.events if isinstance(e, Dropped)] == [
        (1, "exits whose entry was kept")
    ]


def test_a_slot_without_a_name_is_called_a_question_mark(run: Run, thread: FakeThread) -> None:
    run.block.slot_count = 4001  # it is taken, and nothing is written there yet
    thread.enter(4000, 1000)
    thread.leave(4000, 1000)
    assert run.calls() == [("?", 0, "return")]


def test_events_are_taken_a_few_at_a_time(run: Run, thread: FakeThread) -> None:
    for _ in range(1000):
        thread.enter(F, 1000)
        thread.leave(F, 1000)
    run.sampler.now = thread.tsc
    run.feed.drain()
    assert run.stream.take(most=7) == []
    run.sampler.now += HOLD * GHZ
    run.feed.drain()
    assert run.stream.behind > 0
    found = []
    while taken := run.stream.take(most=7):
        assert len(taken) <= 8
        found += taken
    assert len(found) == 2000
    assert run.stream.behind == 0
