# SPDX-License-Identifier: Apache-2.0
"""What `soscope mem` shows and says where something is missing, and that programs do not notice."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.integration.test_faults import small_disk  # noqa: F401  a fixture
from tests.support.processes.run import besides_cost, run
from tests.support.schemas.checked import wrong_members
from tests.support.schemas.mem import REPORT
from tests.support.targets.accounts import ENDINGS, EVERY, SOSCOPE, built, recorded, rows_of
from tests.support.time.patience import limit


def test_a_full_disk_is_said_in_the_recording(small_disk: Path, tmp_path: Path) -> None:  # noqa: F811  the fixture
    file = small_disk / "run.sosr"
    program = built(
        "many.c",
        """
        static void *volatile kept[50000];
        int main(void)
        {
            for (int i = 0; i < 50000; i++)
                kept[i] = malloc(100);
            return 6;
        }""",
    )
    report, _ = recorded(tmp_path, [program], status=6, output=str(file))
    assert report["state"] == "disk-full"
    assert report["cut"]["by"] == os.strerror(28)
    assert 0 < report["cut"]["at_byte"] <= file.stat().st_size
    rows = rows_of(report, "many.c")
    assert len(rows) == 1
    assert 0 < rows[0]["count"] < 50000


def test_a_full_disk_has_the_objects_up_to_there(small_disk: Path, tmp_path: Path) -> None:  # noqa: F811  the fixture
    file, program = small_disk / "run.sosr", tmp_path / "lines.py"
    lines = "".join(f"kept{at} = [{at}.5]\n" for at in range(10_000))
    program.write_text(f"{lines}many = [[] for _ in range(777)]\nprint('done')\n")
    done = run([*SOSCOPE, "mem", "run", "--objects", "-o", file, "--", "/usr/bin/python3", program])
    assert (done.returncode, done.stdout) == (0, "done\n")
    shown = run([*SOSCOPE, "mem", "report", "--json", str(file)])
    document = json.loads(shown.stdout)
    assert (shown.returncode, document["state"]) == (1, "disk-full")
    own = [row for row in document["survivors"] if row["file"] == str(program)]
    assert (own[0]["line"], own[0]["count"]) == (10_001, 778)  # and the list that holds them
    assert 0 < len(own) < 20_000


def test_a_recording_that_was_cut_is_shown_up_to_there(tmp_path: Path) -> None:
    recorded(tmp_path, [built("every.c", EVERY)])
    file = tmp_path / "run.sosr"
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) * 3 // 4])
    shown = run([*SOSCOPE, "mem", "report", "--json", str(file)])
    report = json.loads(shown.stdout)
    assert not wrong_members(report, REPORT)
    assert (shown.returncode, report["state"]) == (1, "cut")
    assert 0 < report["cut"]["at_byte"] <= len(whole) * 3 // 4


def test_what_is_no_recording_of_memory_is_refused(tmp_path: Path) -> None:
    trace = tmp_path / "trace.sosr"
    done = run([*SOSCOPE, "trace", "--record", str(trace), "--", "true"])
    assert done.returncode == 0
    (tmp_path / "text").write_text("no recording")
    for path in (trace, tmp_path / "text", tmp_path / "missing"):
        for verb in ("report", "report --peak", "leaks", "report --temporary"):
            shown = run([*SOSCOPE, "mem", *verb.split(), str(path)])
            assert (shown.returncode, shown.stdout) == (1, "")
            assert re.fullmatch(r"soscope: error: .*\n(  hint: .*\n)?", shown.stderr)


def test_without_o_the_report_goes_to_stderr(tmp_path: Path) -> None:
    done = run([*SOSCOPE, "mem", "run", "--", built("endings.c", ENDINGS), "_"], cwd=tmp_path)
    assert done.returncode == 3
    assert len(done.stdout.splitlines()) == 200
    assert "blocks alive: 200 of 19.6 KiB" in done.stderr
    assert "endings.c:" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_page_goes_to_stderr_too(tmp_path: Path) -> None:
    words = [*SOSCOPE, "mem", "run", "-q", "--format", "md"]
    done = run([*words, "--", built("endings.c", ENDINGS), "_"], cwd=tmp_path)
    assert done.returncode == 3
    assert len(done.stdout.splitlines()) == 200
    lines = done.stderr.splitlines()
    assert lines[0] == "# soscope mem report"
    assert "- totals native live: 200" in lines


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["run"], 125),
        (["run", "--mode", "much", "true"], 125),
        (["run", "--json", "-o", "x", "true"], 125),
        (["run", "--mode", "sample=0", "true"], 125),
        (["run", "--", "/nonexistent"], 127),
        (["report"], 2),
        (["report", "--limit", "x", "y"], 2),
        (["report", "--json", "--format", "stats", "x"], 2),
    ],
)
def test_misuse_is_said(words: list[str], status: int) -> None:
    done = run([*SOSCOPE, "mem", *words])
    assert done.returncode == status
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


REAL = {
    "sqlite3": [
        "sqlite3",
        ":memory:",
        "create table t(a,b); insert into t values(1,'x'),(2,'y'); select * from t order by b;",
    ],
    "python3": ["/usr/bin/python3", "-c", "print(sum(len(str(i)) for i in range(20000)))"],
    "perl": ["perl", "-e", 'my %h = map { $_ => "x" x $_ } 1..500; print scalar(keys %h), "\\n"'],
    "git": ["git", "--version"],
}


@pytest.mark.every(2)
@pytest.mark.parametrize("name", sorted(REAL))
def test_real_programs_do_what_they_always_do(name: str, tmp_path: Path) -> None:
    command = REAL[name]
    wanted = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit())
    report, output = recorded(tmp_path, command, status=wanted.returncode)
    assert output == wanted.stdout
    totals = report["totals"]["native"]
    assert totals["allocations"] == totals["frees"] + totals["live"] > 30
    assert not any(map(besides_cost, report["notes"]))
