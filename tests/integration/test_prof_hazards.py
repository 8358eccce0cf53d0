# SPDX-License-Identifier: Apache-2.0
"""Instrumented code that uses its frames in unusual ways does what it does untraced."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest

from tests.support.processes import reported
from tests.support.processes.run import run, soscope
from tests.support.time.patience import limit

OPTIONS = ("-O0", "-O2", "-Os", "-O2 -flto")
WAYS = list(product(("gcc", "clang"), ("pg", "fentry", "cyg"), OPTIONS))


def said(out: str) -> tuple[list[str], dict[str, int]]:
    """Return what a program found, and its own counts."""
    rows = [line.split() for line in out.splitlines()]
    counts = {row[1]: int(row[2]) for row in rows if row[0] == "calls"}
    return [" ".join(row) for row in rows if row[0] != "calls"], counts


OF_A_VFORK_CHILD = 9  # calls of fib(4) in borrowed()

# What is counted alone depends on few of them.
CASES = [("time", way) for way in WAYS]
CASES += [(mode, way) for mode in ("count", "log") for way in WAYS if way[2] == "-O2"]


@pytest.mark.every(7)
@pytest.mark.parametrize(("mode", "way"), CASES, ids="".join)
def test_a_program_finds_what_it_finds_and_its_calls_are_counted(
    mode: str, way: tuple[str, str, str]
) -> None:
    compiler, hooks, opt = way
    command = reported.program("hazards", hooks, compiler, *opt.split())
    plain = run(command, timeout=limit())
    account = reported.observe(mode, command)
    assert account.status == plain.returncode == 5
    found, counts = said(account.out)
    assert found == said(plain.stdout)[0]
    seen = account.calls("libhazards.so")
    if mode == "log":
        counts["fib"] -= OF_A_VFORK_CHILD  # which is not followed, and records nothing
    assert {name: seen.get(name, 0) for name in counts} == counts
    assert sum(thread["dropped"] for thread in account.threads) == 0


def test_a_nested_function_keeps_what_lies_around_it() -> None:
    """Its static chain lies above the hook, which this model of code calls by a register."""
    command = reported.program("hazards", "fentry", "gcc", "-O2", "-mcmodel=large")
    plain = run(command, timeout=limit())
    account = reported.observe("time", command)
    assert account.status == plain.returncode == 5
    assert said(account.out)[0] == said(plain.stdout)[0]


@pytest.mark.every(5)
@pytest.mark.parametrize("way", [way for way in WAYS if way[2] == "-O2"], ids="".join)
@pytest.mark.parametrize("mode", ["time", "log"])
def test_exceptions_pass_through(mode: str, way: tuple[str, str, str]) -> None:
    compiler, hooks, opt = way
    command = reported.program("thrown", hooks, compiler, opt)
    account = reported.observe(mode, command)
    plain = run(command, timeout=limit())
    assert (account.out, account.status) == (plain.stdout, plain.returncode)
    found, counts = said(account.out)
    assert found
    seen = account.calls("libthrown.so")
    assert {name: seen.get(name, 0) for name in counts} == counts
    # a call that was left by an exception has nothing inside it that came later
    nodes = [node for thread in account.threads for node in thread["nodes"]]
    callers = {node["parent"] for node in nodes if reported.name_of(*node["function"]) == "catcher"}
    assert callers == {-1}
    assert all(node["timed"] == node["calls"] for node in nodes)


@pytest.mark.covering(1)
@pytest.mark.parametrize("hooks", ["pg", "fentry", "cyg"])
@pytest.mark.parametrize("mode", ["time", "sample=4", "log"])
def test_calls_that_never_return_are_all_told(mode: str, hooks: str, tmp_path: Path) -> None:
    """Their threads have ended, more of them than there are tables; coroutines are suspended."""
    command = [*reported.program("left_open", hooks), "100", "3"]
    record = tmp_path / "run.sosr"
    done = soscope("prof", "run", "-q", "--mode", mode, "-o", record, *command)
    assert (done.returncode, done.stdout) == (0, "left_open 100 3\n")
    said = json.loads(soscope("prof", "report", "--json", record).stdout)
    calls = {row["symbol"]: row["calls"] for row in said["functions"]}
    assert [calls[name] for name in ("ends", "ends_inside", "waits", "waits_inside")] == [
        *(100, 100),
        *(3, 3),
    ]
    told = {
        what: sum(int(note.split()[0]) for note in said["notes"] if what in note)
        for what in ("did not return", "had not returned at the end")
    }
    assert sum(told.values()) == 2 * 103
    assert told["had not returned at the end"] >= 2 * 3
