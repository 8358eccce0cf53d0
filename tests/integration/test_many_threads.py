# SPDX-License-Identifier: Apache-2.0
"""More threads at once than -c has count arrays."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from soscope.entry.agent.resident import find
from soscope.entry.ptrace import RemoteMemory
from soscope.proc import maps
from tests.support.processes import attached
from tests.support.processes.run import run
from tests.support.processes.tracing import SOSCOPE
from tests.support.targets import build
from tests.support.time.progress import has_run
from tests.support.truth.account import Truth

THREADS, CALLS = 300, 40


@pytest.mark.parametrize("mode", ["-c", "--count-only"])
def test_every_call_of_every_thread_is_counted(mode: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = [*SOSCOPE, "-q", "--json", "-o", str(out), mode, "-e", "f0", "--"]
    done = run([*words, str(build.program("crowd")), str(THREADS), str(CALLS)])
    assert done.returncode == 0, done.stderr
    [row] = json.loads(out.read_text())["rows"]
    assert row["calls"] == 2 * THREADS * CALLS


@pytest.mark.covering(1)
@pytest.mark.parametrize("followed", ["followed", "alone"])
@pytest.mark.parametrize(("mode", "array"), [("-c", 16384), ("--count-only", 2048)])
def test_a_thread_counts_on_where_one_that_ended_has_counted(
    mode: str, array: int, followed: str, tmp_path: Path
) -> None:
    """Threads that come and go take no more room, each on a stack that none had before."""
    out, facts = tmp_path / "out", tmp_path / "truth"
    options = ["-f"] if followed == "followed" else []
    words = [*SOSCOPE, "-q", "--json", "-o", str(out), mode, *options, "-e", "f0,f1@MAIN", "--"]
    program = str(build.program("new_stacks"))
    shared = []
    for threads in (2, 600):
        facts.unlink(missing_ok=True)
        done = run([*words, program, str(threads), "tell"], env={"SOSC_TRUTH": str(facts)})
        assert done.returncode == 0, done.stderr
        shared.append(int(done.stdout))
        made: Counter[str] = Counter()
        for name, least, _, _, role in Truth.read(facts).facts:
            made[name] += least if options or role == "main" else 0
        document = json.loads(out.read_text())
        found = {row["symbol"]: row["calls"] for row in document["rows"]}
        assert found == {name: calls for name, calls in made.items() if calls}
        assert document["totals"]["complete"]
    # without children there are 7 at once; a child has 4 of its own
    assert shared[1] - shared[0] <= (40 if options else 8) * array


def test_a_gigabyte_of_stacks_is_no_reason_to_leave_anything_behind(tmp_path: Path) -> None:
    """That is address space; its threads use a few kilobytes of each."""
    with attached.running([build.program("interrupted"), "128"]) as process:
        before = attached.snapshot(process.pid)
        options = ("--record", str(tmp_path / "run.sosr"))
        done = attached.observe(process.pid, *options, until=has_run(process.pid))
        assert done.returncode == 0, done.stderr
        assert attached.differences(before, process.pid) == []
        memory = RemoteMemory(process.pid)
        (agent,) = find(memory, maps.read(process.pid))
        memory.close()
        assert agent.fields["change_count"] == 0
        assert attached.finish(process) == (7, "wrong 0\n", "")
