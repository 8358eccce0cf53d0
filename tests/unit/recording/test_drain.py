# SPDX-License-Identifier: Apache-2.0
"""Emptying the ring: nothing twice, nothing missing, nothing of a living thread taken."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from soscope.model.call import ProcessExit, ProcessStart
from soscope.recording import drain as drain_module
from soscope.recording import format as form
from soscope.recording.drain import Drainer, Feed, Owners
from soscope.recording.names import Programs, RecordedProgram
from soscope.recording.sink import Sink
from soscope.recording.units import Piece, pieces_of, records_of
from soscope.wire import layout
from tests.support.time.patience import limit, until
from tests.support.time.progress import waits_in
from tests.unit.recording.fake import (
    PER_CHUNK,
    FakeAgent,
    FakeSampler,
    FakeThread,
    data_units,
    make_block,
)


class Kept(Sink):
    """Keeps all that it hears."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.tables: list[tuple[int, int, int]] = []  # kind, first, pieces so far
        self.ends: list[tuple[int, int]] = []
        self.drops: list[tuple[int, ...]] = []
        self.programs = Programs()
        self.told = 0  # programs, again and again

    def program(self, index: int, facts: dict[str, object]) -> None:
        self.told += 1
        self.programs[index].facts = facts

    def table(self, kind: int, program: int, first: int, data: bytes) -> None:
        self.programs[program].add(kind, first, data)
        self.tables.append((kind, first, len(self.pieces)))

    def chunk(self, program: int, header: bytes, first: int, units: bytes) -> None:
        self.pieces.append(Piece(program, header, first, units))

    def chunks(self, program: int, data: bytes | memoryview) -> None:
        self.pieces += pieces_of(program, data)

    def thread_end(self, time_ns: int, pid: int, tid: int) -> None:
        del time_ns
        self.ends.append((pid, tid))

    def dropped(self, program: int, tsc: int, totals: tuple[int, ...]) -> None:
        del program, tsc
        self.drops.append(totals)

    def args(self, tid: int = 100) -> list[int]:
        """Return the first arguments of a thread's entries, in order."""
        return [
            record[4]
            for piece in self.pieces
            if piece.tid == tid
            for kind, record, _ in records_of(piece.units, RecordedProgram(0))
            if kind == layout.UNIT_ENTRY
        ]


class Target:
    """A control block, a fake agent in it, and its drainer."""

    def __init__(self, chunks: int = 8, when_full: int = layout.FULL_BLOCK) -> None:
        self.block = make_block(chunks, when_full)
        self.agent = FakeAgent(self.block)
        self.agent.image("program")
        self.agent.slot("f")
        self.sink = Kept()
        self.drainer = Drainer(self.block, 0, self.sink, FakeSampler(), "/bin/program")
        self.drainer.pids.add(100)
        self.thread = self.agent.thread()
        self.next = 0

    def calls(self, count: int, thread: FakeThread | None = None) -> None:
        for _ in range(count):
            (thread or self.thread).enter(0, 1000, arg0=self.next)
            self.next += 1

    def states(self) -> list[int]:
        return list(self.block.chunk_states())


@pytest.fixture
def target() -> Iterator[Target]:
    target = Target()
    yield target
    target.drainer.close()
    target.block.close()


def test_every_drain_is_a_heartbeat(target: Target) -> None:
    before = target.block.heartbeat
    for _ in range(3):
        target.drainer.drain()
    assert target.block.heartbeat == before + 3


def test_nothing_is_told_before_the_agent_runs() -> None:
    target = Target()
    target.block.state = layout.STATE_NEW
    target.calls(3)
    assert target.drainer.drain() == 0
    assert target.sink.pieces == []
    target.block.state = layout.STATE_RUNNING
    assert target.drainer.drain() == 3
    assert target.sink.programs[0].path == "/bin/program"


def test_units_are_handed_over_as_they_come(target: Target) -> None:
    for _ in range(5):
        target.calls(200)
        target.drainer.drain()
        target.drainer.drain()
    assert target.sink.args() == list(range(1000))
    # the chunk in use is left to its thread
    assert target.states().count(layout.CHUNK_OWNED) == 1
    assert target.states().count(layout.CHUNK_FULL) == 0


def test_chunks_are_freed_and_used_again(target: Target) -> None:
    for _ in range(20):
        target.calls(3 * PER_CHUNK)
        target.drainer.drain()
    assert target.sink.args() == list(range(60 * PER_CHUNK))
    assert target.block.ring_drained > 0


