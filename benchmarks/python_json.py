# SPDX-License-Identifier: Apache-2.0
"""A real program: Python's json module, every image traced."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

from benchmarks.measure import Failed, Figure, rounds, run, typical
from benchmarks.rows import Row, Table
from benchmarks.tools import TARGETS, Tools

PYTHON = "/usr/bin/python3"  # the distribution's: what a user's program runs under
_PARTS, _OPERATIONS = 25, 250
_PEERS = ("uftrace record --force", "LD_AUDIT, enter and exit", "ltrace -c")
_SLOW_PARTS, _SLOW_OPERATIONS = 3, 2


def _workload(*, slow: bool) -> list[str]:
    parts, operations = (_SLOW_PARTS, _SLOW_OPERATIONS) if slow else (_PARTS, _OPERATIONS)
    return [PYTHON, os.path.join(TARGETS, "json_ops.py"), str(parts), str(operations)]


def _timer(tracer: list[str], *, slow: bool = False) -> Callable[[], float]:
    return lambda: typical(run([*tracer, *_workload(slow=slow)], timeout=300).output)


def measure(tools: Tools, count: int, say: Callable[[str], None]) -> Table:
    """Measure the factors by which the workload gets slower."""
    table = Table()
    if not os.path.exists(PYTHON):
        table.remarks.append(f"Python json: no {PYTHON}")
        return table
    say("Python json")
    everything = ["--from", "all"]
    cases = {
        "base": _timer([]),
        "count": _timer(tools.summary("--count-only", *everything)),
        "summary": _timer(tools.summary("-c", *everything)),
        "entry": _timer(tools.record("--entry-only", *everything)),
        "full": _timer(tools.record(*everything)),
    }
    if "uftrace" in tools.peers:
        cases["uftrace record --force"] = _timer(tools.uftrace())
    if "audit" in tools.peers:
        cases["LD_AUDIT, enter and exit"] = _timer(tools.audit())
    if "ltrace" in tools.peers:
        cases["ltrace -c"] = _timer(["ltrace", "-c", "-o", tools.path("ltrace.txt")], slow=True)
    figures, failed = rounds(count, cases)
    table.failed({f"Python json, {name}": why for name, why in failed.items()})
    base = figures["base"]
    peers: list[tuple[str, Figure]] = [
        (name, figures[name].over(base)) for name in _PEERS if name in figures
    ]
    for name, goal, what in (
        ("`--count-only`", 1.4, "count"),
        ("`-c`", 2.2, "summary"),
        ("entries recorded to a file", None, "entry"),
        ("everything recorded to a file, `block`", 4.0, "full"),
    ):
        figure = figures[what].over(base) if what in figures else None
        row = Row(f"Python json, every image: {name}", goal, figure, unit="x", base=base)
        row.peers = peers if what != "entry" else []
        table.rows.append(row)
    _calls_of_an_operation(tools, table, base)
    return table


def _calls_of_an_operation(tools: Tools, table: Table, base: Figure) -> None:
    """Say how many calls an operation makes: two runs, the longer less the shorter."""
    totals = []
    try:
        for operations in (100, 1100):
            out = tools.path("count.json")
            command = [PYTHON, os.path.join(TARGETS, "json_ops.py"), "1", str(operations)]
            options = ["--count-only", "--json", "-o", out, "--from", "all", "--", *command]
            run([*tools.soscope, "trace", "-q", *options])
            with open(out, encoding="utf-8") as file:
                totals.append(json.load(file)["totals"]["calls"])
    except (Failed, OSError, ValueError, KeyError) as error:
        table.remarks.append(f"calls of a json operation: {error}")
        return
    calls = (totals[1] - totals[0]) / 2000  # two parts each: one warms up
    table.remarks.append(
        f"A json operation of {PYTHON} takes {base.median / 1000:.1f} µs untraced and makes "
        f"{calls:.0f} calls through slots: {base.median / calls:.1f} ns between two of them."
    )
