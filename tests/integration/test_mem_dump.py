# SPDX-License-Identifier: Apache-2.0
"""Objects that Python programs write out themselves, beside what gc says of them."""

from __future__ import annotations

import json
import stat
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_mem_inside import packages
from tests.support.machines.pythons import few_pythons, pythons
from tests.support.processes.run import kill, run
from tests.support.targets.survivors import TARGETS, soscope
from tests.support.time.patience import limit, until

DUMPED = TARGETS / "dumped.py"
Objects = dict[str, dict[str, Any]]


def dumped(python: str, way: str, out: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run([python, DUMPED, way, out, *words], env={"PYTHONPATH": packages()})


def read(path: Path) -> Objects:
    """Return the objects of a dump, by address; each is there once."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    by_address = {row["address"]: row for row in rows}
    assert len(by_address) == len(rows)
    return by_address


def line_of(mark: str) -> int:
    lines = enumerate(DUMPED.read_text().splitlines(), 1)
    (number,) = [number for number, line in lines if line.endswith(f"# {mark}")]
    return number


def lines(objects: Objects, kind: str) -> Counter[int]:
    """Return how many objects of a type each line of the program has made."""
    rows = [row for row in objects.values() if row["type"] == kind]
    return Counter(row["line"] for row in rows if row["file"] == str(DUMPED))


@pytest.mark.every(5)
@pytest.mark.parametrize("python", pythons())
def test_the_whole_heap_is_what_gc_reaches(python: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = dumped(python, "everything", out)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    seen = read(out)
    truth: dict[str, tuple[str, list[str]]] = {}
    for line in Path(f"{out}.truth").read_text().splitlines():
        address, kind, referred = json.loads(line)
        truth[address] = kind, referred
    assert seen.keys() == truth.keys()
    assert {at: row["type"] for at, row in seen.items()} == {
        at: pair[0] for at, pair in truth.items()
    }
    # threads are told by the interpreter that they are in a child
    wrong = [
        at for at, (_, referred) in truth.items() if seen[at].get("references", []) != referred
    ]
    assert len(wrong) < 20
    assert not {"Slots", "Own", "Plain", "deque", "Decimal"} & {seen[at]["type"] for at in wrong}
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert not list(tmp_path.glob("*.IN_PROGRESS"))


@pytest.mark.parametrize("python", few_pythons())
def test_what_a_block_leaves(python: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = dumped(python, "block", out)
    assert (done.returncode, done.stderr) == (0, "")
    first, second, third, *printed, last = done.stdout.splitlines()
    assert first == "objects are not counted: call start() first"
    assert second == "'mine' False False"
    assert third == "9"
    assert last == "NotADirectoryError True"
    plain = [row for row in map(json.loads, printed) if row["type"] == "Plain"]
    lines_there = Counter(row["line"] for row in plain)
    assert lines_there == {line_of("before"): 4, line_of("in a block within"): 5}
    objects = read(out)
    assert lines(objects, "Plain") == {line_of("in a block"): 3}
    (text,) = (row for row in objects.values() if row.get("value") == "text" * 50)
    holders = [
        row for row in objects.values() if text["address"] in row.get("attributes", {}).values()
    ]
    assert sorted(list(row["attributes"]) for row in holders if row["type"] == "Plain") == [
        ["held"],
        ["other"],
    ]
    assert (text["class"], text["length"]) == ("builtins.str", 200)
    (own,) = (row for row in objects.values() if row["type"] == "Text")
    assert (own["class"], own["length"], own["value"]) == (
        "__main__.Text",
        150,
        "own" * 50,
    )
    values = {row["type"]: row.get("value") for row in objects.values()}
    assert (values["bytes"], values["int"]) == ("\u00ff" * 50, 10**50)


@pytest.mark.parametrize("python", few_pythons())
def test_garbage_is_left_out_and_not_collected(python: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = dumped(python, "garbage", out)
    assert (done.returncode, done.stdout, done.stderr) == (0, "finalized\n" * 6, "")
    mine, gone = line_of("mine"), line_of("garbage")
    for kind in ("Ring", "bytes"):
        assert lines(read(out), kind) == {mine: 1, gone: 5}
        assert lines(read(Path(f"{out}.reachable")), kind) == {mine: 1}


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("python", "threads"), [(each, "2") for each in few_pythons()] + [(pythons()[0], "100")]
)
def test_a_signal_makes_a_dump(python: str, threads: str, tmp_path: Path) -> None:
    words = [python, DUMPED, "hear", tmp_path / "out", threads]
    env = {"PYTHONPATH": packages()}
    with subprocess.Popen(
        list(map(str, words)),
        env=env,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            assert process.stdout is not None
            said = list(iter(process.stdout.readline, "here\n"))
            wait_for(tmp_path, 2)
            rest, errors = process.communicate("\n", timeout=limit())
        finally:
            if process.poll() is None:
                kill(process)
    assert said == ["no child True\n", "b''\n"]
    assert (rest, errors) == ("finalized\n" * 3 + "at exit\n", "")
    assert (tmp_path / "out").read_text() == "once\n"
    for path in tmp_path.glob(f"memprof-{process.pid}-*.json"):
        assert lines(read(path), "Ring") == {line_of("heard"): 3}
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def wait_for(folder: Path, count: int) -> None:
    """Wait until there are so many dumps."""
    until(lambda: len(list(folder.glob("memprof-*.json"))) >= count, f"{count} dumps")


@pytest.mark.parametrize("python", few_pythons()[:1])
def test_dumps_below_soscope(python: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = (python, DUMPED, "garbage", out)
    done = soscope("mem", "run", "-q", "-o", tmp_path / "rec", "--", *words)
    assert (done.returncode, done.stdout, done.stderr) == (0, "finalized\n" * 6, "")
    assert lines(read(Path(f"{out}.reachable")), "Ring") == {line_of("mine"): 1}


def test_no_warning_of_threads(tmp_path: Path) -> None:
    """Newer versions warn of forks of processes with threads, where that is asked for."""
    newest = pythons()[-1]
    text = f"""\
import threading, soscope_mem
ended = threading.Event()
threading.Thread(target=ended.wait).start()
soscope_mem.dump_all({str(tmp_path / "out")!r})
ended.set()
"""
    done = run([newest, "-W", "error", "-c", text], env={"PYTHONPATH": packages()})
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert len(read(tmp_path / "out")) > 5000


@pytest.mark.parametrize("python", few_pythons())
def test_the_child_never_goes_on_with_the_program(python: str, tmp_path: Path) -> None:
    text = f"""\
import os, sys, soscope_mem
program = os.getpid()
def trace(frame, event, argument):
    if os.getpid() != program:
        raise KeyError("in the child")
    return trace
sys.settrace(trace)
def dump():
    try:
        soscope_mem.dump_all({str(tmp_path / "out")!r})
    except soscope_mem.CountingError as error:
        print(error)
dump()
sys.settrace(None)
print("end", flush=True)
"""
    done = run([python, "-c", text], env={"PYTHONPATH": packages()})
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "the process that writes the objects has come to an early end\nend\n"