@pytest.mark.parametrize("calls", [1, 7, PER_CHUNK // 3, PER_CHUNK // 2 + 9, PER_CHUNK])
@pytest.mark.parametrize("drained", [False, True])
def test_what_a_thread_gives_back_is_handed_over_as_far_as_it_goes(
    target: Target, calls: int, drained: bool
) -> None:
    for tid in range(200, 230):
        thread = target.agent.thread(tid=tid)
        target.calls(calls, thread)
        if drained:
            target.drainer.drain()
            target.calls(3, thread)
        thread.give_back()
        target.drainer.drain()
    assert target.sink.args() == []
    each = calls + 3 * drained
    for place, tid in enumerate(range(200, 230)):
        assert target.sink.args(tid) == list(range(place * each, (place + 1) * each))
    handed = sum(len(piece.units) for piece in target.sink.pieces)
    used = 30 * each * layout.UNIT
    assert handed == used if calls < PER_CHUNK // 2 else handed <= 30 * 2 * layout.CHUNK_SIZE
    assert target.states().count(layout.CHUNK_FREE) == len(target.states())


def test_chunks_of_many_threads_keep_the_order_of_each(target: Target) -> None:
    threads = [target.agent.thread(tid=tid) for tid in range(100, 104)]
    choose = random.Random(3)
    given: dict[int, list[int]] = {thread.tid: [] for thread in threads}
    for _ in range(300):
        thread = choose.choice(threads)
        for _ in range(choose.randrange(40)):
            given[thread.tid].append(target.next)
            target.calls(1, thread)
        if choose.random() < 0.1:
            target.drainer.drain()
    target.drainer.finish()
    assert {tid: target.sink.args(tid) for tid in given} == given


def test_a_unit_that_is_not_committed_holds_back_those_behind(target: Target) -> None:
    target.calls(3)
    at = target.thread.at
    target.calls(4)
    memory = target.block.chunk(target.thread.chunk)
    commit = bytes(memory[at : at + 4])
    memory[at : at + 4] = bytes(4)
    target.drainer.drain()
    assert target.sink.args() == [0, 1, 2]
    memory[at : at + 4] = commit
    target.drainer.drain()
    assert target.sink.args() == list(range(7))


def test_data_waits_for_its_entry(target: Target) -> None:
    target.thread.enter(0, 1000, arg0=5, data=data_units(layout.DATA_STRING, 0, b"x" * 60))
    memory = target.block.chunk(target.thread.chunk)
    at = layout.CHUNK_HEADER
    commit = bytes(memory[at : at + 4])
    memory[at : at + 4] = bytes(4)
    assert target.drainer.drain() == 0
    memory[at : at + 4] = commit
    assert target.drainer.drain() == 4


def test_what_was_never_finished_is_skipped_when_the_target_is_dead(target: Target) -> None:
    target.calls(3)
    at = target.thread.at
    target.calls(4)
    target.block.chunk(target.thread.chunk)[at : at + 4] = bytes(4)
    target.drainer.finish()
    assert target.sink.args() == [0, 1, 2, 4, 5, 6]
    assert set(target.states()) == {layout.CHUNK_FREE}


def test_a_living_target_keeps_its_chunks_at_the_end(target: Target) -> None:
    target.calls(3)
    target.drainer.finish(dead=False)
    assert target.sink.args() == [0, 1, 2]
    assert target.states().count(layout.CHUNK_OWNED) == 1


def test_a_chunk_that_is_being_prepared_is_left_alone(target: Target) -> None:
    target.calls(PER_CHUNK + 1)
    target.drainer.drain()
    target.block.set_chunk_state(0, layout.CHUNK_OWNED)  # taken; its old content is still there
    assert target.drainer.drain() == 0


def test_names_come_before_the_units_that_use_them(target: Target) -> None:
    target.calls(3)
    target.drainer.drain()
    late = target.agent.slot("late")
    target.thread.enter(late, 900)
    target.drainer.drain()
    kinds = {kind: pieces for kind, _, pieces in target.sink.tables}
    assert kinds[form.SLOTS] == kinds[form.STRINGS] == 1
    assert [slot.symbol for slot in target.sink.programs[0].slots()] == ["f", "late"]


def test_names_are_told_once(target: Target) -> None:
    for _ in range(5):
        target.calls(10)
        target.drainer.drain()
    target.drainer.finish()
    assert [kind for kind, _, _ in target.sink.tables] == [form.STRINGS, form.IMAGES, form.SLOTS]


def test_a_record_that_is_not_ready_is_told_when_it_is(target: Target) -> None:
    half = target.agent.slot("half", ready=0)
    target.agent.slot("whole")
    target.drainer.drain()
    names = target.sink.programs[0]
    assert [slot.symbol for slot in names.slots()] == ["f", "whole"]
    target.drainer.drain()
    count = len(target.sink.tables)
    target.agent.slot("half", index=half)
    target.drainer.drain()
    assert [slot.symbol for slot in names.slots()] == ["f", "half", "whole"]
    assert len(target.sink.tables) == count + 2  # with its string


def test_a_string_that_was_filled_late_is_told_again(target: Target) -> None:
    at = target.agent.string("filled")
    memory = target.block.view(layout.SEC_STRINGS, at, at + 6)
    memory[:] = bytes(6)
    target.agent.slot("first")
    target.drainer.drain()
    memory[:] = b"filled"
    target.agent.slot("second")
    target.drainer.drain()
    assert target.sink.programs[0].string(at) == "filled"


def test_records_that_changed_are_told_at_the_end(target: Target) -> None:
    target.calls(1)
    target.drainer.drain()
    target.agent.slot("renamed", index=0)
    target.drainer.finish()
    assert target.sink.programs[0].slot(0).symbol == "renamed"


def test_losses_are_told_when_they_grow(target: Target) -> None:
    target.drainer.drain()
    target.block.dropped_exits = 7
    target.drainer.drain()
    target.drainer.drain()
    assert [totals[layout.DROP_KINDS] for totals in target.sink.drops] == [7]


def test_overwritten_rings_are_drained_at_the_end() -> None:
    target = Target(chunks=4, when_full=layout.FULL_OVERWRITE)
    target.calls(10 * PER_CHUNK)
    assert target.drainer.drain() == 0
    assert [slot.symbol for slot in target.sink.programs[0].slots()] == ["f"]
    target.drainer.finish()
    kept = target.sink.args()
    assert kept == list(range(10 * PER_CHUNK))[-len(kept) :]
    assert len(kept) >= 3 * PER_CHUNK


@pytest.fixture
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain_module, "_DEAD_EVERY", 0.0)


def a_dead_thread() -> int:
    tids: list[int] = []
    thread = threading.Thread(target=lambda: tids.append(threading.get_native_id()))
    thread.start()
    thread.join()
    until(lambda: not os.path.exists(f"/proc/self/task/{tids[0]}"), "the thread is gone")
    return tids[0]


@pytest.mark.usefixtures("_hurry")
def test_the_chunk_of_a_dead_thread_is_taken_back(target: Target) -> None:
    pid, tid = os.getpid(), a_dead_thread()
    target.drainer.pids.add(pid)
    target.calls(3, target.agent.thread(pid, tid))
    for _ in range(3):
        target.drainer.drain()
    assert target.sink.args(tid) == [0, 1, 2]
    assert target.sink.ends == [(pid, tid)]
    assert set(target.states()) == {layout.CHUNK_FREE}


@pytest.mark.usefixtures("_hurry")
def test_the_chunks_of_the_dead_are_overwritten_in_their_turn() -> None:
    target = Target(when_full=layout.FULL_OVERWRITE)
    pid, tid = os.getpid(), a_dead_thread()
    target.drainer.pids |= {pid, 200}
    target.calls(3, target.agent.thread(pid, tid))
    target.calls(3, target.agent.thread(pid, threading.get_native_id()))
    target.calls(3, target.agent.thread(200, 201))
    target.drainer.process_ended(200)
    for _ in range(3):
        target.drainer.drain()
    assert target.states().count(layout.CHUNK_OWNED) == 1
    assert target.states().count(layout.CHUNK_FULL) == 2
    assert (target.sink.pieces, target.sink.ends) == ([], [])
    target.drainer.finish()
    assert target.sink.args(tid) == [0, 1, 2]
    assert target.sink.args(201) == [6, 7, 8]
    full = [piece.tsc_full for piece in target.sink.pieces if piece.tid in {tid, 201}]
    assert len(full) == 2
    assert all(full)  # else nobody hears that it was overwritten
    target.drainer.close()
    target.block.close()


@pytest.mark.usefixtures("_hurry")
def test_the_chunk_of_a_living_thread_is_not(target: Target) -> None:
    target.drainer.pids.add(os.getpid())
    target.calls(3, target.agent.thread(os.getpid(), threading.get_native_id()))
    for _ in range(5):
        target.drainer.drain()
    assert target.sink.ends == []
    assert target.states().count(layout.CHUNK_OWNED) == 1


@pytest.mark.usefixtures("_hurry")
def test_ids_of_another_namespace_are_not_looked_up(target: Target) -> None:
    target.calls(3, target.agent.thread(1 << 29, 1 << 29))
    for _ in range(5):
        target.drainer.drain()
    assert target.states().count(layout.CHUNK_OWNED) == 1


def test_a_ring_that_living_threads_own_is_starved(clock: list[float]) -> None:
    target = Target(chunks=2)
    threads = [target.agent.thread(os.getpid(), tid) for tid in (1, 2)]
    for thread in threads:
        target.calls(1, thread)
    target.drainer.drain()  # takes something: nobody is starved yet
    target.drainer.drain()
    for passed, is_starved in ((0.9, False), (0.2, True)):
        clock[0] += passed * drain_module._STARVING
        target.drainer.drain()
        assert bool(target.block.starved) == is_starved
    threads[0].give_back()
    target.drainer.drain()
    assert not target.block.starved


class Interrupted:
    """A thread whose record is interrupted by a handler that makes calls of its own.

    The handler goes on in the next chunk, or leaves by siglongjmp.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self.thread = target.thread
        target.calls(3)
        self.chunk = self.thread.chunk
        self.memory = target.block.chunk(self.chunk)
        self.hole = self.thread.at
        target.calls(1)  # with two units of data, the first of them written
        self.thread.at += 2 * layout.UNIT
        data = data_units(layout.DATA_STRING, 0, b"x" * 40)
        self.memory[self.hole + 32 : self.hole + 64] = data[:32]
        self.commit = bytes(self.memory[self.hole : self.hole + 4])
        self.memory[self.hole : self.hole + 4] = bytes(4)
        self.data = data

    def finish(self) -> None:
        self.memory[self.hole + 32 : self.hole + 96] = self.data
        self.memory[self.hole : self.hole + 4] = self.commit

    def next_chunk(self) -> None:
        self.thread.chunk = -1  # the agent keeps it: there is a hole


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Stop the drainers' clock; its time can be set."""
    now = [100.0]
    fake = SimpleNamespace(monotonic=lambda: now[0], time_ns=time.time_ns)
    monkeypatch.setattr(drain_module, "time", fake)
    return now


def test_what_a_handler_does_waits_for_what_it_interrupted(
    target: Target, clock: list[float]
) -> None:
    one = Interrupted(target)
    target.calls(2)
    one.next_chunk()
    target.calls(2)
    for _ in range(3):
        target.drainer.drain()
        assert target.drainer.waits
        clock[0] += 0.05
    assert target.sink.args() == [0, 1, 2]
    one.finish()
    one.thread.give_back(one.chunk)
    target.drainer.drain()
    assert target.sink.args() == list(range(8))
    assert not target.drainer.waits


@pytest.mark.parametrize("chunks", [1, 2])
def test_a_record_that_is_never_finished_is_passed_over_in_order(
    target: Target, clock: list[float], chunks: int
) -> None:
    one = Interrupted(target)
    target.calls(2)
    if chunks == 2:
        one.next_chunk()
    target.calls(2)
    target.drainer.drain()
    clock[0] += 0.3
    target.drainer.drain()
    target.drainer.drain()
    assert target.sink.args() == [0, 1, 2, 4, 5, 6, 7]
    target.calls(2)
    target.drainer.drain()  # at once
    assert target.sink.args() == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    target.drainer.finish()
    assert target.sink.args() == [0, 1, 2, 4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("chunks", [1, 2])
@pytest.mark.parametrize("at_end", [False, True])
def test_a_record_that_is_finished_late_is_told_late_and_once(
    target: Target, clock: list[float], chunks: int, at_end: bool
) -> None:
    one = Interrupted(target)
    target.calls(2)
    if chunks == 2:
        one.next_chunk()
    target.calls(1)
    target.drainer.drain()
    clock[0] += 0.3
    target.drainer.drain()
    one.finish()
    target.calls(1)
    if not at_end:
        target.drainer.drain()
    target.drainer.finish()
    assert target.sink.args() == [0, 1, 2, 4, 5, 6, 3, 7]
    late = [
        data
        for piece in target.sink.pieces
        for kind, record, data in records_of(piece.units, RecordedProgram(0))
        if kind == layout.UNIT_ENTRY and record[4] == 3
    ]
    assert late == [one.data]


def behind_a_hole(target: Target) -> None:
    """Leave a chunk with a hole, a full one and one in use, none of them handed over."""
    one = Interrupted(target)  # by a cancellation, say: nobody will ever finish it
    target.calls(2)
    one.next_chunk()
    target.calls(1)
    target.thread.give_back()
    target.calls(1)


@pytest.mark.usefixtures("clock")
def test_nothing_of_a_process_comes_behind_its_end(target: Target) -> None:
    behind_a_hole(target)
    target.drainer.drain()
    target.drainer.process_ended(target.thread.pid)
    assert target.sink.args() == [0, 1, 2, 4, 5, 6, 7]
    assert target.states() == [layout.CHUNK_FREE] * len(target.states())


@pytest.mark.usefixtures("clock")
def test_nothing_of_a_thread_comes_behind_its_end(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Owners, "have_lost", lambda *_: True)
    monkeypatch.setattr(drain_module, "_DEAD_EVERY", 0.0)
    target.drainer.pids.add(target.thread.pid)
    told: list[int] = []
    monkeypatch.setattr(target.sink, "thread_end", lambda *_: told.append(len(target.sink.args())))
    behind_a_hole(target)
    for _ in range(3):
        target.drainer.drain()
    assert told == [7]
    assert target.sink.args() == [0, 1, 2, 4, 5, 6, 7]
    assert target.states() == [layout.CHUNK_FREE] * len(target.states())


@pytest.mark.usefixtures("clock")
def test_nobody_waits_where_chunks_are_short() -> None:
    target = Target(chunks=2)
    one = Interrupted(target)
    one.next_chunk()
    target.calls(1)
    target.drainer.drain()
    assert target.sink.args() == [0, 1, 2, 4]


def test_a_vfork_childs_chunk_is_left_to_its_parent(target: Target) -> None:
    child = target.agent.thread(pid=200, tid=200)
    child.flags = layout.CHUNK_BORROWED
    target.drainer.pids.add(200)
    target.calls(2, child)
    target.drainer.process_ended(200)
    assert target.sink.args(200) == [0, 1]
    assert target.states().count(layout.CHUNK_OWNED) == 1
    child.give_back()
    target.drainer.drain()
    assert target.states().count(layout.CHUNK_OWNED) == 0


def test_an_ended_process_gives_its_chunks_back(target: Target) -> None:
    other = target.agent.thread(pid=200, tid=201)
    target.calls(2)
    target.calls(3, other)
    feed = Feed(target.sink, FakeSampler())
    feed.drainers.append(target.drainer)
    feed.event(ProcessStart(1, 200, "fork", 100, "/bin/program"))
    assert target.drainer.pids == {100, 200}
    feed.event(ProcessExit(2, 200, 0, None))
    assert target.drainer.pids == {100}
    assert target.sink.args(201) == [2, 3, 4]
    assert sum(len(piece.units) for piece in target.sink.pieces) == 5 * layout.UNIT
    assert target.states().count(layout.CHUNK_OWNED) == 1
    feed.event(ProcessStart(3, 100, "exec", None, "/bin/other"))
    assert target.drainer.pids == set()
    assert target.states().count(layout.CHUNK_OWNED) == 0


def test_a_waiting_writer_is_woken() -> None:
    """A process waits on the futex as the agent does."""
    target = Target(chunks=1)
    target.calls(1)
    target.thread.give_back()
    code = (
        "import ctypes, mmap, sys\n"
        f"memory = mmap.mmap({target.block.fd}, {target.block.size})\n"
        f"word = ctypes.c_uint32.from_buffer(memory, {layout.CONTROL.offset('ring_drained')})\n"
        "print('ready', flush=True)\n"
        "ctypes.CDLL(None).syscall(202, ctypes.byref(word), 0, 0, None)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        pass_fds=[target.block.fd],
        stdout=subprocess.PIPE,
        text=True,
    ) as waiting:
        assert waiting.stdout is not None
        waiting.stdout.readline()
        until(waits_in(waiting.pid, 202), "it waits in futex", running=waiting)
        target.block.ring_waiters = 1
        target.drainer.drain()
        assert waiting.wait(limit()) == 0
