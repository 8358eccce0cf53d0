# SPDX-License-Identifier: Apache-2.0
"""The frames of Python in stacks of blocks, against what the interpreter says itself."""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from soscope.entry.agent.install import agent_path
from soscope.frames.interpreters import PythonFrames, is_python
from soscope.frames.names import FrameNames, stack_at
from soscope.instruments.mem.lifetimes import MatchedBlocks, collect
from soscope.recording.reader import RecordingFile
from tests.support.machines.pythons import DISTRIBUTION, few_pythons, pythons
from tests.support.machines.tools import need
from tests.support.processes.attached import wait_for_hooks
from tests.support.processes.run import run
from tests.support.targets import build
from tests.support.targets.accounts import SOSCOPE
from tests.support.targets.matrix import REPOSITORY
from tests.support.time.patience import limit, until
from tests.support.time.progress import has_run

TARGETS = REPOSITORY / "tests" / "targets" / "mem"
TARGET = TARGETS / "pystacks.py"
MOST = 64
EVALUATOR = "_PyEval_EvalFrameDefault"

Frames = list[list[object]]


def recorded(tmp_path: Path, *command: str, status: int = 0) -> list[tuple[int, Frames]]:
    """Record the program into run.sosr; return what it says of its stacks, by size."""
    file = tmp_path / "run.sosr"
    words = [*SOSCOPE, "mem", "run", "-f", "--blocks", "-o", str(file), "--", *command]
    done = run(words, cwd=tmp_path)
    assert done.returncode == status, done.stderr
    truth = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(truth) > 25
    return truth


def frames_of(path: Path) -> dict[int, list[Frames]]:
    """Return the frames of Python in the stacks of a recording, by size."""
    stacks: dict[int, list[Frames]] = defaultdict(list)
    with RecordingFile.open(str(path)) as recording:
        events = collect(recording)
        blocks = MatchedBlocks(events)
        programs = {index: recording.programs[index] for index, _, _ in events.threads}
        names = {index: PythonFrames(program) for index, program in programs.items()}
        known: dict[tuple[int, int], Frames] = {}  # by program and number
        for size, number, thread in zip(blocks.size, blocks.stack, blocks.thread, strict=True):
            key = events.threads[thread][0], int(number)
            if key not in known:
                words = stack_at(programs[key[0]], key[1])[1]
                found = [names[key[0]].of(word) for word in words if is_python(word)]
                known[key] = [[frame.symbol, frame.file, frame.line] for frame in found]
            stacks[int(size)].append(known[key])
    return stacks


@pytest.mark.every(4)
@pytest.mark.parametrize("python", pythons())
def test_frames_are_those_of_the_interpreter(python: str, tmp_path: Path) -> None:
    how = ["kill"] if "3.12" in python else []  # by a signal that nobody hears of, once
    truth = recorded(tmp_path, python, str(TARGET), *how, status=-9 if how else 0)
    stacks = frames_of(tmp_path / "run.sosr")
    for size, frames in truth:
        assert frames[:MOST] in stacks[size], size


@pytest.mark.every(2)
@pytest.mark.parametrize("python", few_pythons())
def test_frames_are_those_of_code_that_was_there(python: str, tmp_path: Path) -> None:
    truth = recorded(tmp_path, python, str(TARGETS / "dropped.py"))
    stacks = frames_of(tmp_path / "run.sosr")
    assert [size for size, frames in truth if frames not in stacks[size]] == []


def test_frames_lie_where_the_evaluator_ran_them(tmp_path: Path) -> None:
    recorded(tmp_path, DISTRIBUTION, str(TARGET))
    shown = run([*SOSCOPE, "mem", "report", "--json", str(tmp_path / "run.sosr")])
    order: dict[int, list[str]] = {}
    for row in json.loads(shown.stdout)["native"]:
        names = [frame["symbol"] if frame["image"] is None else "C" for frame in row["frames"]]
        order[row["bytes"]] = [name for name, _ in itertools.groupby(names)]
        if row["count"] == 1 and 10_000 < row["bytes"] < 10_400:
            assert row["frames"][-1]["symbol"] == "_start"
            assert EVALUATOR not in [frame["symbol"] for frame in row["frames"]]
    # sorted() calls __lt__, whose C code lies in between
    assert order[10_102] == ["C", "take", "__lt__", "C", "main", "<module>", "C"]
    assert order[10_001] == ["C", "take", "main", "<module>", "C"]
    chain = ["C", "recurse_in_c"] * 6
    assert order[30_005] == ["C", "take", "take_second", *chain, "main", "<module>", "C"]


