# SPDX-License-Identifier: Apache-2.0
"""`soscope prof report`: a recording shown in all its ways, beside what the program says it did."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.support.files import elffiles
from tests.support.processes.run import soscope
from tests.support.targets import build
from tests.support.time.patience import limit

THREADS, LOOPS = 4, 5000
CALLS = THREADS * LOOPS


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("prof") / "run.sosr"
    command = [str(build.program("threads")), str(THREADS), str(LOOPS)]
    done = soscope("prof", "run", "-q", "-o", path, *command)
    assert (done.returncode, done.stdout) == (0, f"threads {THREADS} {LOOPS}\n")
    return path


def rows(*words: str | Path) -> dict[str, list[str]]:
    """Return the cells of each row of a report by its function."""
    done = soscope("prof", "report", *words)
    assert (done.returncode, done.stderr) == (0, "")
    cells = [line.split() for line in done.stdout.splitlines()]
    return {row[-1]: row for row in cells if len(row) > 3}


def test_functions_stand_with_their_calls(recording: Path) -> None:
    said = rows("--limit", "1000", recording)
    for name in ("f0", "f1"):
        assert said[name][4] == "libleaf.so" or said[name][5] == "libleaf.so"
        assert str(CALLS) in said[name]
    assert said["total"][0] == "100.00"


def test_callers_and_callees(recording: Path) -> None:
    said = rows("--callers", "f0", recording)
    assert said["run"][3] == said["f0"][3] == str(CALLS)
    said = rows("--callees", "run@threads", "--percent-limit", "0", recording)
    assert said["f0"][3] == said["f1"][3] == str(CALLS)
    assert rows("--tree", "--percent-limit", "0", recording)["f1"][3] == str(CALLS)


def test_documents_and_pages(recording: Path) -> None:
    done = soscope("prof", "report", "--json", "--by", "image", recording)
    said = json.loads(done.stdout)
    assert said["schema"] == "soscope/prof-report/1"
    (leaf,) = [row for row in said["groups"]["rows"] if row["name"] == "libleaf.so"]
    assert leaf["calls"] == 2 * CALLS
    done = soscope("prof", "report", "--json", "--tree", recording)
    (leaf,) = [row for row in json.loads(done.stdout)["rows"] if row["symbol"] == "f0"]
    assert leaf["calls"] == CALLS
    page = soscope("prof", "report", "--format", "md", "--limit", "2", recording).stdout
    assert "## Functions, the largest first" in page
    assert f"soscope prof report --tree {recording}" in page


def test_a_recording_is_compared_with_its_own_document(recording: Path, tmp_path: Path) -> None:
    before = tmp_path / "before.json"
    before.write_text(soscope("prof", "report", "--json", recording).stdout)
    done = soscope("prof", "diff", "--json", before, recording)
    assert done.returncode == 0
    rows = json.loads(done.stdout)["rows"]
    assert {(row["why"], row["change_ns"]) for row in rows} == {(None, 0)}
    (leaf,) = [row for row in rows if row["symbol"] == "f0"]
    assert leaf["a_calls"] == leaf["b_calls"] == CALLS
    assert "functions unchanged" in soscope("prof", "diff", before, recording).stdout
    done = soscope("prof", "diff", "--samples", before, recording)
    assert done.stderr == f"soscope: error: there are no samples in '{before}' and '{recording}'\n"
    done = soscope("prof", "diff", before, build.program("threads"))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)


@pytest.mark.parametrize("name", ["run.svg", "run.html"])
def test_it_is_drawn(recording: Path, tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    done = soscope("prof", "flame", "-o", file, recording)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    text = file.read_text()
    assert "all calls" in text
    assert ("<script>" in text) == (name == "run.html")
    kept = tmp_path / "kept.svg"
    kept.write_bytes(recording.read_bytes())
    for words, status in (
        (("-o", tmp_path / "run.png", recording), 2),
        (("-o", kept, kept), 2),
        (("-o", file, tmp_path / "missing"), 1),
        ((recording,), 2),
    ):
        done = soscope("prof", "flame", *words)
        assert (done.returncode, done.stdout) == (status, "")
        assert done.stderr.startswith("soscope: error: ")
    assert kept.read_bytes() == recording.read_bytes()


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("--callers", "f00000"), 1, "no function of the profile is called 'f00000'"),
        (("--tree", "--callers", "f0"), 2, "--callers"),
        (("--by", "image", "--tree"), 2, "--by image adds rows up, and a tree has call paths"),
        (("--percent-limit", "7"), 2, "--percent-limit is about trees"),
        (("--tree", "--percent-limit", "101"), 2, "'101' is not a percentage"),
        (("--load-bias", "0x1000"), 2, "are for profiles of gprof and LD_PROFILE"),
    ],
)
def test_wrong_use_is_said(recording: Path, words: list[str], status: int, said: str) -> None:
    done = soscope("prof", "report", *words, recording)
    assert (done.returncode, done.stdout) == (status, "")
    assert said in done.stderr
    assert done.stderr.startswith("soscope: error: ")


GPROF = """\
static int made[2];
__attribute__((noinline)) void inner(int by) { made[by]++; }
__attribute__((noinline)) void few(void) { inner(0); __asm__(""); }
__attribute__((noinline)) void many(void) { inner(1); inner(1); __asm__(""); }
int main(void)
{
    for (int i = 0; i < 7; i++) {
        few();
        many();
    }
    return printf("[%d, %d]\\n", made[0], made[1]) < 0;
}
"""


def test_a_file_of_gprof_has_callers_too(tmp_path: Path) -> None:
    elffiles.built(tmp_path, "counted", "#include <stdio.h>\n" + GPROF, "-pg")
    made = subprocess.run(
        ["./counted"], cwd=tmp_path, capture_output=True, check=True, timeout=limit()
    )
    by_few, by_many = json.loads(made.stdout)
    file = tmp_path / "gmon.out"
    said = rows("--callers", "inner", "--image", tmp_path / "counted", file)
    assert [said[name][1] for name in ("inner", "few", "many")] == [
        str(by_few + by_many), str(by_few), str(by_many),
    ]  # fmt: skip
    done = soscope("prof", "flame", "-o", tmp_path / "run.svg", "--image", "counted", file)
    assert done.returncode == 1
    done = soscope("prof", "report", file)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--image PROGRAM" in done.stderr
    done = soscope("prof", "diff", file, file)
    assert (done.returncode, done.stdout) == (1, "")
    assert "report --json --image IMAGE FILE makes a document" in done.stderr


def test_whoever_shows_calls_names_the_verb_for_profiles(recording: Path) -> None:
    done = soscope("report", recording)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"soscope prof report {recording} shows it" in done.stderr


def test_a_picture_of_half_a_recording_says_so(recording: Path, tmp_path: Path) -> None:
    half = tmp_path / "half.sosr"
    half.write_bytes(recording.read_bytes()[: recording.stat().st_size // 2])
    done = soscope("prof", "flame", "-o", tmp_path / "half.svg", half)
    assert (done.returncode, done.stderr) == (1, f"soscope: '{half}' is not complete: cut\n")


def test_what_is_no_profile_is_said(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("no recording")
    for path in (text, tmp_path / "missing"):
        done = soscope("prof", "report", path)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
