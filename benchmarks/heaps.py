# SPDX-License-Identifier: Apache-2.0
"""What `soscope mem run` costs whole programs, how it starts, and how long its report takes."""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Callable

from benchmarks.measure import Failed, Figure, rounds, run, timed, typical
from benchmarks.rows import Row, Table
from benchmarks.tools import TARGETS, Tools

_RUBY, _SQLITE = "ruby", "sqlite3"
_PYTHON = "/usr/bin/python3"
_MINUTE = 60.0  # seconds of CPU that the recorded program of the last rows takes
_NOW = "import time; print(time.time_ns())"
_RSS = "print(int(open('/proc/self/statm').read().split()[1]) * 4)"  # KiB


def measure(tools: Tools, count: int, say: Callable[[str], None]) -> Table:
    """Measure programs that do more than make blocks, start-up, and the way to a report."""
    table = Table()
    say("native blocks of Python")
    _python_blocks(tools, table, count)
    say("a database's blocks")
    _database(tools, table, count)
    say("objects of Ruby")
    _ruby(tools, table, count)
    say("start of mem run")
    measure_start(tools, table, count)
    say("a minute's recording")
    _minute(tools, table)
    return table


def _mem(tools: Tools, *options: str) -> list[str]:
    return [*tools.soscope, "mem", "run", "-q", "-o", tools.path("heap.sosr"), *options, "--"]


def _memray(tools: Tools) -> list[str]:
    """Return memray as it is without options, into a file that is overwritten."""
    out = tools.path("heap.memray")
    return [tools.memray_python, "-m", "memray", "run", "-q", "-f", "-o", out]


def _python_of(tools: Tools) -> str:
    """Return the interpreter that peers run in, where there are any: all run the same one."""
    return tools.memray_python if {"memray", "scalene"} & {*tools.peers} else _PYTHON


def _scalene(tools: Tools) -> list[str]:
    """Return scalene, which samples time and memory by line, as it is without options."""
    return [tools.memray_python, "-m", "scalene", "run", "-o", tools.path("heap.scalene.json")]


def _ratio(
    table: Table, name: str, goal: float | None, cases: dict[str, Callable[[], float]], count: int
) -> None:
    """Add a row: `soscope` of the cases over `base`, and all others beside it."""
    figures, failed = rounds(count, cases)
    table.failed({f"{name}, {case}": why for case, why in failed.items()})
    if "base" not in figures or "soscope" not in figures:
        return
    base = figures.pop("base")
    row = Row(name, goal, figures.pop("soscope").over(base), unit="x", base=base)
    row.peers = [(peer, figure.over(base)) for peer, figure in figures.items()]
    table.rows.append(row)


def _own_clock(words: list[str]) -> Callable[[], float]:
    def once() -> float:
        output = run(words, timeout=600).output
        lines = [line for line in output.splitlines() if line.replace(".", "").isdigit()]
        return typical("\n".join(lines))

    return once


def _python_blocks(tools: Tools, table: Table, count: int) -> None:
    python = _python_of(tools)
    work = [os.path.join(TARGETS, "objects_ops.py"), "5", "100000"]
    cases = {
        "base": _own_clock([python, *work]),
        "soscope": _own_clock([*_mem(tools, "--blocks"), python, *work]),
    }
    if "memray" in tools.peers:
        cases["memray"] = _own_clock([*_memray(tools), *work])
    if "scalene" in tools.peers:
        cases["scalene"] = _own_clock([*_scalene(tools), *work])
    _ratio(table, "Python, object-heavy: native blocks, default mode", 1.3, cases, count)


def _database(tools: Tools, table: Table, count: int) -> None:
    if shutil.which(_SQLITE) is None:
        table.remarks.append("sqlite3 is not installed")
        return
    script = os.path.join(TARGETS, "tables.sql")
    work = [_SQLITE, ":memory:", f".read {script}"]

    def once(words: list[str]) -> Callable[[], float]:
        def seconds() -> float:
            output = run(words, timeout=600).output
            found = re.findall(r"user ([\d.]+) sys ([\d.]+)", output)
            if not found:
                raise Failed("the shell printed no times")
            return 1000 * sum(float(word) for pair in found for word in pair)

        return seconds

    exact = _mem(tools, "--blocks")
    sampled = _mem(tools, "--blocks", "--mode", "sample")
    heaptrack = ["heaptrack", "--raw", "-o", tools.path("heaptrack")]
    for name, goal, words in (
        ("every block with its stack", None, exact),
        ("one in 512 KiB", 1.15, sampled),
    ):
        cases = {"base": once(work), "soscope": once([*words, *work])}
        if goal is None and shutil.which("heaptrack"):
            cases["heaptrack"] = once([*heaptrack, *work])
        _ratio(table, f"C, sqlite3 in memory, whole program: {name}", goal, cases, count)


