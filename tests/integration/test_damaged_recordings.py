# SPDX-License-Identifier: Apache-2.0
"""Damaged recordings: each verb ends, in bounds, and says so if it shows something else."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from soscope.recording import format as form
from tests.support.processes.measured import measured
from tests.support.processes.run import run, soscope
from tests.support.processes.tracing import is_whole
from tests.support.targets import build
from tests.support.targets.covering import sizes
from tests.support.time.patience import limit

HOSTILE = build.TARGETS / "hostile"
PROGRAMS = 60_000
OBJECTS = "k = [[i] for i in range(500)]"


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return one recording of each kind, of programs that do little."""
    folder = tmp_path_factory.mktemp("recordings")
    options = ["gcc", "-O1", "-pthread"]
    source = [HOSTILE / "garbles.c"]
    plain = str(build.compiled("garbles", options, source))
    told = str(build.compiled("told", [*options, "-finstrument-functions"], source))
    objects = [sys.executable, "-I", "-S", "-c", OBJECTS]
    made = []
    for name, verb, command in (
        ("trace-calls", ["trace", "-k", "--record"], [plain, "1", "0", "2"]),
        ("trace-sums", ["trace", "-c", "--record"], [plain, "1", "0", "2"]),
        ("mem-blocks", ["mem", "run", "--blocks", "-o"], [plain, "1", "0", "2"]),
        ("mem-sums", ["mem", "run", "--blocks", "--aggregate", "-o"], [plain, "1", "0", "2"]),
        ("mem-count", ["mem", "run", "--blocks", "--mode", "count", "-o"], [plain, "1", "0", "2"]),
        ("mem-objects", ["mem", "run", "--objects", "-o"], objects),
        ("prof-calls", ["prof", "run", "-o"], [plain, "1", "0", "2"]),
        ("prof-log", ["prof", "run", "--mode", "log", "-o"], [told, "1", "0", "2"]),
    ):
        made.append(folder / f"{name}.sosr")
        done = soscope(*verb, made[-1], "--", *command)
        assert made[-1].exists(), done.stderr
    return made


@pytest.mark.parametrize("copies", sizes(40, 4000))
def test_damaged_recordings(copies: int, recordings: list[Path]) -> None:
    words = [sys.executable, "-m", "tests.support.files.recordings", "0", str(copies)]
    done = run([*words, *map(str, recordings)], timeout=limit(120 + copies))
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) == copies
    assert [row for row in rows if row["faults"]] == []


@pytest.mark.parametrize(
    ("name", "verb"),
    [
        ("mem-blocks", ["mem", "report"]),
        ("mem-blocks", ["mem", "leaks"]),
        ("prof-log", ["prof", "report"]),
        ("trace-calls", ["report", "-c"]),
    ],
)
def test_damage_to_records_is_said(
    name: str, verb: list[str], recordings: list[Path], tmp_path: Path
) -> None:
    """Records are read behind all that says what there is."""
    (file,) = [file for file in recordings if file.stem == name]
    data = bytearray(file.read_bytes())
    data[_middle_of_chunks(bytes(data))] ^= 4
    damaged = tmp_path / file.name
    damaged.write_bytes(data)
    done = soscope(*verb, damaged)
    assert done.returncode == 1
    assert "damaged at offset" in done.stdout + done.stderr
    assert not is_whole(done.stderr)
    if verb[0] != "report":
        said = json.loads(soscope(*verb, "--json", damaged).stdout)
        assert said["state"] == "cut"


def test_a_recording_that_was_cut_between_two_blocks(
    recordings: list[Path], tmp_path: Path
) -> None:
    """soscope was killed: no checksum is wrong, and what comes last is missing."""
    verbs = {"trace": ["report", "-c"], "mem": ["mem", "report"], "prof": ["prof", "report"]}
    silent = []
    for file in recordings:
        verb = verbs[file.stem.partition("-")[0]]
        whole = file.read_bytes()
        at = form.padded(form.HEADER.unpack_from(whole)[2])  # META is there
        while at < len(whole):
            cut = tmp_path / file.name
            cut.write_bytes(whole[:at])
            done = soscope(*verb, cut)
            said = done.stdout + done.stderr
            if done.returncode == 0 or "cut" not in said or is_whole(done.stderr):
                silent.append(f"{file.name}, {at} bytes: {done.returncode}, {said[-200:]}")
            at += form.padded(form.HEADER.unpack_from(whole, at)[2])
    assert silent == []


@pytest.mark.parametrize(
    "verb",
    [["report", "-c"], ["export", "--format", "csv", "-o", "made"]],
    ids=["report", "export"],
)
def test_a_recording_of_many_programs_is_held_once(
    verb: list[str], recordings: list[Path], tmp_path: Path
) -> None:
    """Somebody else may have made it: 200,000 of them are to stay far below a gigabyte."""
    (file,) = [file for file in recordings if file.stem == "trace-calls"]
    whole = file.read_bytes()
    end = _first(whole, form.END)
    more = (b'{"index":%d,"path":"/x"}' % number for number in range(1, PROGRAMS))
    blocks = (b"".join(form.block(form.PROGRAM, said)) for said in more)
    (tmp_path / file.name).write_bytes(whole[:end] + b"".join(blocks) + whole[end:])
    done = measured([sys.executable, "-m", "soscope", *verb, file.name], tmp_path)
    assert done.status == 0, done.err
    assert done.peak < 60 + PROGRAMS * 3 / 1024  # MiB


def _first(data: bytes, kind: int) -> int:
    """Return the offset of the first block of a kind."""
    at = 0
    while form.HEADER.unpack_from(data, at)[1] != kind:
        at += form.padded(form.HEADER.unpack_from(data, at)[2])
    return at


def _middle_of_chunks(data: bytes) -> int:
    at = 0
    while True:
        _, kind, length, _, _ = form.HEADER.unpack_from(data, at)
        if kind in (form.CHUNK, form.CHUNKS):
            return int(at + form.HEADER.size + length // 2)
        at += form.padded(length)
