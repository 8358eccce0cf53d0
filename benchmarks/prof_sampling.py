# SPDX-License-Identifier: Apache-2.0
"""What sampling takes: the processor time of whole commands that stay with a process of 8 threads.

Part of all processors together, in per cent. Each command runs for a short and for a long time;
the difference has no start and no end in it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable

from benchmarks.measure import rounds, timed
from benchmarks.python_json import PYTHON
from benchmarks.rows import Row, Table
from benchmarks.tools import Tools

_HZ = 100
_THREADS = 8
_GOAL = 1.0
_SHORT, _LONG = 1, 4  # seconds
_CODE = f"""
import threading
def work(depth):
    if depth:
        return work(depth - 1)
    total = 0
    for number in range(10000):
        total += number
def run():
    while True:
        work(12)
for _ in range({_THREADS}):
    threading.Thread(target=run).start()
"""
_RUBY = f"""
def work(depth)
  return work(depth - 1) if depth > 0
  total = number = 0
  total += number += 1 while number < 10000
end
Array.new({_THREADS}) {{ Thread.new {{ loop {{ work(12) }} }} }}.each(&:join)
"""


def measure(tools: Tools, count: int, say: Callable[[str], None]) -> Table:
    """Measure programs of C, Python and Ruby, beside perf and py-spy."""
    say("sampling")
    table = Table()
    programs = {"C": [tools.path("spin"), str(_THREADS)]}
    if os.path.exists(PYTHON):
        programs["Python"] = [PYTHON, "-c", _CODE]
    if ruby := shutil.which("ruby"):
        programs["Ruby"] = [ruby, "-e", _RUBY]
    for language, command in programs.items():
        target = subprocess.Popen(command)
        try:
            cases = {name: _share(words) for name, words in _commands(tools, language, target.pid)}
            figures, failed = rounds(count, cases)
        finally:
            target.kill()
            target.wait()
        table.failed({f"sampling, {name}": why for name, why in failed.items()})
        title = f"sampling {_HZ} Hz of {_THREADS} threads of {language}, part of the machine"
        row = Row(title, _GOAL, figures.get("soscope"), unit="%")
        row.peers = [(name, figures[name]) for name in figures if name != "soscope"]
        table.rows.append(row)
    table.remarks.append(
        "sampling: what a stop takes in the threads themselves is not in these rows; "
        "py-spy has a rate for the process, not for each thread, and shows C with `--native` alone."
    )
    return table


def _commands(
    tools: Tools, language: str, pid: int
) -> list[tuple[str, Callable[[int], list[str]]]]:
    def soscope(seconds: int) -> list[str]:
        words = ["prof", "attach", "-q", "--sample", str(_HZ), "-p", str(pid)]
        words += ["-o", tools.path("sampled.sosr"), "--duration", f"{seconds}s"]
        return [*tools.soscope, *words]

    def perf(seconds: int) -> list[str]:
        words = ["perf", "record", "-q", "-F", str(_HZ), "-e", "cpu-clock", "--call-graph", "dwarf"]
        return [*words, "-p", str(pid), "-o", tools.path("perf.data"), "sleep", str(seconds)]

    def py_spy(seconds: int) -> list[str]:
        words = ["py-spy", "record", "-r", str(_HZ), "-f", "raw", "-o", tools.path("py-spy.txt")]
        return [*words, "-t", "--native", "-p", str(pid), "-d", str(seconds)]

    commands = [("soscope", soscope)]
    if shutil.which("perf"):
        commands.append(("perf", perf))
    if language == "Python" and shutil.which("py-spy"):
        commands.append(("py-spy", py_spy))
    return commands


def _share(command: Callable[[int], list[str]]) -> Callable[[], float]:
    def measured() -> float:
        short, long = (timed(command(seconds)).processor for seconds in (_SHORT, _LONG))
        return 100 * (long - short) / (_LONG - _SHORT) / (os.cpu_count() or 1)

    return measured
