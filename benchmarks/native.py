# SPDX-License-Identifier: Apache-2.0
"""What a call costs in a process that is traced by breakpoints, beside ltrace and gdb."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

from benchmarks.measure import Failed, rounds, run
from benchmarks.rows import Row, Table
from benchmarks.tools import TARGETS, Tools

_LONGEST = 60.0  # seconds
_SETTLING = 1.0  # seconds that a tracer takes from its first ptrace to its last
_ASKED = 3  # times; the best counts, as others use the machine, too


def measure(tools: Tools, count: int, say: Callable[[str], None]) -> Table:
    """Measure calls of a process that runs already."""
    say("native")
    table = Table()
    program = tools.path("native")
    try:
        source = os.path.join(TARGETS, "native.c")
        run(["gcc", "-O1", "-fno-builtin", "-o", program, source])
    except (Failed, OSError) as error:
        table.remarks.append(f"processes by breakpoints: {error}")
        return table
    sites = [sys.executable, "-m", "soscope", "trace", "--engine", "sites", "-e", "labs"]
    script = os.path.join(TARGETS, "native_gdb.py")
    commands = {
        "both": ([*sites, "-c", "-o", os.devnull, "-p"], 2000),
        "entry": ([*sites, "--count-only", "-o", os.devnull, "-p"], 2000),
        "text": ([*sites, "-o", os.devnull, "-p"], 1000),
        "gdb": (["gdb", "-nx", "-q", "-batch", "-x", script, "-p"], 50),
    }
    if shutil.which("ltrace"):
        commands["ltrace -c"] = (["ltrace", "-c", "-e", "labs", "-o", os.devnull, "-p"], 1000)
        commands["ltrace"] = (["ltrace", "-e", "labs", "-o", os.devnull, "-p"], 1000)
    cases: dict[str, Callable[[], float]] = {
        name: partial(_cost, program, *command) for name, command in commands.items()
    }
    figures, failed = rounds(count, cases)
    table.failed(failed)
    for name, goal, case, peers in (
        ("by breakpoints: entry and return, counted and timed", 25, "both", ("ltrace -c", "gdb")),
        ("by breakpoints: entry alone, counted", None, "entry", ()),
        ("by breakpoints: entry and return, as text", None, "text", ("ltrace",)),
    ):
        row = Row(name, goal, figures.get(case), unit="µs")
        row.peers += [(peer, figures[peer]) for peer in peers if peer in figures]
        table.rows.append(row)
    return table


def _cost(program: str, words: list[str], times: int) -> float:
    """Return µs a call of the program while it is traced by a command, which gets its pid."""
    process = subprocess.Popen(
        [program, str(times)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    tracer = None
    try:
        process.stdout.readline()
        tracer = subprocess.Popen(
            [*words, str(process.pid)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        _wait_for_tracer(process.pid, tracer)
        values = []
        for _ in range(_ASKED):
            process.stdin.write("\n")
            process.stdin.flush()
            values.append(float(process.stdout.readline()))
        return min(values)
    finally:
        if tracer is not None:
            tracer.send_signal(signal.SIGINT)
        process.stdin.close()
        try:
            process.wait(_LONGEST)
            if tracer is not None:
                tracer.wait(_LONGEST)
        except subprocess.TimeoutExpired:
            process.kill()
        process.stdout.close()


def _wait_for_tracer(pid: int, tracer: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + _LONGEST
    while True:
        with open(f"/proc/{pid}/status", encoding="utf-8") as file:
            if "TracerPid:\t0\n" not in file.read():
                break
        if tracer.poll() is not None or time.monotonic() > end:
            raise Failed("the process is not traced")
        time.sleep(0.01)
    time.sleep(_SETTLING)