def _ruby(tools: Tools, table: Table, count: int) -> None:
    if shutil.which(_RUBY) is None:
        table.remarks.append("ruby is not installed")
        return
    work = [_RUBY, os.path.join(TARGETS, "objects_ops.rb"), "5", "50000"]
    cases = {
        "base": _own_clock(work),
        "soscope": _own_clock([*_mem(tools, "--objects"), *work]),
        "ObjectSpace": _own_clock([*work, "objspace"]),
        "memory_profiler": _own_clock([*work, "memory_profiler"]),
    }
    _ratio(table, "Ruby, object-heavy: file:line:type of survivors", 3.0, cases, count)


def measure_start(tools: Tools, table: Table, count: int) -> None:
    """Add rows of the fixed costs: a Python program that does nothing, and its own memory."""
    python = _python_of(tools)

    def wall(words: list[str]) -> Callable[[], float]:
        return lambda: timed(words).seconds * 1000

    def until(words: list[str]) -> Callable[[], float]:
        def once() -> float:
            start = time.time_ns()
            return (int(run(words).output) - start) / 1e6

        return once

    def rss(words: list[str]) -> Callable[[], float]:
        return lambda: typical(run(words).output)

    for what, unit, goal, program, case in (
        ("later its first statement", "ms", 60.0, ["-c", _NOW], until),
        ("more wall time, report included", "ms", 60.0, ["-c", "pass"], wall),
        ("more RSS in the program", "KiB", 8192.0, ["-c", _RSS], rss),
    ):
        name = f"`mem run --objects`, an empty Python program: {what}"
        cases = {
            "base": case([python, *program]),
            "soscope": case([*_mem(tools, "--objects"), python, *program]),
        }
        if "memray" in tools.peers:
            cases["memray"] = case([*_memray(tools), *program])
        if unit == "ms":
            cases["interpreter"] = case([sys.executable, *program])
        figures, failed = rounds(2 * count, cases)
        table.failed({f"{name}, {one}": why for one, why in failed.items()})
        if "soscope" not in figures or "base" not in figures:
            continue
        base = figures["base"]
        row = Row(name, goal, figures["soscope"].minus(base), unit=unit, base=base)
        if "memray" in figures:
            row.peers = [("memray", figures["memray"].minus(base))]
        if "interpreter" in figures:
            row.peers.append(
                ("the bare interpreter that soscope runs under", figures["interpreter"])
            )
        table.rows.append(row)


def _minute(tools: Tools, table: Table) -> None:
    """Record a minute of objects and blocks once, and time what reads it."""
    work = [_PYTHON, os.path.join(TARGETS, "objects_ops.py")]
    name = "a minute of an object-heavy Python program, objects and blocks"
    page = tools.path("page.html")
    recording = tools.path("heap.sosr")
    try:
        one = sum(float(word) for word in run([*work, "2", "100000"]).output.split()) / 2
        parts = max(1, int(_MINUTE * 1e9 / (one * 800_000)))
        run([*_mem(tools, "--objects", "--blocks"), *work, str(parts), "100000"], timeout=900)
        size = os.stat(recording).st_size / (1 << 20)
        start = time.perf_counter()
        run([*tools.soscope, "mem", "report", "--json", recording])
        seconds = time.perf_counter() - start
        run([*tools.soscope, "mem", "flame", "-o", page, recording])
    except (Failed, OSError) as error:
        table.remarks.append(f"{name}: {error}")
        return
    table.rows.append(Row(f"{name}: its report", 10.0, Figure([seconds]), unit="s"))
    pages = Figure([os.stat(page).st_size / (1 << 20)])
    table.rows.append(Row(f"{name}: its page", 5.0, pages, unit="MiB"))
    table.remarks.append(f"The recording of that minute has {size:.1f} MiB.")
