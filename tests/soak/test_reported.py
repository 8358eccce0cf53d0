# SPDX-License-Identifier: Apache-2.0
"""Ten million calls of instrumented code are all counted, and a thousand visits leave no trace."""

from __future__ import annotations

import json
from itertools import product

import pytest

from tests.integration.test_prof_patchable import busy, code_of
from tests.support.processes import reported
from tests.support.time.patience import limit

pytestmark = pytest.mark.soak

HOOKS = ("pg", "fentry", "cyg")
OPTIONS = ("-O0", "-O2", "-Os", "-O2 -flto")
LIBRARY = "libreported.so"
NAMES = ("leaf", "mid", "fib", "even", "odd")
# of three functions a turn
TURNS = 3_400_000
VISITS = 168  # of each kind: a thousand in all


@pytest.mark.parametrize(
    ("compiler", "hooks", "opt", "mode", "threads"),
    list(product(("gcc", "clang"), HOOKS, OPTIONS, ("count", "time"), (2, 4))),
    ids=str,
)
def test_no_call_of_ten_million_is_lost(
    compiler: str, hooks: str, opt: str, mode: str, threads: int
) -> None:
    command = reported.program("reported", hooks, compiler, *opt.split())
    account = reported.observe(
        mode, [*command, str(TURNS // threads), str(threads)], timeout=limit(300)
    )
    rows = [json.loads(line) for line in account.out.splitlines()]
    assert account.status == 3
    assert len(rows) == threads
    for row in rows:
        seen = account.calls(LIBRARY, row["tid"])
        assert {name: seen.get(name, 0) for name in NAMES} == {name: row[name] for name in NAMES}
    assert sum(row[name] for row in rows for name in NAMES) > 10_000_000
    assert sum(thread["dropped"] for thread in account.threads) == 0


@pytest.mark.parametrize("modes", [("time", "count", "sample", "quiet"), ("quiet",)], ids="-".join)
@pytest.mark.parametrize(
    ("hooks", "symbol"),
    [("cyg", "__cyg_profile_func_enter"), ("pg", "mcount"), ("fentry", "__fentry__")],
)
def test_a_thousand_visits_leave_slots_and_code_as_they_were(
    hooks: str, symbol: str, modes: tuple[str, ...]
) -> None:
    with busy("gcc", hooks) as (pid, library):
        slot, code = reported.slot_of(pid, str(library), symbol), code_of(pid, library)
        for visit in range(VISITS):
            reported.looked(pid, modes[visit % len(modes)], cpu=0.01)
            assert reported.slot_of(pid, str(library), symbol) == slot
            assert code_of(pid, library) == code
