# SPDX-License-Identifier: Apache-2.0
"""What requests of Python's web applications cost and leave, a line for each."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_mem_inside import packages
from tests.support.machines.pythons import few_pythons, pythons
from tests.support.processes.run import kill, run
from tests.support.targets.survivors import TARGETS
from tests.support.time.patience import limit, until

SERVED = TARGETS / "served.py"


def line_of(mark: str) -> int:
    lines = enumerate(SERVED.read_text().splitlines(), 1)
    (number,) = [number for number, line in lines if line.endswith(f"# {mark}")]
    return number


def read(path: Path) -> list[dict[str, Any]]:
    """Return the documents, each of which has all parts."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        head = ["start", "request", "seconds", "overlapped", "counted"]
        assert list(row)[:5] == head
        groups = {"objects", "gc", "memory", "fd", "resources"}
        assert row.keys() - {*head, "unseen"} == groups
        assert row["seconds"] > 0
        assert row["counted"] == "process"
        assert {"utime", "stime", "minor_faults"} < row["resources"].keys()
        assert set(row["gc"]) == {"calls", "time", "collected"}
    return rows


def left(row: dict[str, Any], *marks: str) -> dict[str, int]:
    """Return how many objects of the program's classes these lines have left."""
    found = {(each["line"], each["type"]): each for each in row["objects"]["rows"]}
    kinds = {mark: "Ring" if mark == "garbage" else "Kept" for mark in marks}
    rows = {mark: found.get((line_of(mark), kind)) for mark, kind in kinds.items()}
    return {mark: each["count"] for mark, each in rows.items() if each}


def ended(python: str, way: str, out: Path) -> str:
    words: list[str | Path] = [python, "-W", "error", SERVED, way, out]
    done = run(words, env={"PYTHONPATH": packages()})
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.every(3)
@pytest.mark.parametrize("python", pythons())
def test_wsgi(python: str, tmp_path: Path) -> None:
    said = ended(python, "wsgi", tmp_path / "out").splitlines()
    started = "[('201 Created', [('X-Own', '1')])]"
    assert said == [
        f"/leaks {started} b'' b'hello' True",
        "/fails [] b'' ValueError('mine') False",
        f"/writes {started} b'written' b'hello' True",
        f"/streams {started} b'' b'xxx' False",
        f"/breaks {started} b'' KeyError('late') False",
        f"/garbage {started} b'' b'hello' True",
        f"/calls {started} b'' b'' True",
        f"/forks {started} b'' b'hello' True",
    ]
    rows = read(tmp_path / "out")
    assert [row["request"] for row in rows] == [
        {"method": "GET", "path": "/app/leaks", "status": 201},
        {"method": "GET", "path": "/app/fails", "status": None, "exception": "ValueError"},
        {"method": "GET", "path": "/app/writes", "status": 201},
        {"method": "GET", "path": "/app/streams", "status": 201},
        {"method": "GET", "path": "/app/breaks", "status": 201, "exception": "KeyError"},
        {"method": "GET", "path": "/app/garbage", "status": 201},
        {"method": "GET", "path": "/app/calls", "status": 201},
        # the child has gone the same way
        {"method": "GET", "path": "/app/forks", "status": 201},
    ]
    assert [left(row, "leaked", "streamed", "garbage") for row in rows] == [
        *({"leaked": 100}, {}, {"leaked": 100}, {"streamed": 3}, {"streamed": 1}),
        *({"leaked": 100}, {}, {"leaked": 100}),
    ]
    made = [row["objects"]["types"] for row in rows]
    assert [types.get("Kept", 0) for types in made] == [100, 0, 100, 3, 1, 100, 0, 100]
    assert (made[5]["Ring"], made[6]["bytearray"]) == (50, 7)
    assert rows[5]["gc"]["calls"] == 0  # what is forced comes afterwards
    for row in rows:
        assert row["objects"]["created"] == sum(row["objects"]["types"].values())
        assert row["memory"].keys() <= {"malloc", "calloc", "realloc", "memalign", "free"}
    calls = rows[6]["fd"]
    assert [calls[name]["calls"] for name in ("open", "write", "close")] == [1, 7, 1]
    assert calls["write"]["actual_bytes"] == 21
    assert [row["fd"] for row in rows[:6]] == [{}] * 6
    assert {row["overlapped"] for row in rows} == {0}
    files = {each["file"] for row in rows for each in row["objects"]["rows"]}
    assert not [file for file in files if "soscope_mem" in file]


@pytest.mark.parametrize("python", few_pythons())
def test_asgi(python: str, tmp_path: Path) -> None:
    said = ended(python, "asgi", tmp_path / "out").splitlines()
    assert said == ["None mine", "lifespan websocket", "12"]
    streams, fails, first, second = read(tmp_path / "out")
    assert streams["request"] == {"method": "PUT", "path": "/streams", "status": 204}
    assert fails["request"]["exception"] == "ValueError"
    assert [left(row, "awaited") for row in (streams, fails)] == [{"awaited": 3}, {}]
    assert [row["overlapped"] for row in (streams, fails, first, second)] == [0, 0, 1, 1]
    assert left(second, "awaited") == {"awaited": 6}


def wait_for(path: Path, count: int) -> None:
    """Wait for lines: a client has its answer before the request has ended."""
    until(lambda: path.exists() and path.read_text().count("\n") >= count, f"{count} lines")


@pytest.mark.parametrize("python", few_pythons())
def test_requests_that_overlap(python: str, tmp_path: Path) -> None:
    words = [python, SERVED, "serve", tmp_path / "out"]
    with subprocess.Popen(
        list(map(str, words)),
        env={"PYTHONPATH": packages()},
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            lengths: list[str | None] = []

            def get(path: str) -> None:
                client = http.client.HTTPConnection("127.0.0.1", port, timeout=limit())
                client.request("GET", path)
                answer = client.getresponse()
                lengths.append(answer.getheader("Content-Length"))
                assert answer.read()
                client.close()

            get("/leaks")
            wait_for(tmp_path / "out", 1)
            pair = [threading.Thread(target=get, args=("/both",)) for _ in range(2)]
            for thread in pair:
                thread.start()
            for thread in pair:
                thread.join()
            wait_for(tmp_path / "out", 3)
            rest, errors = process.communicate("\n", timeout=limit())
        finally:
            if process.poll() is None:
                kill(process)
    assert (process.returncode, rest, errors, lengths) == (0, "", "", ["5"] * 3)
    alone, *overlapping = read(tmp_path / "out")
    assert (alone["overlapped"], left(alone, "leaked")) == (0, {"leaked": 100})
    assert [row["overlapped"] for row in overlapping] == [1, 1]
    # each line is of the whole process, meanwhile: of the other request it has a part, or all
    first, last = (row["objects"]["types"] for row in overlapping)
    assert all(100 <= types["Kept"] <= 200 for types in (first, last))
    written = [row["fd"]["write"]["calls"] for row in overlapping]
    assert max(written) >= 6
    seen = [left(row, "leaked")["leaked"] for row in overlapping]
    assert max(seen) == 200  # whoever ends last; the other one may write its line later
    assert min(seen) in (100, 200)


@pytest.mark.parametrize("python", [each for each in pythons() if re.search(r"3\.(1[3-9])", each)])
def test_a_request_passes_where_its_objects_are_not_known(python: str, tmp_path: Path) -> None:
    assert ended(python, "taken", tmp_path / "out") == "201 Created 201 Created\n"
    first, second = read(tmp_path / "out")
    assert first["objects"]["types"]["bytearray"] == 7
    assert "another tool" in second["objects"]["error"]
    assert second["fd"]["write"]["calls"] == 7
