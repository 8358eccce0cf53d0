# SPDX-License-Identifier: Apache-2.0
"""Threads, dlopen, fork and signals at once, again and again: no fault, no call lost.

tests/targets/stress.c says what it does. Each run has a seed of its own and is looked at
in another way: what is recorded, whether children are followed, how the program is built,
how much room the ring has.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.processes import tracing
from tests.support.processes.tracing import MODES, Case
from tests.support.targets.matrix import BINDINGS, PLAIN
from tests.support.truth.account import wrong

RUNS = 1000
ROUNDS = "8"
# The least room makes every thread wait for soscope, again and again.
ROOM: tuple[list[str], ...] = ([], ["--buffer", "1m"])


def assert_nothing_is_lost(number: int, folder: Path) -> None:
    rest, mode = divmod(number, len(MODES))
    rest, follow = divmod(rest, 2)
    rest, binding = divmod(rest, len(BINDINGS))
    options = ROOM[rest % 2] if MODES[mode] in {"record", "everything"} else []
    case = Case("stress", (str(number), ROUNDS))
    command = tracing.program(case, PLAIN._replace(binding=list(BINDINGS)[binding]))
    wanted = tracing.plain(command, folder, limit=tracing.timeout(case))
    assert wanted.outcome.status == 0, wanted.outcome
    got = tracing.traced(
        command,
        folder,
        mode=MODES[mode],
        select=",".join(wanted.truth.names),
        follow=bool(follow),
        orphans=True,
        options=options,
        limit=tracing.timeout(case),
    )
    found = tracing.faults(wanted, got, mode=MODES[mode], follow=bool(follow))
    if MODES[mode] == "everything":
        found += wrong(got.counted, got.truth.bounds(followed=bool(follow)))
    if found:
        pytest.fail("\n".join(found), pytrace=False)


@pytest.mark.parametrize("number", range(8))
def test_nothing_is_lost_under_stress(number: int, tmp_path: Path) -> None:
    assert_nothing_is_lost(number, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("number", range(100, 100 + RUNS))
def test_nothing_is_lost_under_stress_a_thousand_times(number: int, tmp_path: Path) -> None:
    assert_nothing_is_lost(number, tmp_path)
