# SPDX-License-Identifier: Apache-2.0
"""What a call costs that `soscope.hook` leads to a C function, or to a Python callable."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from benchmarks.measure import rounds, run, typical
from benchmarks.rows import Row, Table
from benchmarks.tools import TARGETS, Tools

_ROWS = (
    ("`soscope.hook`, a C function", 2.0, "pointer"),
    ("`soscope.hook`, a Python callable", None, "callable"),
    ("`soscope.hook`, a Python callable that calls the original", None, "original"),
)


def measure(tools: Tools, count: int, parts: int, say: Callable[[str], None]) -> Table:
    """Measure the rows of hooks; each is the median of so many parts."""
    say("hook")
    table = Table()
    words = [sys.executable, os.path.join(TARGETS, "hook_ops.py")]
    files = [tools.path("many.so"), tools.path("own.so")]

    def timer(what: str) -> Callable[[], float]:
        return lambda: typical(run([*words, what, *files, str(parts)], timeout=60).output)

    names = ("none", *(what for _, _, what in _ROWS))
    figures, failed = rounds(count, {name: timer(name) for name in names})
    table.failed(failed)
    base = figures["none"]
    for name, goal, what in _ROWS:
        figure = figures[what].minus(base) if what in figures else None
        table.rows.append(Row(name, goal, figure, base=base))
    return table
