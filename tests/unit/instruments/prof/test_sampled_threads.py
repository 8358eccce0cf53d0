# SPDX-License-Identifier: Apache-2.0
"""Whose turn it is to be sampled, and who stands where it may be seen."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from soscope.entry.isa import arch
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
    """An account that says what a test wants: as `ThreadAccount.look` and `kernel_ns` do."""

    def __init__(self, turns: int, in_kernel: int) -> None:
        self.says = 0, 0, turns
        self.in_kernel = in_kernel

    def look(self) -> tuple[int, int, int]:
        return self.says

    def kernel_ns(self) -> int:
        return self.in_kernel

    def close(self) -> None:
        pass


CALL = arch.Registers(orig_rax=228)  # clock_gettime(2)
INTERRUPT = arch.Registers(orig_rax=2**64 - 1)
BEFORE, NOW = 5, 6  # how often the thread had got a processor
TURNS = 10


def _looks(process: SampledProcess, turns: int, where: arch.Registers, in_kernel: int = 0) -> int:
    """Return in how many of TURNS turns one after the other the thread is looked at."""
    thread: SampledThread = process.threads[process.pid]
    thread.account.close()
    thread.account = _Account(turns, in_kernel)  # type: ignore[assignment]
    thread.turns, thread.owed, thread.in_calls, looks = BEFORE, 0, 0, 0
    for _ in range(TURNS):
        thread.owed += PERIOD
        if process.ran(thread, where):
            looks += 1
            process.add(thread, where, (0, bytes(8), [], True))
    return looks


@pytest.mark.parametrize("where", [CALL, INTERRUPT])
def test_a_thread_that_had_a_processor_is_looked_at(
    sampled: SampledProcess, where: arch.Registers
) -> None:
    assert _looks(sampled, BEFORE, where) == TURNS


def test_a_thread_is_looked_at_where_an_interrupt_took_its_processor(
    sampled: SampledProcess,
) -> None:
    assert _looks(sampled, NOW, INTERRUPT) == TURNS


@pytest.mark.parametrize("periods", [0, 3, TURNS])
def test_ends_of_calls_have_no_more_samples_than_the_kernel_has_time(
    sampled: SampledProcess, periods: int
) -> None:
    """A thread that has lost its processor there is let go else, and owes its time."""
    looks = _looks(sampled, NOW, CALL, periods * PERIOD)
    thread = sampled.threads[sampled.pid]
    told = sampled._tally.take()
    sampled_periods = sum(row[-1] for row in told["counts"]) if told else 0
    assert (thread.in_calls, thread.owed) == (
        sampled_periods * PERIOD,
        (TURNS - sampled_periods) * PERIOD,
    )
    assert abs(sampled_periods - periods) <= 1
    assert bool(looks) == bool(periods)
