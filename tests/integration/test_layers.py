# SPDX-License-Identifier: Apache-2.0
"""Two instruments on the same slots: a call goes through both, and each counts it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.support.processes import tracing
from tests.support.targets.matrix import PLAIN, REPOSITORY
from tests.support.truth.account import wrong

# One for each way in which a call may come back, or not.
TARGETS = [
    *("abi_values", "backtrace", "canonical", "churn", "clone_stack", "contexts", "coroutines"),
    *("cxx_throw", "cxx_tail", "cxx_threads", "dlopen", "errno", "exec", "fork", "fork_handler"),
    *("ifunc", "lazy_race", "longjmp", "nested", "pointers", "prefork", "registers"),
    *("walks", "walks_cxx", "walks_dlopen", "walks_fork"),
    *("seccomp_filter", "setjmp", "signals", "stackcopy", "threads", "unwind", "vfork", "weak"),
]
CASES = [case for name in TARGETS for case in tracing.cases(name)]


@pytest.mark.every(5)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_both_see_every_call_of_a_target(case: tracing.Case, tmp_path: Path) -> None:
    command = tracing.program(case, PLAIN)
    limit = tracing.timeout(case)
    wanted = tracing.plain(command, tmp_path, limit=limit)
    follow = case.wish.get("follow") == "yes"
    account = tmp_path / "account"
    words = [str(account), tracing.selection(case, wanted.truth), "yes" if follow else "no"]
    observer = [sys.executable, "-m", "tests.support.processes.layered", *words, *command]
    env = {"PYTHONPATH": str(REPOSITORY)}
    got = tracing.plain(observer, tmp_path, env=env, limit=limit)
    assert got.outcome == wanted.outcome
    facts = json.loads(account.read_text())
    if "yes" not in (case.wish.get("orphans"), case.wish.get("untimed")):
        assert facts["shortfalls"] == []
    bounds = got.truth.bounds(followed=follow)
    assert wrong(facts["recorded"], bounds) == []
    assert wrong(facts["timed"], bounds) == []
