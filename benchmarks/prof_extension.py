# SPDX-License-Identifier: Apache-2.0
"""What `soscope prof` costs a Python extension that was built with -pg: ujson, from its sdist."""

from __future__ import annotations

import os
from collections.abc import Callable

from benchmarks.measure import Failed, rounds, run, typical
from benchmarks.rows import Row, Table
from benchmarks.tools import TARGETS, Tools

PYTHON = "/usr/bin/python3"  # the distribution's: what a user's program runs under
_NAME = "a Python extension with -pg (ujson)"
_PEERS = ("as loaded", "uftrace record")


def _build(tools: Tools, name: str, flags: str) -> str:
    folder = tools.path(f"ujson-{name}")
    words = ["install", "-q", "--no-deps", "--no-binary", "ujson", "--no-cache-dir"]
    run(
        [PYTHON, "-m", "pip", *words, "--target", folder, "ujson"],
        timeout=600,
        env={"CFLAGS": flags},
    )
    return folder


def measure(
    tools: Tools, start: Callable[[str], list[str]], count: int, say: Callable[[str], None]
) -> Table:
    """Measure the factors by which it gets slower; `start(mode)` are words before a command."""
    say("prof: ujson")
    table = Table()
    try:
        plain, reporting = _build(tools, "plain", ""), _build(tools, "pg", "-pg")
    except (Failed, OSError) as error:
        table.remarks.append(f"{_NAME}: it cannot be had or built here: {error}")
        return table

    def timer(tracer: list[str], folder: str) -> Callable[[], float]:
        words = [PYTHON, os.path.join(TARGETS, "ujson_ops.py"), folder, "15", "4000"]
        return lambda: typical(run([*tracer, *words], timeout=120).output)

    cases = {"plain": timer([], plain), "as loaded": timer([], reporting)}
    for mode in ("quiet", "count", "time"):
        cases[mode] = timer(start(mode), reporting)
    if "uftrace" in tools.peers:
        tracer = tools.uftrace("--no-libcall", "--no-event")
        cases["uftrace record"] = timer(tracer, reporting)
    figures, failed = rounds(count, cases)
    table.failed({f"{_NAME}, {name}": why for name, why in failed.items()})
    if "plain" not in figures:
        return table
    base = figures["plain"]
    for mode, goal in (("quiet", 1.15), ("count", 1.6), ("time", 6.0)):
        figure = figures[mode].over(base) if mode in figures else None
        row = Row(f"{_NAME}, {mode}", goal, figure, unit="x", base=base)
        row.peers = [(peer, figures[peer].over(base)) for peer in _PEERS if peer in figures]
        table.rows.append(row)
    return table
