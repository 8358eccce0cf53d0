# SPDX-License-Identifier: Apache-2.0
"""Children of a program that a stub holds, followed: each call is its own process's.

The programs count their own calls, process by process, and check how their children end.
"""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.integration.test_native_follow import WAYS, called, counted, events
from tests.support import build
from tests.support.run import soscope
from tests.support.waiting import Waiting, gdbserver

ENGINES = ("poison", "sites")


def _trace(stub: Waiting, *words: str | Path) -> tuple[subprocess.CompletedProcess[str], str]:
    """Trace a stub's program with its children; return that, and what the program has written."""
    done = soscope("trace", "-f", *words, "--remote", stub.address)
    out, _ = stub.process.communicate(timeout=30)
    return done, out


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("ways", "processes", "executed"), WAYS)
def test_each_call_is_its_own_process_s(
    ways: list[str], processes: int, executed: int, engine: str, tmp_path: Path
) -> None:
    path = tmp_path / "calls.json"
    words = ("--engine", engine, "--json", "-o", path, "-e", "labs", "-x", "unit")
    with gdbserver(build.program("lineage"), *ways, stdout=subprocess.PIPE) as stub:
        done, out = _trace(stub, *words)
    assert done.returncode == 7, done.stderr
    said, trace = counted(out), events(path)
    assert called(trace, "labs") == said
    assert called(trace, "unit") == said
    assert "; complete" in done.stderr
    kinds = Counter(each["event"] for each in trace if each["type"] == "process")
    forks = [each for each in trace if each["type"] == "process" and each["event"] == "fork"]
    assert kinds["start"] == 1
    assert kinds["exec"] == executed
    assert len(forks) + 1 == processes
    assert len({each["pid"] for each in forks}) == len(forks)
    known = {each["pid"] for each in trace if each["type"] == "process"}
    assert {each["parent"] for each in forks} <= known
    assert set(said) <= known
    ends = [each["pid"] for each in trace if each["type"] == "exit"]
    assert Counter(ends) == Counter(known)
    firsts: dict[int, str] = {}
    for each in trace:
        firsts.setdefault(each["pid"], each["type"])
    assert set(firsts.values()) == {"process"}
    assert {each["engine"] for each in trace if each["type"] == "process"} == {engine}


def test_how_children_end(tmp_path: Path) -> None:
    path = tmp_path / "calls.json"
    with gdbserver(build.program("lineage"), "dying", "nested", stdout=subprocess.PIPE) as stub:
        done, out = _trace(stub, "--json", "-o", path, "-e", "labs")
    assert done.returncode == 7, done.stderr
    said, trace = counted(out), events(path)
    ends = {
        each["pid"]: (each["status"], each["signal"]) for each in trace if each["type"] == "exit"
    }
    by_signal = {said[pid]: how[1] for pid, how in ends.items() if how[1]}
    assert by_signal == {5: "SIGTERM", 1: "SIGKILL"}
    assert sorted(how[0] for how in ends.values() if how[0] is not None) == [1, 2, 3, 3, 4, 5, 7]
    told = {each["signal"] for each in trace if each["type"] == "signal"}
    assert {"SIGTERM", "SIGCHLD"} <= told


def test_an_agent_sees_the_same(tmp_path: Path) -> None:
    """What agents count in all programs of a pipeline, a stub's breakpoints count, too."""
    table, script = tmp_path / "table.json", "ls / | sort | wc -l"
    names = "setlocale,textdomain,qsort,fork,execve,opendir"
    words = ("-c", "--json", "-o", table, "-e", names)
    tables = []
    done = soscope("trace", "-f", *words, "--", "sh", "-c", script)
    for engine in ("", *ENGINES):
        if engine:
            with gdbserver("/bin/sh", "-c", script, stdout=subprocess.PIPE) as stub:
                done, _ = _trace(stub, "--engine", engine, *words)
        assert done.returncode == 0, done.stderr
        tables.append(
            {
                (row["caller"], row["symbol"]): row["calls"]
                for row in json.loads(table.read_text())["rows"]
            }
        )
    assert tables[0] == tables[1] == tables[2]
    assert {caller for caller, _ in tables[0]} >= {"ls", "sort", "wc"}
