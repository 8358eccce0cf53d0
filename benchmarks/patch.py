# SPDX-License-Identifier: Apache-2.0
"""What a call costs that reaches a function of one's own: by `soscope patch`, by LD_PRELOAD."""

from __future__ import annotations

import shutil
from collections.abc import Callable

from benchmarks.calls import workload
from benchmarks.measure import rounds, run, typical
from benchmarks.rows import Row, Table
from benchmarks.tools import Tools


def measure(tools: Tools, count: int, bursts: int, say: Callable[[str], None]) -> Table:
    """Measure the rows of replaced functions."""
    say("patch")
    table = Table()
    calls = workload(tools, "one", 1, bursts, slow=False)
    library = tools.path("own.so")
    env = shutil.which("env") or "env"

    def timer(*prefix: str) -> Callable[[], float]:
        return lambda: typical(run([*prefix, *calls], timeout=60).output)

    replace = [*tools.soscope, "patch", "-q", "--replace", f"labs={library}:own_labs", "--"]
    timers = {
        "none": timer(),
        "run": timer(*replace),
        "preload": timer(env, f"LD_PRELOAD={library}"),
    }
    figures, failed = rounds(count, timers)
    table.failed(failed)
    base = figures["none"]
    for name, goal, what in (
        ("`patch --replace`, the way to one's own function", 2.0, "run"),
        ("LD_PRELOAD, the same function", None, "preload"),
    ):
        figure = figures[what].minus(base) if what in figures else None
        table.rows.append(Row(name, goal, figure, base=base))
    return table
