# SPDX-License-Identifier: Apache-2.0
"""Ten million calls of instrumented code are all counted, and a thousand visits leave no trace."""

from __future__ import annotations

import json
import subprocess
from itertools import product
from pathlib import Path

import pytest

from tests.support import reported

pytestmark = pytest.mark.soak

HOOKS = ("pg", "fentry", "cyg")
OPTIONS = ("-O0", "-O2", "-Os", "-O2 -flto")
LIBRARY = "libreported.so"
NAMES = ("leaf", "mid", "fib", "even", "odd")
# of three functions a turn
TURNS = 3_400_000
VISITS = 1000


@pytest.mark.parametrize(
    ("compiler", "hooks", "opt", "mode", "threads"),
    list(product(("gcc", "clang"), HOOKS, OPTIONS, ("count", "time"), (2, 4))),
    ids=str,
)
def test_no_call_of_ten_million_is_lost(
    compiler: str, hooks: str, opt: str, mode: str, threads: int
) -> None:
    command = reported.program("reported", hooks, compiler, *opt.split())
    account = reported.observe(mode, [*command, str(TURNS // threads), str(threads)], timeout=300)
    rows = [json.loads(line) for line in account.out.splitlines()]
    assert account.status == 3
    assert len(rows) == threads
    for row in rows:
        seen = account.calls(LIBRARY, row["tid"])
        assert {name: seen.get(name, 0) for name in NAMES} == {name: row[name] for name in NAMES}
    assert sum(row[name] for row in rows for name in NAMES) > 10_000_000
    assert sum(thread["dropped"] for thread in account.threads) == 0


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("hooks", "symbol"), [("cyg", "__cyg_profile_func_enter"), ("pg", "mcount")]
)
def test_a_thousand_visits_leave_the_slots_as_they_were(hooks: str, symbol: str) -> None:
    command = reported.program("reported", hooks, "gcc", "-O2")
    library = str(Path(command[0]).with_name(LIBRARY))
    with subprocess.Popen([*command, "0", "2"], stdin=subprocess.PIPE) as program:
        before = None
        for visit in range(VISITS):
            mode = ("time", "count", "sample", "quiet")[visit % 4]
            reported.looked(program.pid, mode, 5_000_000)
            after = reported.slot_of(program.pid, library, symbol)
            assert before in (None, after)
            before = after
        program.communicate(b"\n", timeout=30)
    # 4: some result was wrong
    assert program.returncode == 3
