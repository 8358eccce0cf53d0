# SPDX-License-Identifier: Apache-2.0
"""The arrays say what the stream says, whatever the program does to its stacks."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soscope.model.call import Exit, ProcessExit, ProcessStart
from soscope.model.image import is_error
from soscope.recording.columns import columns, failed
from soscope.recording.reader import RecordingFile
from soscope.recording.stream import events
from soscope.wire import layout
from tests.unit.recording.fake import EPOCH, FakeThread
from tests.unit.recording.randomprograms import (
    COROUTINES,
    SETJMP,
    Program,
    Row,
    assert_read_alike,
    compare,
    small_scale,
)

pytestmark = pytest.mark.slow

EDGES = [edge + by & 2**64 - 1 for edge in (0, 1 << 31, 1 << 32, 1 << 63) for by in (-1, 0, 1)]


@pytest.fixture(autouse=True, scope="module")
def _small_scale() -> Iterator[None]:
    with small_scale():
        yield


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("columns")


# `make soak` has more of each: tests/soak/test_columns.py
KILLED = st.sampled_from([None, True, False])


@settings(max_examples=20)
@given(seed=st.integers(0, 1 << 32), steps=st.integers(0, 600), killed=KILLED)
def test_ordinary_programs(directory: Path, seed: int, steps: int, killed: bool | None) -> None:
    assert_read_alike(directory, seed, steps, killed)


@settings(max_examples=20)
@given(seed=st.integers(0, 1 << 32), steps=st.integers(0, 600), killed=KILLED)
def test_programs_with_coroutines(
    directory: Path, seed: int, steps: int, killed: bool | None
) -> None:
    assert_read_alike(directory, seed, steps, killed, stacks=COROUTINES)


@settings(max_examples=20)
@given(seed=st.integers(0, 1 << 32), steps=st.integers(0, 600), gap=st.integers(1, 1 << 22))
def test_programs_with_stacks_at_all_distances(
    directory: Path, seed: int, steps: int, gap: int
) -> None:
    stacks = tuple(0x1000_0000 + gap * n for n in range(4))
    assert_read_alike(directory, seed, steps, killed=None, stacks=stacks, threads=1)


@pytest.mark.long
@settings(max_examples=10)
@given(seed=st.integers(0, 1 << 32), steps=st.integers(600, 4000), killed=KILLED)
def test_programs_that_lose_events(
    directory: Path, seed: int, steps: int, killed: bool | None
) -> None:
    assert_read_alike(directory, seed, steps, killed, when_full=layout.FULL_DROP, chunks=3)


def test_losses_are_seen(directory: Path) -> None:
    rows: list[Row] = []
    wanted = {"", "return", "unwound", "exit", "lost"}
    for seed in range(20):
        rows += assert_read_alike(
            directory, seed, 4000, killed=False, when_full=layout.FULL_DROP, chunks=2
        )
        if {row[11] for row in rows} == wanted:
            return
    pytest.fail(f"seen: { {row[11] for row in rows} }")


@settings(max_examples=10)
@given(seed=st.integers(0, 1 << 32), steps=st.integers(600, 4000))
def test_programs_whose_oldest_events_are_overwritten(
    directory: Path, seed: int, steps: int
) -> None:
    assert_read_alike(
        directory, seed, steps, killed=True, when_full=layout.FULL_OVERWRITE, chunks=3
    )


def test_a_well_behaved_program_is_told_exactly(directory: Path) -> None:
    path = directory / "exact.sosr"
    choose = random.Random(1).randrange
    program = Program(path, choose, chunks=64, threads=1)
    thread = program.threads[0]
    expected: list[list[object]] = []

    def call(depth: int, sp: int) -> None:
        slot = choose(3)
        thread.tsc += 2
        thread.enter(slot, sp)
        row: list[object] = [slot, depth, "unwound", -1]
        expected.append(row)
        begun = thread.tsc
        frame = 32 + 16 * choose(4)  # calls of one function stand at one address
        for _ in range(choose(4) if depth < 6 else 0):
            call(depth + 1, sp - frame)
        if choose(10):
            thread.leave(slot, sp)
            row[2:] = ["return", (thread.tsc - begun) // 2]

    while len(expected) < 5000:
        call(0, 0x10_0000)
    thread.enter(SETJMP, 0x20_0000)
    program.now = thread.tsc
    program.finish()
    found = [[row[3], row[10], row[11], row[5]] for row in compare(path)]
    assert found[:-1] == expected


def test_deep_recursion_is_paired(directory: Path) -> None:
    path = directory / "deep.sosr"
    program = Program(path, random.Random(1).randrange, chunks=64, threads=1)
    thread = program.threads[0]
    depth = 5000
    for level in range(depth):
        thread.enter(0, 0x1000_0000 - 1024 * level)
    for level in reversed(range(depth)):
        thread.leave(0, 0x1000_0000 - 1024 * level)
    program.now = thread.tsc
    program.finish()
    rows = compare(path)
    assert [row[10] for row in rows] == list(range(depth))
    assert {row[11] for row in rows} == {"return"}


def test_threads_of_other_processes_and_programs_are_apart(directory: Path) -> None:
    path = directory / "apart.sosr"
    program = Program(path, random.Random(1).randrange, chunks=64)
    parent = program.threads[0]
    parent.enter(0, 1000)
    child = program.agent.thread(pid=200, tid=200)
    child.tsc = parent.tsc
    program.fork(100, child)
    child.leave(0, 1000)
    child.enter(1, 900)
    parent.tsc += 50
    parent.leave(0, 1000)
    program.now = parent.tsc + 100
    program.drain()
    program.feed.event(ProcessStart(EPOCH + program.now // 2, 200, "exec", None, "/bin/y"))
    program.feed.event(ProcessExit(EPOCH + program.now // 2 + 5, 200, 0, None))
    again = program.agent.thread(pid=200, tid=200)  # the id once more
    again.tsc = program.now + 100
    program.fork(100, again)
    again.enter(1, 900)
    program.now = again.tsc
    program.finish()
    rows = compare(path)
    assert [(row[1], row[11]) for row in rows] == [(100, "return"), (200, "exit"), (200, "")]


def test_a_child_returns_from_what_its_parents_had_open_when_they_forked(directory: Path) -> None:
    path = directory / "inherited.sosr"
    program = Program(path, random.Random(1).randrange, chunks=64)

    def fork(parent: FakeThread, pid: int) -> FakeThread:
        child = program.agent.thread(pid=pid, tid=pid)
        parent.tsc += 10
        child.tsc = parent.tsc
        program.fork(parent.pid, child)
        return child

    parent = program.threads[0]
    parent.enter(SETJMP, 1200)
    parent.leave(SETJMP, 1200)
    parent.enter(0, 1000)
    parent.enter(1, 900)
    child = fork(parent, 200)
    parent.leave(1, 900)
    parent.leave(0, 1000)
    parent.enter(2, 800)  # after the fork: none of the child's
    parent.leave(2, 800)
    child.tsc = parent.tsc + 50  # who is slow to run at all
    child.leave(1, 900)
    grandchild = fork(child, 300)
    child.leave(0, 1000)
    grandchild.tsc = child.tsc + 50
    grandchild.leave(0, 1000)
    grandchild.leave(SETJMP, 1200, result=1)  # longjmp
    grandchild.leave(2, 800)
    program.now = grandchild.tsc
    program.finish()
    compare(path)
    with RecordingFile.open(path) as recording:
        told = [event for event in events(recording) if isinstance(event, Exit)]
    assert [
        (one.slot.symbol, one.pid, one.entry.pid if one.entry else None)
        for one in told
        if one.pid != 100
    ] == [
        ("g", 200, 100),
        ("f", 200, 100),
        ("f", 300, 100),
        ("setjmp", 300, 100),
        ("h", 300, None),
    ]


def test_a_thread_id_is_used_again(directory: Path) -> None:
    path = directory / "again.sosr"
    program = Program(path, random.Random(1).randrange)
    first = program.threads[0]
    first.enter(0, 1000)
    first.give_back()
    program.now = first.tsc + 10
    program.drain()
    program.writer.thread_end(EPOCH + program.now // 2, 100, 100)
    second = program.agent.thread(pid=100, tid=100)
    second.tsc = program.now + 10
    second.enter(0, 900)
    program.now = second.tsc
    program.finish(killed=True)
    assert [(row[10], row[11]) for row in compare(path)] == [(0, "exit"), (0, "killed")]


def test_a_damaged_recording_has_its_calls_up_to_the_damage(directory: Path) -> None:
    path = directory / "damaged.sosr"
    program = Program(path, random.Random(1).randrange, chunks=16)
    thread = program.threads[0]
    for _ in range(3):
        for _ in range(1000):
            thread.enter(0, 1000)
            thread.leave(0, 1000)
        program.now = thread.tsc
        program.drain()
    program.finish(killed=False)
    data = path.read_bytes()
    block = data.index(b"SOSR", len(data) // 2)
    path.write_bytes(data[:block] + b"\xff" + data[block + 1 :])
    rows = compare(path)
    assert 0 < len(rows) < 3000
    with RecordingFile.open(path) as recording:
        columns(recording)
        assert recording.damage is not None


@given(st.lists(st.integers(0, 2**64 - 1) | st.sampled_from(EDGES), min_size=1))
def test_arrays_of_results_fail_as_each_result_does(results: list[int]) -> None:
    for rule in range(10):
        rules = np.full(len(results), rule, np.uint8)
        found = failed(rules, np.array(results, np.uint64)).tolist()
        assert found == [is_error(rule, result) for result in results], rule


def test_a_recording_without_calls_has_no_columns(directory: Path) -> None:
    path = directory / "none.sosr"
    program = Program(path, random.Random(1).randrange)
    program.finish()
    assert compare(path) == []
