# SPDX-License-Identifier: Apache-2.0
"""What requests of Python's web applications cost and leave, a line for each."""

from __future__ import annotations

import http.client
import json
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_mem_inside import packages
from tests.support.pythons import few_pythons, pythons
from tests.support.run import kill, run
from tests.support.survivors import TARGETS

SERVED = TARGETS / "served.py"


def line_of(mark: str) -> int:
    lines = enumerate(SERVED.read_text().splitlines(), 1)
    (number,) = [number for number, line in lines if line.endswith(f"# {mark}")]
    return number


def read(path: Path) -> list[dict[str, Any]]:
    """Return the documents, each of which has all parts."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        assert list(row) == [
            *("start", "request", "seconds", "overlapped", "gc", "resources", "objects")
        ]
        assert row["seconds"] > 0
        assert {"user_seconds", "system_seconds", "minor_faults"} < row["resources"].keys()
        assert set(row["gc"]) == {"collections", "seconds", "collected"}
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
    ]
    rows = read(tmp_path / "out")
    assert [row["request"] for row in rows] == [
        {"method": "GET", "path": "/app/leaks", "status": 201},
        {"method": "GET", "path": "/app/fails", "status": None, "exception": "ValueError"},
        {"method": "GET", "path": "/app/writes", "status": 201},
        {"method": "GET", "path": "/app/streams", "status": 201},
        {"method": "GET", "path": "/app/breaks", "status": 201, "exception": "KeyError"},
        {"method": "GET", "path": "/app/garbage", "status": 201},
    ]
    assert [left(row, "leaked", "streamed", "garbage") for row in rows] == [
        *({"leaked": 100}, {}, {"leaked": 100}, {"streamed": 3}, {"streamed": 1}),
        {"leaked": 100},
    ]
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
    deadline = time.monotonic() + 60
    while not path.exists() or path.read_text().count("\n") < count:
        assert time.monotonic() < deadline
        time.sleep(0.02)


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
                client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
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
            rest, errors = process.communicate("\n", timeout=60)
        finally:
            if process.poll() is None:
                kill(process)
    assert (process.returncode, rest, errors, lengths) == (0, "", "", ["5"] * 3)
    alone, *overlapping = read(tmp_path / "out")
    assert (alone["overlapped"], left(alone, "leaked")) == (0, {"leaked": 100})
    assert [row["overlapped"] for row in overlapping] == [1, 1]
    seen = [left(row, "leaked")["leaked"] for row in overlapping]
    assert max(seen) == 200  # whoever ends last; the other one may write its line later
    assert min(seen) in (100, 200)
