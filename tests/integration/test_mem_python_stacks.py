# SPDX-License-Identifier: Apache-2.0
"""The frames of Python in stacks of blocks, against what the interpreter says itself."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from pathlib import Path

import pytest

from soscope.frames.interpreted import PythonFrames, is_python
from soscope.frames.names import stack_at
from soscope.instruments.mem.events import collect
from soscope.instruments.mem.matched import MatchedBlocks
from soscope.recording.reader import RecordingFile
from tests.support.machines.pythons import DISTRIBUTION, few_pythons, pythons
from tests.support.processes.run import run
from tests.support.targets.accounts import SOSCOPE
from tests.support.targets.matrix import REPOSITORY

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
