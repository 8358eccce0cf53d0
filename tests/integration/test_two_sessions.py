# SPDX-License-Identifier: Apache-2.0
"""Two sessions on one process whose threads stand in signal handlers meanwhile.

A handler may have interrupted the agent anywhere: when it returns, that thread goes on in the
middle of what it did for the first session. The program says itself whether all went well.
"""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from soscope.entry.agent.resident import Resident, find
from soscope.entry.ptrace import RemoteMemory
from soscope.proc import maps
from soscope.proc.status import children
from soscope.wire import layout
from tests.support.processes import attached
from tests.support.targets import build
from tests.support.time.patience import limit, until

THREADS = 12
STEPPED = 120  # threads; a call that is recorded takes as many steps in the agent
KNOWN = 1000  # calls that each thread makes when it is asked to
MODES = {
    "count": ["--count-only", "--json"],
    "times": ["-c", "--json"],
    "block": ["--record", "{}.sosr", "--buffer", "1M"],
    "drop": ["--record", "{}.sosr", "--buffer", "256K", "--when-full", "drop"],
    "overwrite": ["--record", "{}.sosr", "--buffer", "256K", "--when-full", "overwrite"],
    "text": ["-o", "{}.text", "--buffer", "1M"],
    "all": ["--record", "{}.sosr", "--buffer", "32M", "--when-full", "block"],
}
EXACT = {"count", "times"}
PAIRS = [
    *(("block", "times"), ("times", "block"), ("count", "times"), ("times", "count")),
    *(("overwrite", "overwrite"), ("drop", "count"), ("text", "drop"), ("count", "text")),
]


def say(process: subprocess.Popen[str], word: str) -> None:
    """Have the program do something, and wait until it has."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(word + "\n")
    process.stdin.flush()
    assert process.stdout.readline() == word + "\n", process.poll()


def begin(pid: int, path: Path, mode: str) -> subprocess.Popen[str]:
    """Begin a session, and return when all of the process is hooked."""
    sessions = [agent.fields["sessions"] for agent in agents(pid)]
    options = [word.format(path) for word in MODES[mode]]
    if "--json" in options:
        options += ["-o", f"{path}.json"]
    tracer = attached.start(pid, *options)

    def is_hooked() -> bool:
        # A new agent does not say at once how much it has to hook: a child of soscope goes in, and
        # ends when all is done.
        return not children(tracer.pid) and any(
            agent.is_hooked
            and not agent.fields["waiting"]
            and agent.fields["sessions"] not in sessions
            for agent in agents(pid)
        )

    until(is_hooked, "all is hooked", running=tracer)
    return tracer


def agents(pid: int) -> list[Resident]:
    """Return the agents in a process."""
    try:
        memory = RemoteMemory(pid)
    except OSError:
        return []  # the process has ended, which the caller finds out
    try:
        return find(memory, maps.read(pid))
    finally:
        memory.close()


def end(tracer: subprocess.Popen[str]) -> None:
    """End a session, and wait until its agent is out of the process."""
    tracer.send_signal(signal.SIGINT)
    _, errors = tracer.communicate(timeout=limit())
    assert tracer.returncode == 0, errors
    assert "Traceback" not in errors


def assert_two_sessions(
    tmp_path: Path,
    first: str,
    second: str,
    hold: Callable[[subprocess.Popen[str]], None],
    threads: int = THREADS,
) -> None:
    """Let handlers begin in one session, and return in another."""
    program = build.program("interrupted")
    with attached.running([program, str(threads)]) as process:
        tracer = begin(process.pid, tmp_path / "first", first)
        hold(process)
        end(tracer)
        tracer = begin(process.pid, tmp_path / "second", second)
        say(process, "go")
        say(process, "count")
        end(tracer)
        if second in EXACT:
            assert counted(tmp_path / "second.json") == threads * KNOWN
        assert attached.finish(process) == (7, "wrong 0\n", "")


def counted(path: Path) -> int:
    """Return how many calls of `f2` a session has counted."""
    rows = json.loads(path.read_text())["rows"]
    return sum(row["calls"] for row in rows if row["symbol"] == "f2")


def anywhere(process: subprocess.Popen[str]) -> None:
    """Interrupt each thread wherever it is."""
    say(process, "hold")


@pytest.mark.every(4)
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_handlers_that_strike_anywhere(first: str, second: str, tmp_path: Path) -> None:
    assert_two_sessions(tmp_path, first, second, anywhere)


def stepping(stride: int) -> Callable[[subprocess.Popen[str]], None]:
    """Interrupt the n-th thread where it has made n * `stride` steps in the agent's code."""

    def hold(process: subprocess.Popen[str]) -> None:
        (agent,) = agents(process.pid)
        say(process, f"step {agent.base:x} {layout.BLOB_DATA:x} {stride}")

    return hold


# A process of many threads is stepped through: one pair for each of the agent's ways, and the
# rest of them where there is time.
STEPS = [
    *(("block", "times", 1), ("times", "block", 1), ("count", "text", 1)),
    *(("overwrite", "overwrite", 1), ("block", "times", 7)),
]
LEFT = {*((*pair, 1) for pair in PAIRS), ("overwrite", "block", 7)} - {*STEPS}
SOAKED = [pytest.param(*steps, marks=pytest.mark.soak) for steps in sorted(LEFT)]


@pytest.mark.every(3)
@pytest.mark.parametrize(("first", "second", "stride"), [*STEPS, *SOAKED])
def test_handlers_that_strike_at_each_instruction(
    first: str, second: str, stride: int, tmp_path: Path
) -> None:
    assert_two_sessions(tmp_path, first, second, stepping(stride), threads=STEPPED)


MANY = 44  # threads; 40 and more of them need count arrays that are mapped later by "times"
ARRAY = layout.MAX_SLOTS * layout.STATS.size  # bytes
TURN = ("count", "times", "count", "times", "text", "times", "count", "block")  # by eights


def shared_size(pid: int) -> int:
    """Return how much of a process's address space is memory that it shares with soscope."""
    return sum(
        area.end - area.start
        for area in maps.read(pid)
        if "soscope" in area.path and area.flags == "rw-s"
    )


def test_sessions_one_after_another_count_every_call(tmp_path: Path) -> None:
    """Each gives its memory back, and arrays that were mapped later, unless a handler is inside."""
    sizes = []
    with attached.running([build.program("interrupted"), str(MANY)]) as process:
        for number in range(len(TURN) + 2):
            mode = TURN[number % len(TURN)]
            path = tmp_path / f"{number}"
            tracer = begin(process.pid, path, mode)
            if number == len(TURN):  # held since the last session
                say(process, "go")
            say(process, "count")
            if number == len(TURN) - 1:
                say(process, "hold")
            sizes.append(shared_size(process.pid))
            end(tracer)
            if mode in EXACT:
                assert counted(tmp_path / f"{number}.json") == MANY * KNOWN, (number, mode)
        assert attached.finish(process) == (7, "wrong 0\n", "")
    assert sizes[1] - sizes[0] >= 40 * ARRAY, sizes
    # Threads that begin at the same time may pass by arrays that lie there, and map others.
    for number in range(2, len(TURN)):
        alike = [
            size for size, mode in zip(sizes[:number], TURN, strict=False) if mode == TURN[number]
        ]
        assert not alike or abs(sizes[number] - alike[0]) <= 8 * ARRAY, sizes
    # what the handler holds is added, and what it may still look at
    assert max(sizes[len(TURN) :]) <= 2 * (max(sizes[: len(TURN)]) + 8 * ARRAY), sizes
