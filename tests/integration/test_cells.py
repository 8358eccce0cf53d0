# SPDX-License-Identifier: Apache-2.0
"""Counts are right however a program was compiled and linked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.processes import tracing
from tests.support.processes.tracing import Case
from tests.support.targets import build
from tests.support.targets.matrix import Cell, existing

# What looks different in another build; MANY are for `make soak` alone.
FEW = ["calls", "weak", "identity", "cxx_throw"]
_FROM_SLOTS = ("calls", "weak", "cxx_throw")  # no compiler keeps what these call in a register
MANY = [
    *("abi_values", "canonical", "contexts", "dlopen", "errno", "fork", "ifunc", "lazy_race"),
    *("longjmp", "next", "pointers", "qsort", "recursion", "registers", "setjmp", "signals"),
    *("tail", "thread_ends", "threads", "versions", "vfork", "cxx_cancel", "cxx_virtual"),
]


def check(target: str, cell: Cell, mode: str, folder: Path) -> None:
    case = Case(target, tracing.cases(target)[0].arguments)
    if not build.can(target, cell):
        cell = case.cell(cell)
    command = [str(build.program(target, cell)), *case.arguments]
    wanted = tracing.plain(command, folder)
    assert wanted.outcome.status == 0, wanted.outcome
    follow = case.wish.get("follow") == "yes"
    select = tracing.selection(case, wanted.truth)
    orphans = case.wish.get("orphans") == "yes"
    untimed = case.wish.get("untimed") == "yes"
    # Without stubs, a compiler may keep a function's address in a register: such calls are
    # nobody's, and soscope says that it sees fewer.
    at_most = cell.binding == "no-plt" and target not in _FROM_SLOTS
    got = tracing.traced(
        command,
        folder,
        mode=mode,
        select=select,
        follow=follow,
        orphans=orphans,
        untimed=untimed,
        at_most=at_most,
    )
    if found := tracing.faults(wanted, got, mode=mode, follow=follow, at_most=at_most):
        pytest.fail("\n".join(found), pytrace=False)


@pytest.mark.covering(2, triples=("binding", "pie", "mode"))
@pytest.mark.parametrize("mode", tracing.MODES)
@pytest.mark.parametrize("target", FEW)
@pytest.mark.parametrize("cell", existing(), ids=lambda cell: cell.name)
def test_a_few_targets_in_every_build(cell: Cell, target: str, mode: str, tmp_path: Path) -> None:
    check(target, cell, mode, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("mode", tracing.MODES)
@pytest.mark.parametrize("target", MANY)
@pytest.mark.parametrize("cell", existing(), ids=lambda cell: cell.name)
def test_many_targets_in_every_build(cell: Cell, target: str, mode: str, tmp_path: Path) -> None:
    check(target, cell, mode, tmp_path)
