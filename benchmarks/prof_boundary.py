# SPDX-License-Identifier: Apache-2.0
"""What `soscope prof --boundary` costs a call through a slot, beside LD_PROFILE and others."""

from __future__ import annotations

import os
from collections.abc import Callable

from benchmarks.measure import rounds, run, typical
from benchmarks.rows import Row, Table
from benchmarks.tools import Tools

_PEERS = ("LD_PROFILE", "LD_AUDIT, enter and exit", "uftrace record --force", "ltrace -c")


def measure(tools: Tools, program: str, count: int, say: Callable[[str], None]) -> Table:
    """Measure the rows of boundaries: more than the untraced call takes.

    `program` is that of `benchmarks/targets/reported.c` whose library reports nothing: its calls
    go through slots of the program and of the library itself.
    """
    say("prof: boundaries")
    table = Table()

    def timer(tracer: list[str], *, slow: bool = False) -> Callable[[], float]:
        words = ["mid", "1", *(("3", "300") if slow else ("15", "150000"))]
        return lambda: typical(run([*tracer, program, *words], timeout=120).output)

    def boundary(what: str) -> list[str]:
        words = ["prof", "run", "-q", "--boundary", what, "-o", tools.path("boundary.sosr")]
        return [*tools.soscope, *words, "--"]

    counts = tools.path("ldprofile")
    os.makedirs(counts, exist_ok=True)
    library = "libreported0.so"  # its soname
    cases = {
        "base": timer([]),
        "count": timer(boundary("count")),
        "--count-only": timer(tools.summary("--count-only", "--from", "all", "-e", "mid,leaf")),
        "time": timer(boundary("time")),
        "-c": timer(tools.summary("-c", "--from", "all", "-e", "mid,leaf")),
        "LD_PROFILE": timer(["env", f"LD_PROFILE={library}", f"LD_PROFILE_OUTPUT={counts}"]),
    }
    if "audit" in tools.peers:
        cases["LD_AUDIT, enter and exit"] = timer(tools.audit())
    if "uftrace" in tools.peers:
        cases["uftrace record --force"] = timer(tools.uftrace())
    if "ltrace" in tools.peers:
        tracer = ["ltrace", "-c", "-o", tools.path("ltrace.txt"), "-e", "mid+leaf"]
        cases["ltrace -c"] = timer(tracer, slow=True)
    figures, failed = rounds(count, cases)
    table.failed({f"boundary, {name}": why for name, why in failed.items()})
    if "base" not in figures:
        return table
    base = figures["base"]
    for what, goal, own in (("count", 1.0, "--count-only"), ("time", 35.0, "-c")):
        figure = figures[what].minus(base) if what in figures else None
        row = Row(f"boundary, {what}", goal, figure, base=base)
        row.peers = [
            (f"soscope trace {peer}" if peer == own else peer, figures[peer].minus(base))
            for peer in (own, *_PEERS)
            if peer in figures
        ]
        table.rows.append(row)
    return table
