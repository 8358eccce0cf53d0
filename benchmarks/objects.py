# SPDX-License-Identifier: Apache-2.0
"""What `soscope mem run` costs: objects of Python by line and type, native blocks by stack."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from benchmarks.measure import Figure, rounds, run, typical
from benchmarks.rows import Row, Table
from benchmarks.tools import TARGETS, Tools

_PYTHONS = (
    "/usr/bin/python3",
    *sorted(map(str, Path.home().glob(".pyenv/versions/3.*/bin/python3"))),
)
_OLDEST, _WITH_TRACER = (3, 9), (3, 13)
_PARTS, _TURNS = 5, 100_000
_PAIRS = 1_000_000  # of a part and thread


def measure(tools: Tools, count: int, say: Callable[[str], None]) -> Table:
    """Measure by which factor programs get slower that make nothing but objects or blocks."""
    table = Table()
    for python in _PYTHONS:
        version = _version(python)
        if version >= _OLDEST:
            say(f"objects of {'.'.join(map(str, version))}")
            _objects(tools, table, count, python, version)
    for threads in (1, 2, 4):
        say(f"blocks, {threads} threads")
        _blocks(tools, table, count, threads)
    return table


def _version(python: str) -> tuple[int, ...]:
    """Return the version of an interpreter, (0,) where there is none."""
    words = [python, "-c", "import sys; print(*sys.version_info[:2])"]
    try:
        said = subprocess.run(words, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return (0,)  # it has no row
    return tuple(map(int, said.stdout.split()))


def _objects(tools: Tools, table: Table, count: int, python: str, version: tuple[int, ...]) -> None:
    work = [python, os.path.join(TARGETS, "objects_ops.py"), str(_PARTS), str(_TURNS)]
    mem = [*tools.soscope, "mem", "run", "-q", "--objects", "-o", tools.path("objects.sosr")]
    cases = {
        "base": _timer(work),
        "exact": _timer([*mem, "--", *work]),
        "count": _timer([*mem, "--mode", "count", "--", *work]),
        "sample": _timer([*mem, "--mode", "sample", "--", *work]),
        "tracemalloc, 1 frame": _timer(work, {"PYTHONTRACEMALLOC": "1"}),
    }
    figures, failed = rounds(count, cases)
    name = f"Python {'.'.join(map(str, version))} ({_linkage(python)}), object-heavy"
    table.failed({f"{name}, {what}": why for what, why in failed.items()})
    peers = _over(figures, ("tracemalloc, 1 frame",))
    for what, goal, case in (
        ("file:line:type of survivors", 1.6 if version >= _WITH_TRACER else 1.3, "exact"),
        ("counts by type", 1.2, "count"),
        ("one in 512 KiB", 1.1, "sample"),
    ):
        _add(table, f"{name}: {what}", goal, figures, case, peers)


def _linkage(python: str) -> str:
    libraries = Path(python).resolve().parent.parent.glob("lib/libpython3.*.so*")
    return "shared" if any(libraries) and python != "/usr/bin/python3" else "static"


def _blocks(tools: Tools, table: Table, count: int, threads: int) -> None:
    program = tools.path("blocks_ops")
    if not os.path.exists(program):
        source = os.path.join(TARGETS, "blocks_ops.c")
        flags = ["-O2", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls", "-pthread"]
        run([os.environ.get("CC", "cc"), *flags, "-o", program, source])
    work = [program, str(_PARTS), str(_PAIRS // threads), str(threads)]
    mem = [*tools.soscope, "mem", "run", "-q", "--blocks", "-o", tools.path("blocks.sosr")]
    cases = {
        "base": _timer(work),
        "exact": _timer([*mem, "--", *work]),
        "sample": _timer([*mem, "--mode", "sample", "--", *work]),
    }
    if shutil.which("heaptrack"):
        cases["heaptrack"] = _timer(
            ["heaptrack", "--raw", "-o", tools.path("heaptrack"), *work], keep="."
        )
    figures, failed = rounds(count, cases)
    name = f"C, malloc/free, {_PAIRS:,} pairs a part, {threads} threads"
    table.failed({f"{name}, {what}": why for what, why in failed.items()})
    _add(
        table,
        f"{name}: every block with its stack",
        2.5,
        figures,
        "exact",
        _over(figures, ("heaptrack",)),
    )
    base, sampled = figures.get("base"), figures.get("sample")
    extra = sampled.minus(base) if base and sampled else None
    row = Row(f"{name}: one in 512 KiB, more a pair", 3.0, extra, unit="ns", base=base)
    table.rows.append(row)


def _over(figures: dict[str, Figure], names: tuple[str, ...]) -> list[tuple[str, Figure]]:
    return [(name, figures[name].over(figures["base"])) for name in names if name in figures]


def _add(
    table: Table,
    name: str,
    goal: float,
    figures: dict[str, Figure],
    case: str,
    peers: list[tuple[str, Figure]],
) -> None:
    figure = figures[case].over(figures["base"]) if case in figures else None
    row = Row(name, goal, figure, unit="x", base=figures["base"])
    row.peers = peers
    table.rows.append(row)


def _timer(
    words: list[str], env: dict[str, str] | None = None, *, keep: str = ""
) -> Callable[[], float]:
    """Time a workload; of lines that others print beside it those with `keep` alone are numbers."""

    def once() -> float:
        output = run(words, env=env, timeout=300).output
        if keep:
            lines = [line for line in output.splitlines() if line.replace(keep, "").isdigit()]
            output = "\n".join(lines)
        return typical(output)

    return once
