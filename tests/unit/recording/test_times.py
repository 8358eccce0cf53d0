# SPDX-License-Identifier: Apache-2.0
"""Times: near the truth, and the same whenever they are asked for."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from soscope.model.call import Entry, Event, Exit, Signal
from soscope.recording import clock as clock_module
from soscope.recording.clock import SPACING, Clock, Sampler
from soscope.recording.drain import Feed, Owners
from soscope.recording.reader import RecordingFile
from soscope.recording.sink import Tee
from soscope.recording.stream import Stream, events
from soscope.recording.writer import Writer
from tests.unit.recording.fake import EPOCH, FakeAgent, FakeThread, make_block

RATE = 2.4  # ticks per ns
JITTER = 80  # ns by which one reading is wrong
MILLISECOND = 1_000_000


class Uneven(Sampler):
    """Clocks that are read with errors, and a realtime clock that runs unevenly."""

    def __init__(self, seed: int, *, step_at: int = 1 << 62) -> None:
        super().__init__()
        self.now = 0  # ns of the raw clock
        self._random = random.Random(seed)
        self._step_at = step_at

    def realtime(self, now: int) -> int:
        step = 3_000_000_000 if now >= self._step_at else 0
        return EPOCH + now + now // 10_000 + step

    def sample(self, newest: int = 0) -> tuple[int, int, int]:
        del newest
        error = self._random.randrange(-JITTER, JITTER)
        return ticks(self.now + error), self.realtime(self.now), self.now


def ticks(ns: int) -> int:
    return 1_000_000 + int(ns * RATE)


def shown(found: list[Event]) -> list[object]:
    return [
        (type(one), one.time_ns, one.tid, one.duration_ns if isinstance(one, Exit) else 0)
        for one in found
        if isinstance(one, Signal | Entry | Exit)
    ]


@pytest.mark.parametrize("seed", range(6))
def test_a_recording_fed_again_says_the_same(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever rests there are, however late a record comes and the reader takes it."""
    # no such threads are there; the reader would take their chunks as soon as it looked
    monkeypatch.setattr(Owners, "have_lost", lambda *_: False)
    choose = random.Random(seed).randrange
    path = tmp_path / "run.sosr"
    writer = Writer(str(path), command=["x"], options={}, versions={}, start_ns=EPOCH)
    stream, sampler = Stream(), Uneven(seed)
    feed = Feed(Tee(stream, writer), sampler)
    block = make_block(16)
    agent = FakeAgent(block)
    feed.add(block, "/bin/x", 100)
    agent.image("x")
    agent.slot("f")
    threads = [agent.thread(tid=100 + number) for number in range(4)]
    live: list[Event] = []
    for _ in range(600):
        sampler.now += choose((20, 2, 2, 200)[choose(4)] * MILLISECOND)
        for thread in threads:
            if choose(2):
                late = choose(130 * MILLISECOND) if not choose(5) else choose(MILLISECOND)
                thread.tsc = ticks(max(sampler.now - late, 0))
                thread.enter(0, 1000)
                thread.tsc += choose(40 * MILLISECOND)
                thread.leave(0, 1000)
        if not choose(20):
            feed.event(Signal(sampler.realtime(sampler.now), 100, 100, 15))
        feed.drain()
        if not choose(3):
            live += stream.take(choose(20))
    sampler.now += choose(5) * MILLISECOND
    feed.finish()
    live += stream.finish()
    writer.end(complete=True, why="exit")
    with RecordingFile.open(path) as recording:
        again = list(events(recording))
    feed.close()
    block.close()
    assert shown(again) == shown(live)
    assert len(shown(live)) > 2000


@pytest.mark.parametrize("length", [20, 200, 20_000])
def test_times_and_durations_are_near_the_truth(length: int) -> None:
    sampler, clock = Uneven(length), Clock()
    for _ in range(length):
        sampler.now += MILLISECOND
        clock.add(*sampler.sample())
    choose = random.Random(length).randrange
    for _ in range(200):
        begin = choose(MILLISECOND, sampler.now)
        until = choose(begin, sampler.now)
        assert abs(clock.time_ns(ticks(begin)) - sampler.realtime(begin)) <= 3 * JITTER
        told = clock.duration_ns(ticks(until) - ticks(begin), ticks(until))
        apart = max(min(SPACING, sampler.now), until)
        assert abs(told - (until - begin)) <= 2 + 3 * JITTER * (until - begin) / apart


@pytest.fixture(autouse=True, params=[False, True], ids=["pairs", "whole"])
def units(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every test see calls in units of their own, too."""
    monkeypatch.setattr(FakeThread, "all_compact", request.param)


def test_a_step_of_the_realtime_clock_bends_no_duration() -> None:
    sampler, clock = Uneven(1, step_at=500 * MILLISECOND), Clock()
    for _ in range(1000):
        sampler.now += MILLISECOND
        clock.add(*sampler.sample())
    near = 2 * SPACING // MILLISECOND
    for at in (*range(1, 500 - near), *range(500 + near, 999)):
        now = at * MILLISECOND
        assert abs(clock.time_ns(ticks(now)) - sampler.realtime(now)) <= 3 * JITTER
        assert abs(clock.duration_ns(ticks(10_000) - ticks(0), ticks(now)) - 10_000) <= 2


def test_a_machine_without_an_agent_has_the_clock_of_the_system(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """soscope alone stamps records there: by nanoseconds."""
    system = os.uname()
    other = os.uname_result((*system[:4], "aarch64"))
    monkeypatch.setattr(os, "uname", lambda: other)
    sampler, clock = Sampler(), Clock()
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    ticks = sampler.ticks()
    assert before <= ticks <= time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    now = [1_000_000_000]
    still = SimpleNamespace(
        CLOCK_MONOTONIC_RAW=time.CLOCK_MONOTONIC_RAW,
        clock_gettime_ns=lambda which: now[0] if which == time.CLOCK_MONOTONIC_RAW else 0,
        time_ns=lambda: EPOCH + now[0],
    )
    monkeypatch.setattr(clock_module, "time", still)
    clock.add(*sampler.sample())
    now[0] += 20_000_000
    clock.add(*sampler.sample())
    assert clock.rate == 1.0
    assert clock.time_ns(now[0]) == EPOCH + now[0]
