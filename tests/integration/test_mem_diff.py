# SPDX-License-Identifier: Apache-2.0
"""Two recordings or snapshots, compared: the line that leaks comes first."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.machines.pythons import few_pythons
from tests.support.processes.run import besides_cost, kill
from tests.support.targets.accounts import built
from tests.support.targets.survivors import TARGETS, soscope
from tests.support.time.patience import limit

SERVICE = TARGETS / "service.py"
_LEAK = next(
    number
    for number, line in enumerate(SERVICE.read_text().splitlines(), 1)
    if line.endswith("# leaks")
)


@contextlib.contextmanager
def service(python: str) -> Iterator[tuple[int, int]]:
    """Run the web service; give its process and its port."""
    words = [python, "-u", str(SERVICE)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.pid, int(process.stdout.readline())
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            out, err = process.communicate(timeout=limit())
        finally:
            kill(process)
    assert (process.returncode, err) == (0, "")
    assert out.startswith("sessions ")


def ask(port: int, count: int) -> int:
    """Send requests from four clients at once; return how many sessions there are at last."""

    def client(_: int) -> int:
        sessions = 0
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=limit())
        for number in range(count // 4):
            connection.request("GET", f"/{number}")
            sessions = json.loads(connection.getresponse().read())["sessions"]
        connection.close()
        return sessions

    with ThreadPoolExecutor(4) as pool:
        return max(pool.map(client, range(4)))


def diff(*words: str | Path) -> dict[str, Any]:
    done = soscope("mem", "diff", "--json", *words)
    assert (done.returncode, besides_cost(done.stderr)) == (0, "")
    document: dict[str, Any] = json.loads(done.stdout)
    assert list(document) == ["schema", "rows"]
    assert document["schema"] == "soscope/mem-diff/1"
    return document


def record(file: Path, *command: str | Path) -> None:
    assert soscope("mem", "run", "-o", file, "--", *command).returncode == 0


@pytest.mark.every(3)
@pytest.mark.parametrize("python", few_pythons())
def test_the_line_of_a_web_service_that_leaks_comes_first(python: str, tmp_path: Path) -> None:
    files = [tmp_path / "before", tmp_path / "after"]
    asked = []
    with service(python) as (pid, port):
        ask(port, 40)
        assert soscope("mem", "attach", "-q", "-p", str(pid)).returncode == 0
        for file in files:
            asked.append(ask(port, 200))
            done = soscope("mem", "snapshot", "-p", str(pid), "--gc", "--json")
            assert (done.returncode, done.stderr) == (0, "")
            file.write_text(done.stdout)
    assert asked == [240, 440]
    first = diff(*files)["rows"][0]
    assert (first["file"], first["line"], first["type"]) == (str(SERVICE), _LEAK, "list")
    assert (first["count_a"], first["count_b"]) == (600, 1200)
    shown = soscope("mem", "diff", *files).stdout.splitlines()
    assert shown[3].split()[0] == "growth"
    assert shown[4].split()[0] == "+600"
    assert shown[4].endswith(f"{SERVICE}:{_LEAK}:list")


OBJECTS = """
import sys
class Kept: pass
class Let: pass
count = int(sys.argv[1])
kept = [Kept() for _ in range(count)]
let = [Let() for _ in range(1000 - count)]
"""


def test_recordings_and_documents_compare_alike(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(OBJECTS)
    files = []
    for count in (100, 700):
        file = tmp_path / f"{count}.sosr"
        record(file, few_pythons()[0], program, str(count))
        written = file.with_suffix(".json")
        written.write_text(soscope("mem", "report", "--json", file).stdout)
        files.append((file, written))
    (a, written_a), (b, written_b) = files
    rows = diff(a, b)["rows"]
    for pair in ((written_a, b), (a, written_b), (written_a, written_b)):
        assert diff(*pair)["rows"] == rows
    by_type = {row["type"]: row for row in rows if row["file"] == str(program)}
    assert (by_type["Kept"]["count_a"], by_type["Kept"]["count_b"]) == (100, 700)
    assert (by_type["Let"]["count_a"], by_type["Let"]["count_b"]) == (900, 300)
    assert rows[0] == by_type["Kept"]
    assert rows[-1] == by_type["Let"]
    assert any(row["count_a"] == row["count_b"] for row in rows)
    shown = soscope("mem", "diff", "--limit", "1", a, b).stdout
    assert ":Kept\n" in shown
    assert ":Let\n" not in shown
    for row in diff(b, a, "--limit", "1")["rows"]:
        assert row["type"] == "Let"


BLOCKS = """
static void *volatile kept[1000];
int main(int argc, char **argv)
{
    int count = atoi(argv[1]);
    for (int i = 0; i < count; i++)
        kept[i] = malloc(100);
    kept[999] = calloc(1, 1000 - count);
    return 0;
}"""


def test_blocks_compare_by_line_and_function(tmp_path: Path) -> None:
    program = built("grows.c", BLOCKS)
    files = []
    for count in (10, 500):
        file = tmp_path / f"{count}.sosr"
        record(file, program, str(count))
        files.append(file)
    rows = [row for row in diff(*files)["rows"] if str(row["file"]).endswith("/grows.c")]
    first, second = ((row["type"], row["count_a"], row["count_b"]) for row in rows)
    assert (first, second) == (("malloc", 10, 500), ("calloc", 1, 1))
    assert [(row["bytes_a"], row["bytes_b"]) for row in rows] == [(1000, 50000), (990, 500)]
    assert diff("--blocks", *files)["rows"][0] == rows[0]


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    trace, blocks, objects = (tmp_path / f"{name}.sosr" for name in ("trace", "blocks", "objects"))
    assert soscope("trace", "--record", trace, "--", "true").returncode == 0
    record(blocks, "true")
    record(objects, few_pythons()[0], "-c", "1")
    for wrong in (trace, tmp_path / "missing", tmp_path, Path("/dev/zero"), blocks):
        for pair in ((wrong, objects), (objects, wrong)):
            done = soscope("mem", "diff", *pair)
            assert (done.returncode, done.stdout) == (1, "")
            assert re.fullmatch(r"soscope: error: .*\n(  hint: .*\n)?", done.stderr)
    for count in (0, 1, 3):
        done = soscope("mem", "diff", *[objects] * count)
        assert (done.returncode, done.stdout) == (2, "")


def test_a_recording_that_was_cut_is_compared_and_that_is_said(tmp_path: Path) -> None:
    file = tmp_path / "run.sosr"
    record(file, built("grows.c", BLOCKS), "10")
    cut = tmp_path / "cut.sosr"
    cut.write_bytes(file.read_bytes()[: file.stat().st_size * 9 // 10])
    done = soscope("mem", "diff", "--json", file, cut)
    assert done.returncode == 1
    assert json.loads(done.stdout)["rows"]
    assert f"'{cut}' is not complete: cut" in done.stderr
