# SPDX-License-Identifier: Apache-2.0
"""`report` as text: calls in a row that are one event give the same lines as each by itself."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import pytest

from soscope.instruments.trace.replay import Replay
from soscope.model.call import Event, Stretch
from soscope.recording.reader import RecordingFile
from soscope.recording.stream import batches
from soscope.report.output import Output
from soscope.report.trace.display import Display
from soscope.report.trace.text import TextListener
from soscope.wire import layout
from tests.support.machines.tools import need
from tests.support.processes.run import run
from tests.support.processes.tracing import SOSCOPE
from tests.support.targets import build

DISPLAYS: list[dict[str, int]] = [
    {},
    {"durations": True, "time": 2},
    {"several": True, "string_limit": 5, "time": 3},
]


class OneByOne(TextListener):
    """Is given entries and exits."""

    takes_stretches = False

    def events(self, batch: list[Event]) -> None:
        """Write them."""
        assert not any(isinstance(event, Stretch) for event in batch)
        super().events(batch)


def text(file: Path, kind: type[TextListener], display: dict[str, int]) -> tuple[bytes, int | None]:
    """Return what a listener writes of a recording, and how many calls were counted."""
    path = file.with_suffix(".txt")
    output = Output.open(os.fspath(path))
    output.begin()
    replay = Replay(file)
    outcome = replay.run(kind(output, Display(**display)))  # type: ignore[arg-type]  # as above
    replay.close()
    output.close()
    return path.read_bytes(), outcome.calls


def compare(file: Path, displays: list[dict[str, int]] = DISPLAYS) -> None:
    for display in displays:
        expected, calls = text(file, OneByOne, display)
        found, counted = text(file, TextListener, display)
        assert found == expected
        assert counted == calls


def recorded(folder: Path, *words: str) -> Path:
    file = folder / "run.sosr"
    run([*SOSCOPE, "-q", "--when-full=block", "--record", str(file), *words])
    return file


def in_stretches(file: Path) -> float:
    """Return which part of all units are calls in stretches."""
    with RecordingFile.open(file) as recording:
        calls = sum(
            len(event.calls)
            for batch in batches(recording, stretches=True)
            for event in batch
            if isinstance(event, Stretch)
        )
        units = sum(len(piece.units) // layout.UNIT for piece in recording.chunks())
    return calls / units


def test_nearly_all_leaf_calls_of_a_thread_are_in_stretches(tmp_path: Path) -> None:
    crowd = str(build.program("crowd"))
    file = recorded(tmp_path, "-e", "f0", "--", crowd, "1", "4000")
    assert in_stretches(file) > 0.45  # each has a unit with five words behind it
    compare(file)


@pytest.mark.parametrize("threads", ["2", "8"])
def test_several_threads(tmp_path: Path, threads: str) -> None:
    crowd = str(build.program("crowd"))
    compare(recorded(tmp_path, "-e", "f0", "--", crowd, threads, "800"))


@pytest.mark.every(3)
@pytest.mark.parametrize("target", ["setjmp", "coroutines", "fork", "errno", "returns", "nested"])
def test_programs_that_leave_calls_in_other_ways(tmp_path: Path, target: str) -> None:
    compare(recorded(tmp_path, "-f", "--", str(build.program(target))))


@pytest.mark.every(2)
@pytest.mark.parametrize(
    "command",
    [
        ["perl", "-e", "my %h; $h{$_} = length for 1..500; print join ',', %h; system 'true'"],
        ["sqlite3", ":memory:", "create table t(a); insert into t values(1); select * from t;"],
        ["git", "--version"],
        [sys.executable, "-I", "-S", "-c", "print(3)"],
    ],
    ids=lambda command: Path(command[0]).name,
)
def test_real_programs(tmp_path: Path, command: list[str]) -> None:
    need(command[0])
    file = recorded(tmp_path, "-f", "-e", "*", "--from", "all", "--", *command)
    compare(file, DISPLAYS[-1:])  # they make tens of thousands of calls


def test_damaged_recordings(tmp_path: Path) -> None:
    crowd = str(build.program("crowd"))
    file = recorded(tmp_path, "-e", "f0", "--", crowd, "2", "500")
    whole = file.read_bytes()
    compare_cut = file.with_name("cut.sosr")
    compare_cut.write_bytes(whole[: len(whole) // 2])
    compare(compare_cut)
    choose = random.Random(1).randrange
    for number in range(5):
        data = bytearray(whole)
        for _ in range(20):
            data[choose(len(data) // 4, len(data))] ^= 1 << choose(8)
        damaged = file.with_name(f"{number}.sosr")
        damaged.write_bytes(data)
        compare(damaged)
