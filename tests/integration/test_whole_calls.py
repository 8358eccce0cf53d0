# SPDX-License-Identifier: Apache-2.0
"""Calls of one record: an exit that finds its entry in front of it makes that one whole."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import soscope
from soscope.model.call import Exit
from soscope.recording.reader import RecordingFile
from soscope.recording.stream import events
from soscope.wire import layout
from tests.integration.test_two_sessions import KNOWN, STEPPED, agents, begin, end, say
from tests.support.processes import attached
from tests.support.processes.run import run
from tests.support.processes.tracing import SOSCOPE
from tests.support.targets import build
from tests.support.targets.covering import sizes
from tests.support.time.patience import limit

SLEWED = 50_000  # ns that clocks may differ in 40 ms, and more


def units(file: Path) -> Counter[int]:
    """Return how many units of each type a recording holds."""
    kinds: Counter[int] = Counter()
    with RecordingFile.open(file) as recording:
        for piece in recording.chunks():
            kinds.update(
                word >> 28 for word in memoryview(piece.units).cast("I")[:: layout.UNIT // 4]
            )
    return kinds


def low(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.int32]:
    """Return words as what the program has: ints."""
    return words.astype(np.uint32).view(np.int32)


def test_a_leaf_call_takes_one_unit_and_six_words_another(tmp_path: Path) -> None:
    file = tmp_path / "run.sosr"
    calls, threads = 50_000, 2
    words = [*SOSCOPE, "-q", "--record", str(file), "-e", "f0", "--"]
    assert run([*words, str(build.program("crowd")), str(threads), str(calls)]).returncode == 0
    kinds = units(file)
    made = 2 * threads * calls
    assert 0.99 * made < kinds[layout.UNIT_WHOLE] <= made
    # prototypes do not say what f0 takes: six words
    assert kinds[layout.UNIT_DATA] <= 1.01 * made
    with soscope.open(file) as recording:
        seen = recording.calls
        assert len(seen) == made
        assert set(seen.ended) == {"return"}
        assert (low(seen.result) == low(seen.arg0) + 1).all()
        assert (seen.duration_ns >= 0).all()


def test_handlers_that_record_at_each_instruction_lose_nothing(tmp_path: Path) -> None:
    with attached.running([build.program("interrupted"), str(STEPPED)]) as process:
        tracer = begin(process.pid, tmp_path / "run", "all")
        (agent,) = agents(process.pid)
        say(process, f"step {agent.base:x} {layout.BLOB_DATA:x} 1")
        say(process, "go")
        say(process, "count")
        end(tracer)
        assert attached.finish(process) == (7, "wrong 0\n", "")
    with soscope.open(tmp_path / "run.sosr") as recording:
        calls = recording.calls
        assert "dropped" not in repr(recording)
    for symbol, times, more in (("f1", 2 * STEPPED, 2), ("f2", STEPPED * KNOWN, 3)):
        some = calls[calls.symbol == symbol]
        assert len(some) == times
        assert Counter(some.ended) == {"return": times}
        assert (low(some.result) == low(some.arg0) + more).all()
    others = calls[calls.symbol == "f0"]
    returned = others[others.ended == "return"]
    assert (low(returned.result) == low(returned.arg0) + 1).all()
    assert set(others.ended) <= {"return", ""}
    assert len(others) - len(returned) <= STEPPED  # that were under way at the end
    for tid in set(calls.tid):
        mine = calls[calls.tid == tid]
        assert (np.diff(mine.time_ns) >= 0).all()


@pytest.mark.parametrize("step", sizes(23, 3))
@pytest.mark.parametrize("first", ["parent", "child"])
def test_a_handler_that_forks_at_each_instruction(tmp_path: Path, first: str, step: int) -> None:
    """Parent and child go on in the same record: neither may spoil what the other has made."""
    file = tmp_path / "run.sosr"
    # soscope is no tracer of the process, else each of its signals would stop it
    start = str(1 + (first == "child") * (step // 2))  # between the other's instructions
    with attached.running([build.program("fork_steps"), first, start, str(step)]) as process:
        # nothing is read before the end: what is spoiled late is seen
        words = ["-q", "--record", str(file), "--when-full", "overwrite", "-e", "f0"]
        tracer = attached.begin(process.pid, *words)
        status, out, errors = attached.finish(process)
        assert status == 0, errors
        _, errors = tracer.communicate(timeout=limit())
        assert tracer.returncode == 0, errors
    made = int(out.split()[1])
    assert made > 400 // step  # four for each instruction
    with soscope.open(file) as recording:
        calls = recording.calls
    assert Counter(calls.ended) == {"return": made}
    assert (low(calls.result) == low(calls.arg0) + 1).all()
    with RecordingFile.open(file) as recorded:
        exits = [one for one in events(recorded) if isinstance(one, Exit)]
    assert all(one.entry is not None for one in exits)


def test_a_child_returns_from_the_fork_that_made_it() -> None:
    words = [*SOSCOPE, "-f", "-e", "fork", "--"]
    code = "import os\nif os.fork(): os.wait()"
    done = run([*words, sys.executable, "-I", "-S", "-c", code])
    returns = [line for line in done.stderr.splitlines() if "fork" in line and "= 0" in line]
    assert len(returns) == 1, done.stderr


def test_calls_that_wait_longer_than_a_look_at_the_ring(tmp_path: Path) -> None:
    file = tmp_path / "run.sosr"
    code = "import time\nfor i in range(40): time.sleep(0.001 * i)"
    words = [*SOSCOPE, "-q", "--record", str(file), "-e", "clock_nanosleep", "--"]
    assert run([*words, sys.executable, "-I", "-S", "-c", code]).returncode == 0
    with soscope.open(file) as recording:
        calls = recording.calls
    assert len(calls) == 40
    assert set(calls.ended) == {"return"}
    # Python sleeps up to a moment that it has computed before, but after the call in front
    ends = calls.time_ns + calls.duration_ns
    assert (np.diff(ends) >= np.arange(1, 40) * 1_000_000 - SLEWED).all()
    assert (calls.time_ns[1:] >= ends[:-1] - SLEWED).all()
    assert (calls.result == 0).all()
