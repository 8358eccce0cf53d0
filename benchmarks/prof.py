# SPDX-License-Identifier: Apache-2.0
"""What a call costs that instrumented code reports, in each mode of `soscope prof`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from benchmarks.measure import Figure, rounds, run, typical
from benchmarks.rows import Row, Table
from benchmarks.tools import TARGETS, Tools

_FLAGS = {
    "plain": [],
    "-pg": ["-pg"],
    "-mfentry": ["-pg", "-mfentry"],
    "-finstrument-functions": ["-finstrument-functions"],
}
_INST = "-finstrument-functions"
_LOADED = "as loaded"
# what, built how, in how many threads: goal in ns
_ROWS: list[tuple[str, str, int, float | None]] = [
    (_LOADED, "-pg", 1, None),
    (_LOADED, "-pg", 2, None),
    ("quiet", "-pg", 1, 2.5),
    ("quiet", "-mfentry", 1, 2.5),
    (_LOADED, _INST, 1, None),
    ("count", "-pg", 1, 4.0),
    ("count", "-pg", 2, 4.0),
    ("count", "-mfentry", 1, 4.0),
    ("count", _INST, 1, None),
    ("sample", _INST, 1, 6.0),
    ("time", _INST, 1, 26.0),
    ("time", "-pg", 1, 34.0),
    ("time", "-pg", 2, 34.0),
    ("time", "-mfentry", 1, 34.0),
]
_FUNCTIONS = ("leaf", "mid", "fib")
_START = """
import sys
from soscope.control.session import Session
from soscope.control.settings import SessionSettings
from soscope.instruments.prof.instrumented import InstrumentedCode

Session(SessionSettings(sys.argv[2:]), [InstrumentedCode(sys.argv[1])]).run()
"""


def measure(tools: Tools, count: int, parts: int, say: Callable[[str], None]) -> Table:
    """Measure the rows of calls that instrumented code reports: all of a call, as it is."""
    say("prof")
    table = Table()
    programs = {how: _build(tools, number, how) for number, how in enumerate(_FLAGS)}
    start = tools.path("prof-start.py")
    with open(start, "w", encoding="utf-8") as file:
        file.write(f"import sys; sys.path[1:1] = {sys.path!r}\n{_START}")

    def timer(mode: str, how: str, threads: int, function: str) -> Callable[[], float]:
        words = [programs[how], function, str(threads), str(parts), "300000"]
        if mode != _LOADED:
            words = [sys.executable, start, mode, *words]
        return lambda: typical(run(words, timeout=60).output)

    cases = {"plain": timer(_LOADED, "plain", 1, "mid")}
    for mode, how, threads, _ in _ROWS:
        for function in _FUNCTIONS:
            cases[_name(mode, how, threads, function)] = timer(mode, how, threads, function)
    figures, failed = rounds(count, cases)
    table.failed(failed)
    table.rows.append(Row("a call that reports nothing (mid)", None, figures.get("plain")))
    for mode, how, threads, goal in _ROWS:
        for function in _FUNCTIONS:
            name = _name(mode, how, threads, function)
            figure: Figure | None = figures.get(name)
            table.rows.append(Row(name, goal, figure))
    return table


def _name(mode: str, how: str, threads: int, function: str) -> str:
    many = f", {threads} threads" if threads > 1 else ""
    return f"`{how}`, {mode}{many} ({function})"


def _build(tools: Tools, number: int, how: str) -> str:
    compiler = os.environ.get("CC") or "gcc"
    library, program = tools.path(f"libreported{number}.so"), tools.path(f"reported{number}")
    flags = ["-O2", "-fPIC", "-shared", *_FLAGS[how], f"-Wl,-soname,libreported{number}.so"]
    run([compiler, *flags, "-o", library, os.path.join(TARGETS, "libreported.c")])
    words = ["-O2", "-pthread", "-Wl,-rpath,$ORIGIN", "-o", program]
    run([compiler, *words, os.path.join(TARGETS, "reported.c"), library])
    return program
