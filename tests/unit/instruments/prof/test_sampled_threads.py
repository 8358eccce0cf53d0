# SPDX-License-Identifier: Apache-2.0
"""Whose turn it is to be sampled, and who stands where it may be seen."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from soscope.instruments.prof.sampling import sampler
from soscope.instruments.prof.sampling.sampler import SampledProcess, SampledThread
from soscope.instruments.prof.sampling.tally import SampleTally
from soscope.instruments.prof.sampling.unwind import ImageMap
from soscope.proc.status import process_ns
from tests.support.time.patience import until

PERIOD = 10_000_000
SPINS = "print(flush=True)\nwhile True: pass"


@pytest.fixture
def sampled() -> Iterator[SampledProcess]:
    """A process whose only thread runs for ever."""
    with subprocess.Popen([sys.executable, "-c", SPINS], stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        program.stdout.readline()
        process = SampledProcess(program.pid, ImageMap(program.pid), 0, PERIOD, SampleTally(PERIOD))
        yield process
        process.close()
        program.kill()


def _runs_on(process: SampledProcess) -> None:
    enough = process_ns(process.pid) + 2 * PERIOD
    until(lambda: process_ns(process.pid) >= enough, "it runs for two periods more")


def test_a_thread_is_due_whenever_it_has_run_for_a_period(sampled: SampledProcess) -> None:
    """It never asks for its time; another process sees that move at a tick of the clock alone."""
    for _ in range(8):
        _runs_on(sampled)
        assert [thread.tid for thread in sampled.due()] == [sampled.pid]
        sampled.threads[sampled.pid].owed = 0  # as if it had been sampled


def test_nobody_is_due_while_no_time_of_the_process_goes_by(
    sampled: SampledProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    _runs_on(sampled)
    ran = process_ns(sampled.pid)
    monkeypatch.setattr(sampler, "process_ns", lambda _pid: ran)
    assert sampled.due()
    assert not sampled.due()  # it is owed a sample as before


class _Account:
    """An account that says what a test wants: as `ThreadAccount.look` does."""

    def __init__(self, delay: int, turns: int) -> None:
        self.says = 0, delay, turns

    def look(self) -> tuple[int, int, int]:
        return self.says

    def close(self) -> None:
        pass


def _answers(process: SampledProcess, delay: int, turns: int) -> list[bool]:
    """Return whether the thread is looked at, in eight turns one after the other."""
    thread: SampledThread = process.threads[process.pid]
    thread.account.close()
    thread.account = _Account(delay, turns)  # type: ignore[assignment]
    thread.delay, thread.turns = 0, 5
    return [process.ran(thread) for _ in range(8)]


def test_a_thread_that_had_a_processor_is_looked_at(sampled: SampledProcess) -> None:
    assert _answers(sampled, 0, 5) == [True] * 8


def test_a_thread_that_has_waited_since_the_turn_began_is_looked_at(
    sampled: SampledProcess,
) -> None:
    assert _answers(sampled, 1000, 6) == [True] * 8


def test_a_thread_that_had_waited_before_the_turn_began_is_let_go(
    sampled: SampledProcess,
) -> None:
    an_hour = 3600 * 1_000_000_000
    assert _answers(sampled, an_hour, 6) == [False] * 7 + [True]
