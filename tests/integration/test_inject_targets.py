# SPDX-License-Identifier: Apache-2.0
"""Rules that choose nothing, and calls that are let through: a program is none the wiser.

What the rules say that they have counted is the program's own account of its calls.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.support.processes import tracing
from tests.support.targets.matrix import PLAIN, REPOSITORY, Cell
from tests.support.truth.account import Truth, wrong

TARGETS = [
    *("abi_values", "backtrace", "canonical", "churn", "clone_stack", "contexts", "coroutines"),
    *("cxx_throw", "cxx_tail", "dlopen", "errno", "exec", "fork", "fork_handler"),
    *("ifunc", "longjmp", "nested", "pointers", "prefork", "registers"),
    *("setjmp", "signals", "threads", "unwind", "vfork", "walks", "weak"),
]
CASES = [case for name in TARGETS for case in tracing.cases(name)]
# each seventh of 200,000 calls would be shown, and is in `make soak`
LONG = ("threads-2-100000", "threads-8-25000")
SHOWN = [pytest.param(case, marks=[pytest.mark.soak] if case.id in LONG else []) for case in CASES]
NEVER = "retval=0:when=999999999999"
CELLS = [
    PLAIN._replace(pie="nopie"),
    PLAIN._replace(binding="now"),
    PLAIN._replace(binding="no-plt"),
]


def check(case: tracing.Case, cell: Cell, rule: str, folder: Path, *, are_shown: bool) -> None:
    """Run a target with a rule for each function of its account."""
    command = tracing.program(case, cell)
    limit = tracing.timeout(case)
    wanted = tracing.plain(command, folder, limit=limit)
    follow = case.wish.get("follow") == "yes"
    names = sorted(wanted.truth.bounds(followed=follow))
    output = folder / "output"
    words = [sys.executable, "-m", "soscope", "inject", "-q", "--json", "-o", str(output)]
    words += [word for name in names for word in ("-e", f"inject={name}:{rule}")]
    words += ["-f"] if follow else []
    env = {"PYTHONPATH": str(REPOSITORY)}
    got = tracing.plain([*words, "--", *command], folder, env=env, limit=limit)
    assert got.outcome == wanted.outcome
    *lines, last = map(json.loads, output.read_text().splitlines())
    assert last["type"] == "inject"
    counted = {row["rule"].split(":")[0].partition("=")[2]: row["calls"] for row in last["rules"]}
    assert wrong(counted, got.truth.bounds(followed=follow)) == []
    shown = [line for line in lines if line["type"] == "call"]
    injected = sum(row["injected"] for row in last["rules"])
    assert abs(len(shown) - injected) <= cut_short(case, got.truth)
    assert bool(shown) == are_shown


def cut_short(case: tracing.Case, truth: Truth) -> int:
    """Return how many calls signal handlers may have left at most, by a jump or in a child."""
    if case.target == "signals":
        return sum(most - least for least, most in truth.bounds(followed=False).values())
    if case.target == "fork_handler":
        return len({fact.pid for fact in truth.facts if fact.role == "vfork"})
    return 0


@pytest.mark.every(2)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_calls_that_are_not_chosen_are_counted(case: tracing.Case, tmp_path: Path) -> None:
    check(case, PLAIN, NEVER, tmp_path, are_shown=False)


@pytest.mark.every(6, always=["threads-1000-50"])
@pytest.mark.parametrize("case", SHOWN, ids=lambda case: case.id)
def test_calls_that_wait_are_made(case: tracing.Case, tmp_path: Path) -> None:
    check(case, PLAIN, "delay_enter=1ns:delay_exit=1ns:when=1+7", tmp_path, are_shown=True)


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_however_a_program_was_built(cell: Cell, tmp_path: Path) -> None:
    case, *_ = tracing.cases("threads")
    check(case, cell, NEVER, tmp_path, are_shown=False)