def named_stacks(path: Path) -> set[tuple[str, ...]]:
    """Return what the frames of all stacks of a recording are called."""
    with RecordingFile.open(str(path)) as recording:
        events, names = collect(recording), FrameNames()
        stacks = set()
        for number, thread in zip(events.units["stack"], events.thread, strict=True):
            program = recording.programs[events.threads[thread][0]]
            frames = names.stack(program, stack_at(program, int(number))[1])
            stacks.add(tuple(str(frame.symbol or frame.image) for frame in frames))
        return stacks


def test_code_that_soscope_runs_is_not_the_programs(tmp_path: Path) -> None:
    script = tmp_path / "kept.py"
    script.write_text("import os\nkept = [bytes(100) for _ in range(20_000)]\nos._exit(0)\n")
    file = tmp_path / "run.sosr"
    words = [*SOSCOPE, "mem", "run", "--objects", "--blocks", "-o", str(file), "--"]
    done = run([*words, DISTRIBUTION, "-S", str(script)])  # site has lines of strings executed
    assert done.returncode == 0, done.stderr
    stacks = named_stacks(file)
    assert ("soscope",) in stacks
    assert [stack for stack in stacks if "PyRun_StringFlags" in stack] == []


# Allocates below frames of Python until it gets a line.
ALLOCATES = """
import select, sys
def deep(left):
    if left:
        return deep(left - 1)
    while not select.select([sys.stdin], [], [], 0)[0]:
        for _ in range(1000):
            bytearray(2000)
print("ready", flush=True)
deep(20)
print("alive", flush=True)
"""


def function_of_agent(name: str) -> tuple[int, int]:
    """Return where a function of the agent's begins and ends."""
    said = run([need("nm"), "-S", agent_path()]).stdout
    (found,) = (words for words in map(str.split, said.splitlines()) if words[-1] == name)
    return int(found[0], 16), int(found[0], 16) + int(found[1], 16)


@contextmanager
def interrupted(function: str) -> Iterator[tuple[subprocess.Popen[str], socket.socket]]:
    """Run a Python whose handler interrupts a function of the agent's, and waits for an answer."""
    source = TARGETS.parent / "hostile" / "interrupted.c"
    library = build.compiled("interrupted.so", ["gcc", "-shared", "-fPIC"], [source])
    low, high = function_of_agent(function)
    mine, its = socket.socketpair()
    mine.settimeout(limit())
    words = f"{its.fileno()} {low:x} {high:x}"
    environ = {**os.environ, "LD_PRELOAD": str(library), "INTERRUPTED": words}
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [DISTRIBUTION, "-c", ALLOCATES],
        env=environ, pass_fds=[its.fileno()], stdin=pipe, stdout=pipe, stderr=pipe, text=True,
    )  # fmt: skip
    with mine, process:
        its.close()
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process, mine
        finally:
            process.kill()


@contextmanager
def recording(pid: int, file: Path) -> Iterator[None]:
    """Record the blocks of a process for a while."""
    words = [*SOSCOPE, "mem", "attach", "--blocks", "-q", "-o", str(file), "-p", str(pid)]
    watcher = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    try:
        wait_for_hooks(watcher, "-o", str(file))
        yield
        watcher.send_signal(signal.SIGINT)
        assert (watcher.communicate(timeout=limit())[1], watcher.returncode) == ("", 0)
    finally:
        watcher.kill()
        watcher.communicate()


@pytest.mark.parametrize("later", ["no session", "another session"])
def test_a_handler_that_returns_when_the_session_is_over(later: str, tmp_path: Path) -> None:
    with interrupted("sosc_python_stack") as (process, handler):
        with recording(process.pid, tmp_path / "first"):
            assert handler.recv(1) == b"h"
        if later == "no session":
            handler.send(b"g")
        else:
            with recording(process.pid, tmp_path / "second"):
                handler.send(b"g")
                until(has_run(process.pid, cpu=0.05), "the program goes on", running=process)
        assert process.communicate("\n", timeout=limit()) == ("alive\n", "")
        assert process.returncode == 0
