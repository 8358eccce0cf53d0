# SPDX-License-Identifier: Apache-2.0
"""`soscope export` of a profile: what each reader finds is what the program itself counts."""

from __future__ import annotations

import gzip
import json
import re
import shlex
from pathlib import Path

import pytest

from soscope.export.profiles import BOTH_FORMATS, PROFILE_FORMATS
from soscope.instruments.prof.report import profile_of
from soscope.recording.reader import RecordingFile
from soscope.report.prof import document
from tests.support.machines.tools import need
from tests.support.processes.run import run, soscope
from tests.support.targets import build
from tests.support.targets.build import made
from tests.support.truth import protoread

pytestmark = pytest.mark.shares

THREADS, ROUNDS = 4, 5_000
CALLS = THREADS * ROUNDS  # of f0, and as many of f1


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("profile") / "run.sosr"
    options = ["-q", "--boundary", "time", "-l", "libleaf*", "-o", str(path)]
    command = [str(build.program("threads")), str(THREADS), str(ROUNDS)]
    done = soscope("prof", "run", *options, "--", *command)
    assert (done.returncode, done.stdout) == (0, f"threads {THREADS} {ROUNDS}\n")
    return path


def test_the_gprof_line_shows_the_calls(file: Path, tmp_path: Path) -> None:
    need("gprof")
    done = soscope("export", "--format", "gmon", "-o", tmp_path / "a name", file)
    assert done.returncode == 0
    assert {one.name for one in tmp_path.iterdir()} == {
        "a name.libleaf.so.gmon",
        "a name.libleaf.so.sym",
    }
    (line,) = re.findall(r"soscope: gmon: (gprof -b .*)\n", done.stderr)
    read = run(shlex.split(line))
    assert (read.returncode, read.stderr) == (0, "")
    rows = [one.split() for one in read.stdout.partition("Call graph")[0].splitlines()]
    calls = {row[-1]: row[3] for row in rows if row and row[-1] in {"f0", "f1"}}
    assert calls == {"f0": str(CALLS), "f1": str(CALLS)}
    assert re.search(rf"\b{CALLS}/{CALLS}\s+run@threads ", read.stdout)


def test_every_format_has_the_calls(file: Path, tmp_path: Path) -> None:
    with RecordingFile.open(file) as recording:
        known = profile_of(recording)
    for name in PROFILE_FORMATS:
        if name == "gmon":
            continue
        out = tmp_path / f"run.{name}"
        done = soscope("export", "--format", name, "-o", out, file)
        assert done.returncode == 0, done.stderr
        data = out.read_bytes()
        if name == "pprof":
            data = gzip.decompress(data)
            message = protoread.read(data, protoread.PPROF, "Profile")
            counts = [sample["value"][0] for sample in message["sample"]]
            assert counts == [CALLS, CALLS]
        elif name == "json":
            assert json.loads(data) == json.loads(document(known))
        elif name == "callgrind":
            assert re.findall(rb"calls=(\d+)", data) == [b"%d" % CALLS] * 2
        for symbol in (b"f0", b"f1", b"run"):
            assert symbol in data, name
        if name in BOTH_FORMATS:
            assert "two frames" in done.stderr, name


def test_folded_stacks_weigh_calls(file: Path) -> None:
    options = ["--format", "folded", "--weight", "calls", "-o", "-"]
    done = soscope("export", *options, file)
    assert done.stdout.splitlines() == [
        f"threads;threads`run;libleaf.so`f0 {CALLS}",
        f"threads;threads`run;libleaf.so`f1 {CALLS}",
    ]


def test_what_a_recording_cannot_be_written_as(file: Path, tmp_path: Path) -> None:
    calls, out = tmp_path / "calls.sosr", tmp_path / "out"
    assert soscope("trace", "-q", "--record", calls, "--", "true").returncode == 0
    for words, recording, status, why in (
        (["--format", "csv", "-o", out], file, 1, "it is a profile, and csv is for single calls"),
        (["--format", "gmon", "-o", "-"], file, 2, "gmon is several files"),
        (["--format", "gmon", "-o", out], calls, 1, "gmon is for recordings of soscope prof"),
        (["-o", tmp_path / "a.json"], calls, 1, "json is for recordings of soscope prof"),
        (["--format", "folded", "--weight", "samples", "-o", out], calls, 1, "it has no samples"),
        (["--format", "pprof", "-o", file], file, 2, "-o names the recording itself"),
    ):
        done = soscope("export", *words, recording)
        assert done.returncode == status, (words, done.stderr)
        assert why in done.stderr, (words, done.stderr)
        assert "Traceback" not in done.stderr
    assert not out.exists()


def test_a_recording_that_ends_early_is_written_as_far_as_it_goes(
    file: Path, tmp_path: Path
) -> None:
    cut, out = tmp_path / "cut.sosr", tmp_path / "out.folded"
    cut.write_bytes(file.read_bytes()[:-40])
    done = soscope("export", "-o", out, cut)
    assert done.returncode == 1
    assert f"{cut}: " in done.stderr
    assert "libleaf.so`f0" in out.read_text()


def test_callgrind_has_the_source_files_of_debug_information(tmp_path: Path) -> None:
    text = (
        '__attribute__((noinline)) void leaf(void) { __asm__(""); }\n\n'
        "int main(void)\n{\n\tleaf();\n}\n"
    )
    command = "cc -g -O1 -finstrument-functions -o known {here}/known.c"
    folder = made({"known.c": text}, command)
    source, program, file = folder / "known.c", folder / "known", tmp_path / "run.sosr"
    done = soscope("prof", "run", "-q", "--mode", "count", "-o", file, "--", program)
    assert done.returncode == 0
    assert soscope("export", "-o", tmp_path / "run.callgrind", file).returncode == 0
    annotate = [need("callgrind_annotate", "perl"), "--auto=no", "run.callgrind"]
    annotated = run(annotate, cwd=tmp_path)  # it names files below that folder without it
    assert f"{source}:leaf" in annotated.stdout
    assert f"{source}:main" in annotated.stdout
    lines = (tmp_path / "run.callgrind").read_text().splitlines()
    assert "calls=1 1" in lines, "leaf begins in line 1"
