# SPDX-License-Identifier: Apache-2.0
"""What `soscope mem run` costs a program that does nothing: time from start to end, and memory.

Whole commands, with the bare interpreter that runs soscope in them; the untraced program is taken
off. The processor's time depends less on other work on the machine than the clock on the wall.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from benchmarks.measure import rounds, run, timed
from benchmarks.python_json import PYTHON
from benchmarks.rows import Row, Table
from benchmarks.tools import Tools

_MOST_MS, _MOST_MIB = 60, 8
_RSS = "print(*[line.split()[1] for line in open('/proc/self/status') if line[:5] == 'VmRSS'])"


def measure(tools: Tools, count: int, say: Callable[[str], None]) -> Table:
    """Measure both programs, objects and blocks."""
    say("mem run of programs that do nothing")
    table = Table()
    true, python = ["/bin/true"], [PYTHON, "-c", "pass"]
    mem = [*tools.soscope, "mem", "run", "-q", "-o", tools.path("start.sosr")]
    commands = {
        "true": true,
        "blocks of true": [*mem, "--blocks", "--", *true],
        "python": python,
        "objects of python": [*mem, "--objects", "--", *python],
        "blocks of python": [*mem, "--blocks", "--", *python],
    }
    walls, failed = rounds(count, {name: _wall(words) for name, words in commands.items()})
    table.failed(failed)
    used, _ = rounds(count, {name: _processor(words) for name, words in commands.items()})
    for figures, what, goal in ((walls, "", _MOST_MS), (used, ", processor time", None)):
        for name, base in (
            ("blocks of true", "true"),
            ("objects of python", "python"),
            ("blocks of python", "python"),
        ):
            both = name in figures and base in figures
            figure = figures[name].minus(figures[base]) if both else None
            title = f"`mem run`, {name}, start to end{what}"
            table.rows.append(Row(title, goal, figure, unit="ms", base=figures.get(base)))
    _memory(table, mem, count)
    table.remarks.append(
        f"soscope's own interpreter, {sys.executable}, is in the rows of `mem run`."
    )
    return table


def _wall(command: list[str]) -> Callable[[], float]:
    return lambda: timed(command).seconds * 1000


def _processor(command: list[str]) -> Callable[[], float]:
    return lambda: timed(command).processor * 1000


def _memory(table: Table, mem: list[str], count: int) -> None:
    """Measure what a Python has resident at its end, which it prints itself."""
    program = [PYTHON, "-c", _RSS]
    cases = {
        "python": program,
        "objects": [*mem, "--objects", "--", *program],
        "blocks": [*mem, "--blocks", "--", *program],
    }
    figures, failed = rounds(count, {name: _said(words) for name, words in cases.items()})
    table.failed(failed)
    base = figures.get("python")
    for name in ("objects", "blocks"):
        figure = figures[name].minus(base) if base and name in figures else None
        title = f"`mem run`, {name} of python: its extra RSS"
        table.rows.append(Row(title, _MOST_MIB, figure, unit="MiB", base=base))


def _said(command: list[str]) -> Callable[[], float]:
    return lambda: int(run(command).output) / 1024
