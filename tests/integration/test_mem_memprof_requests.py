# SPDX-License-Identifier: Apache-2.0
"""Ruby's web applications under `soscope mem run`, and dumps by a signal: memprof's other files."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_mem_memprof_ruby import GEM, mem_run, objects
from tests.support.machines.tools import need
from tests.support.processes.run import run
from tests.support.targets.survivors import TARGETS

SERVED = TARGETS / "served.rb"


@pytest.fixture(scope="module")
def ruby() -> str:
    return need("ruby")


def line_of(mark: str) -> int:
    lines = enumerate(SERVED.read_text().splitlines(), 1)
    (number,) = [number for number, line in lines if line.endswith(f"# {mark}")]
    return number


def served(ruby: str, way: str, folder: Path, **how: Any) -> subprocess.CompletedProcess[str]:
    done = mem_run(folder, "--", ruby, "--disable-gems", SERVED, way, folder, **how)
    assert (done.returncode, done.stderr) == (0, "")
    return done


def kept(row: dict[str, Any]) -> dict[int, int]:
    rows = row["tracers"]["objects"]["rows"]
    return {each["line"]: each["count"] for each in rows if each["type"] == "Kept"}


def test_the_middleware_prints_what_requests_leave(ruby: str, tmp_path: Path) -> None:
    said = served(ruby, "middleware", tmp_path).stdout
    leaks, garbage, streams = said.split("\n" + ("-" * 80 + "\n") * 2)[1:]
    assert re.search(rf"^ +100 .*served\.rb:{line_of('leaked')}:Kept$", leaks, re.MULTILINE)
    assert re.search(rf"^ +3 .*served\.rb:{line_of('streamed')}:Kept$", streams, re.MULTILINE)
    counts = [int(each) for each in re.findall(r"^ *(\d+) .*:Kept$", garbage, re.MULTILINE)]
    assert sum(counts) <= 1  # one may lie on the stack
    assert re.findall(r"^\[.*\]$", said, re.MULTILINE) == [
        *('[200, "hello"]', '[200, "hello"]', '[201, "xxx"]')
    ]


def test_the_tracer_adds_a_line_for_each_request(ruby: str, tmp_path: Path) -> None:
    said = served(ruby, "tracer", tmp_path).stdout.splitlines()
    assert said == [
        *('[200, "hello"]', '"mine"', '[201, "xxx"]', "[204, {}, []]"),
        *('[200, "hello"]', '["hello"]', '[200, "hello"]', "true"),
        *('[200, ""]', '[200, ""]'),
    ]
    rows = [json.loads(line) for line in (tmp_path / "lines").read_text().splitlines()]
    leaks, fails, streams, filtered, traced, within, around, last, calls, forks = rows
    assert leaks["request"] == {
        "REQUEST_URI": '/leaks?a="b"',
        "REQUEST_METHOD": "GET",
        "PATH_INFO": "/leaks",
        "REMOTE_ADDR": None,
        "QUERY_STRING": None,
    }
    assert leaks["rails"] == {"controller": "home", "action": "index"}
    assert filtered["rails"] == {"controller": "own", "action": "show"}
    assert [row["response"]["status"] for row in rows] == [200, None, 201, 302, 204] + [200] * 5
    assert fails["exception"] == "ArgumentError"
    leaked = line_of("leaked")
    assert [kept(row) for row in (leaks, fails, streams)] == [
        *({leaked: 100}, {}, {line_of("streamed"): 3})
    ]
    assert (kept(filtered), kept(traced)) == ({line_of("filtered"): 1}, {})
    assert [row["overlapped"] for row in rows] == [0] * 5 + [1, 1, 0, 0, 0]
    assert (kept(within), kept(around)) == ({leaked: 200}, {leaked: 200})
    assert kept(last) == {leaked: 100}
    assert forks["request"]["PATH_INFO"] == "/forks"  # and the child's is no other
    write = calls["tracers"]["fd"]["write"]
    assert (write["calls"], write["actual_bytes"]) == (7, 21)
    assert calls["tracers"]["fd"]["open"]["calls"] == 1
    assert leaks["tracers"]["objects"]["types"]["object"] == 100
    for row in rows:
        assert row["time"] > 0
        assert row["start"] > 1e15
        assert row["counted"] == "process"
        groups = row["tracers"]
        assert set(groups) - {"unseen"} == {"objects", "gc", "memory", "fd", "resources"}
        assert groups["objects"]["created"] == sum(groups["objects"]["types"].values())
        assert {"utime", "stime", "minor_faults"} < groups["resources"].keys()
        files = {each["file"] for each in row["tracers"]["objects"]["rows"]}
        # what the line itself took is not among them
        assert not [file for file in files if "memprof" in file or file.startswith("<internal:")]
    assert calls["tracers"]["objects"]["alive"] < 20


def test_both_of_an_application_look_at_one_request(ruby: str, tmp_path: Path) -> None:
    served(ruby, "both", tmp_path)
    [row] = [json.loads(line) for line in (tmp_path / "lines").read_text().splitlines()]
    assert row["overlapped"] == 0


def test_a_signal_makes_a_dump(ruby: str, tmp_path: Path) -> None:
    said = served(
        ruby, "signal", tmp_path, env={**os.environ, "SOSCOPE_MEM_DUMPS": str(tmp_path)}
    ).stdout.splitlines()
    assert said[:3] == ["no child", "nil", '""']
    assert sorted(said[3:]) == ["at exit", "finalized"]
    assert (tmp_path / "once").read_text() == "once\n"
    dumps = list(tmp_path.glob("memprof-*.json"))
    assert len(dumps) == 2
    for path in dumps:
        lines = Counter(
            row["line"]
            for row in objects(path)
            if row.get("class_name") == "Kept" and "line" in row
        )
        assert lines[line_of("heard")] == 5
        assert sum(lines.values()) <= 6  # one may lie on the stack
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_requests_pass_where_nothing_is_counted(ruby: str, tmp_path: Path) -> None:
    look = ("-r", "memprof/signal", "-e", "p trap('URG', nil).is_a?(Proc)")
    for words, last in (((SERVED, "middleware", tmp_path), '[201, "xxx"]'), (look, "false")):
        done = run([ruby, "-I", GEM / "lib", *words])
        assert (done.returncode, done.stdout.splitlines()[-1]) == (0, last)
        assert done.stderr.count("\n") == 1
        assert "run it under `soscope mem run -- ruby ...`" in done.stderr
