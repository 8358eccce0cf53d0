# SPDX-License-Identifier: Apache-2.0
"""What a sweep takes, beside as many runs of `soscope inject` that inject nothing."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable

from benchmarks.measure import rounds, run, timed
from benchmarks.rows import Row, Table
from benchmarks.tools import Tools

_SET = "malloc,calloc,realloc"
_NEVER = f"fault={_SET}:when=999999999999"


def measure(tools: Tools, count: int, say: Callable[[str], None]) -> Table:
    """Measure the row of the sweep."""
    table = Table()
    say("sweep")
    if shutil.which("git") is None:
        table.remarks.append("sweep: git is not there")
        return table
    folder = tools.fresh("repository")
    run(["git", "init", "-q", folder])
    command = ["git", "-C", folder, "status"]
    words = [*tools.soscope, "inject", "--sweep", _SET, "--", *command]
    found = json.loads(run([*words[: -len(command) - 1], "--json", "--", *command]).output)
    once = [*tools.soscope, "inject", "-q", "-o", os.devnull, "-e", _NEVER, "--", *command]
    figures, failed = rounds(
        count, {"sweep": lambda: timed(words).seconds, "once": lambda: timed(once).seconds}
    )
    table.failed({f"sweep, {name}": why for name, why in failed.items()})
    sites, cores = found["totals"]["sites"], len(os.sched_getaffinity(0))
    what = f"`inject --sweep` of `git status`, in runs of {sites} sites on {cores} cores"
    row = Row(what, 2.0, None, unit="times")
    if not failed:
        ratio = figures["sweep"].over(figures["once"])
        row.figure = type(ratio)([value * cores / sites for value in ratio.values])
    table.rows.append(row)
    return table
