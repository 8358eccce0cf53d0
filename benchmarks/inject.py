# SPDX-License-Identifier: Apache-2.0
"""What a call costs that goes through a rule of `soscope inject`, and is not chosen."""

from __future__ import annotations

import sys
from collections.abc import Callable

from benchmarks.calls import workload
from benchmarks.measure import rounds, run, typical
from benchmarks.rows import Row, Table
from benchmarks.tools import Tools

_NEVER = "inject=labs:retval=0:when=999999999999"
_MALLOC = "inject=malloc:retval=0:when=999999999999"
_LIBFIU = "enable_random name=libc/mm/malloc,probability=0"
_SECOND = "inject=labs:retval=1:when=999999999999"


def measure(tools: Tools, count: int, bursts: int, say: Callable[[str], None]) -> Table:
    """Measure the rows of inject."""
    say("inject")
    table = Table()
    calls = workload(tools, "one", 1, bursts, slow=False)

    def timer(*rules: str) -> Callable[[], float]:
        command = list(calls)
        if rules:
            words = [word for rule in rules for word in ("-e", rule)]
            command = [sys.executable, "-m", "soscope", "inject", "-q", *words, "--", *calls]
        return lambda: typical(run(command, timeout=60).output)

    pairs = workload(tools, "pair", 1, bursts, slow=False)

    def pair(*prefix: str) -> Callable[[], float]:
        return lambda: typical(run([*prefix, *pairs], timeout=60).output)

    ours = [*tools.soscope, "inject", "-q", "-e", _MALLOC, "--"]
    of_pairs = {"pair": pair(), "inject": pair(*ours)}
    if "fiu-run" in tools.peers:
        of_pairs["libfiu"] = pair("fiu-run", "-x", "-c", _LIBFIU)
    timers = {"none": timer(), "one": timer(_NEVER), "two": timer(_NEVER, _SECOND)}
    figures, failed = rounds(count, timers)
    table.failed(failed)
    base = figures["none"]
    for name, goal, what in (
        ("`inject`, a call that its rule does not choose", 8.0, "one"),
        ("`inject`, two rules of a function", None, "two"),
    ):
        figure = figures[what].minus(base) if what in figures else None
        table.rows.append(Row(name, goal, figure, base=base))
    figures, failed = rounds(count, of_pairs)
    table.failed(failed)
    base = figures["pair"]
    for name, what in (
        ("malloc and free, malloc not chosen: `inject`", "inject"),
        ("malloc and free, malloc not chosen: libfiu", "libfiu"),
    ):
        if what in of_pairs:
            figure = figures[what].minus(base) if what in figures else None
            table.rows.append(Row(name, None, figure, base=base))
    return table
