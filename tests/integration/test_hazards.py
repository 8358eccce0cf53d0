# SPDX-License-Identifier: Apache-2.0
"""Every target, alone and under soscope: same output, same end, and the right counts."""

from __future__ import annotations

import ctypes.util
from pathlib import Path

import pytest

from tests.support.machines.tools import not_here
from tests.support.processes import tracing
from tests.support.processes.tracing import Case
from tests.support.targets.matrix import PLAIN

# These need a hand from outside, and have tests of their own.
NOT_ALONE = {
    "attached",
    "attached_cleanup",
    "attached_mixed",
    "attached_waits",
    "attached_walks",
    "behind",
    "clocks",
    "disturbed",
    "executes",
    "flown",
    "fork_long",
    "fork_steps",
    "forking",
    "guest",
    "handed",
    "hazards",
    "hot_sites",
    "inside",
    "interrupted",
    "left_open",
    "kept_contexts",
    "kept_pointer",
    "lineage",
    "looping",
    "on_demand",
    "parked",
    "patched",
    "reported",
    "returns",
    "rseq",
    "scanned",
    "selves",
    "shares",
    "stopping",
    "switched",
    "thread_exec",
    "thrown",
    "told",
    "trapped",
    "unread",
    "waiting_child",
    "waits",
}
TARGETS = [name for name in tracing.all_targets() if name not in NOT_ALONE]
CASES = [case for name in TARGETS for case in tracing.cases(name)]
LONG = [case for name in TARGETS for case in tracing.cases(name, "soak") if case.arguments]
# Most modes look at the same build; one at what most distributions ship.
CELLS = {"summary": PLAIN._replace(binding="now"), "everything": PLAIN._replace(binding="ibt")}


def check(
    case: Case, mode: str, folder: Path, *, follow: bool, options: tuple[str, ...] = ()
) -> None:
    for library in case.wish.get("needs", "").split():
        if ctypes.util.find_library(library.removeprefix("lib").partition(".")[0]) is None:
            not_here(f"{library} is not installed")
    command = tracing.program(case, CELLS.get(mode, PLAIN))
    limit = tracing.timeout(case)
    wanted = tracing.plain(command, folder, limit=limit)
    assert wanted.outcome.status == case.status, wanted.outcome
    select = tracing.selection(case, wanted.truth)
    got = tracing.traced(
        command,
        folder,
        mode=mode,
        select=select,
        follow=follow,
        orphans=case.wish.get("orphans") == "yes",
        untimed=case.wish.get("untimed") == "yes",
        options=options,
        limit=limit,
    )
    if found := tracing.faults(wanted, got, mode=mode, follow=follow):
        pytest.fail("\n".join(found), pytrace=False)


@pytest.mark.covering(1)
@pytest.mark.parametrize("mode", tracing.MODES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_target_does_the_same_and_is_counted_right(case: Case, mode: str, tmp_path: Path) -> None:
    check(case, mode, tmp_path, follow=case.wish.get("follow") == "yes")


UNWOUND = ("cxx_async", "cxx_throw", "backtrace", "unwind", "longjmp")


@pytest.mark.every(3)
@pytest.mark.parametrize("mode", ["record", "everything"])
@pytest.mark.parametrize("target", UNWOUND)
def test_a_target_does_the_same_where_entries_alone_are_recorded(
    target: str, mode: str, tmp_path: Path
) -> None:
    for case in tracing.cases(target):
        check(case, mode, tmp_path, follow=False, options=("--entry-only",))


FOLLOWED = [case for case in CASES if case.wish.get("follow") == "yes"]


@pytest.mark.every(7)
@pytest.mark.parametrize("mode", ["count", "record"])
@pytest.mark.parametrize("case", FOLLOWED, ids=lambda case: case.id)
def test_children_go_quiet_when_nobody_follows_them(case: Case, mode: str, tmp_path: Path) -> None:
    check(case, mode, tmp_path, follow=False)


@pytest.mark.soak
@pytest.mark.parametrize("mode", tracing.MODES)
@pytest.mark.parametrize("case", LONG, ids=lambda case: case.id)
def test_a_target_does_the_same_in_large_numbers(case: Case, mode: str, tmp_path: Path) -> None:
    check(case, mode, tmp_path, follow=case.wish.get("follow") == "yes")
