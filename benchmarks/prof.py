# SPDX-License-Identifier: Apache-2.0
"""What a call costs that instrumented code reports, in each mode of `soscope prof`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from benchmarks import prof_boundary, prof_extension
from benchmarks.measure import Figure, rounds, run, typical
from benchmarks.prof_peers import Peers
from benchmarks.rows import Row, Table
from benchmarks.tools import TARGETS, Tools

_FLAGS = {
    "plain": [],
    "-pg": ["-pg"],
    "-mfentry": ["-pg", "-mfentry"],
    "-finstrument-functions": ["-finstrument-functions"],
    "-fpatchable-function-entry=5": ["-fpatchable-function-entry=5"],
}
_PATCHABLE = "-fpatchable-function-entry=5"
_INST = "-finstrument-functions"
_LOADED = "as loaded"
# what, built how, in how many threads: goal in ns
_ROWS: list[tuple[str, str, int, float | None]] = [
    (_LOADED, "-pg", 1, None),
    (_LOADED, "-pg", 2, None),
    ("quiet", "-pg", 1, 2.5),
    ("quiet", "-mfentry", 1, 2.5),
    (_LOADED, _INST, 1, None),
    ("quiet", _INST, 1, 2.5),
    ("count", "-pg", 1, 4.0),
    ("count", "-pg", 2, 4.0),
    ("count", "-mfentry", 1, 4.0),
    ("count", _INST, 1, None),
    ("sample", _INST, 1, 6.0),
    ("time", _INST, 1, 26.0),
    ("time", "-pg", 1, 34.0),
    ("time", "-pg", 2, 34.0),
    ("time", "-mfentry", 1, 34.0),
    ("log", _INST, 1, 22.0),
    ("log", _INST, 2, 22.0),
    ("log", "-pg", 1, None),
    ("log", "-mfentry", 1, None),
    (_LOADED, _PATCHABLE, 1, None),
    ("count", _PATCHABLE, 1, 4.0),
    ("time", _PATCHABLE, 1, 34.0),
    ("quiet", _PATCHABLE, 1, 2.5),
]
_FUNCTIONS = ("leaf", "mid", "fib")
_START = """
import sys
from soscope.control.session import Session
from soscope.control.settings import SessionSettings
from soscope.instruments.prof.instrumented import InstrumentedCode

mode, record, *command = sys.argv[1:]
settings = SessionSettings(command, record=record if mode == "log" else None)
Session(settings, [InstrumentedCode(mode)]).run()
"""


def measure(tools: Tools, count: int, parts: int, say: Callable[[str], None]) -> Table:
    """Measure the rows of calls that instrumented code reports: all of a call, as it is."""
    say("prof")
    table = Table()
    programs = {how: _build(tools, number, how) for number, how in enumerate(_FLAGS)}
    script = tools.path("prof-start.py")
    with open(script, "w", encoding="utf-8") as file:
        file.write(f"import sys; sys.path[1:1] = {sys.path!r}\n{_START}")

    def start(mode: str) -> list[str]:
        return [sys.executable, script, mode, tools.path("prof-log.sosr")]

    def timer(mode: str, how: str, threads: int, function: str) -> Callable[[], float]:
        words = [programs[how], function, str(threads), str(parts), "300000"]
        if mode != _LOADED:
            words = [*start(mode), *words]
        return lambda: typical(run(words, timeout=60).output)

    def peer(name: str, how: str, function: str) -> Callable[[], float]:
        words = [*peers.tracer(name), programs[how], function, "1", str(parts), "100000"]
        return lambda: typical(run(words, timeout=120).output)

    peers = Peers(tools)
    cases = {name: timer(_LOADED, "plain", 1, name) for name in _FUNCTIONS}
    for mode, how, threads, _ in _ROWS:
        for function in _FUNCTIONS:
            cases[_name(mode, how, threads, function)] = timer(mode, how, threads, function)
            for name in peers.beside(mode, how) if threads == 1 else ():
                cases[_name(name, how, 1, function)] = peer(name, how, function)
    try:
        figures, failed = rounds(count, cases)
    finally:
        peers.close()
    table.failed(failed | peers.missing)
    for function in _FUNCTIONS:
        name = f"a call that reports nothing ({function})"
        table.rows.append(Row(name, None, figures.get(function)))
    for mode, how, threads, goal in _ROWS:
        for function in _FUNCTIONS:
            name = _name(mode, how, threads, function)
            figure: Figure | None = figures.get(name)
            row = Row(name, goal, figure)
            for other in peers.beside(mode, how) if threads == 1 else ():
                beside = figures.get(_name(other, how, 1, function))
                row.peers += [(other, beside)] if beside is not None else []
            table.rows.append(row)
    for more in (
        prof_extension.measure(tools, start, count, say),
        prof_boundary.measure(tools, programs["plain"], count, say),
    ):
        table.rows += more.rows
        table.remarks += more.remarks
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
