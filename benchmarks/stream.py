# SPDX-License-Identifier: Apache-2.0
"""Recording without a pause: how fast events get to a file, and that none is lost."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

from benchmarks.measure import Failed, Figure, rounds, run, timed
from benchmarks.rows import Row, Table
from benchmarks.tools import Tools

_UNIT = 32


def _recorded(path: str) -> tuple[int, int]:
    """Return (calls with entry and exit, of `labs`) and how many events a recording lost."""
    from soscope.recording.columns import columns
    from soscope.recording.reader import Recording

    recording = Recording.open(path)
    try:
        found = columns(recording)
        lost = sum(count for count, _ in recording.losses.messages())
        return int((found.duration_ns >= 0).sum()), lost
    finally:
        recording.close()


def measure(tools: Tools, count: int, calls: int, say: Callable[[str], None]) -> Table:
    """Measure throughput, memory of soscope and bytes of a call; check that nothing is lost."""
    table = Table()
    say("sustained recording")
    path = tools.path("stream.sosr")
    record = [*tools.soscope, "trace", "-q", "--when-full=block", "--record", path]
    parts = 40
    words = [tools.path("calls"), "one", "1", "1", str(parts), str(calls // parts // 2), "0"]
    peaks: list[float] = []

    def stream() -> float:
        ended = timed([*record, "-e", "labs", "--", *words])
        peaks.append(ended.peak_kib / 1024)
        return 2 * calls / ended.seconds / 1e6

    figures, failed = rounds(count, {"stream": stream})
    table.failed({f"sustained, {name}": why for name, why in failed.items()})
    name = "sustained, `block`: million records of 32 bytes a second, to a file"
    table.rows.append(Row(name, 5, figures.get("stream"), unit="M/s", at_least=True))
    if peaks:
        name = "sustained: peak memory of soscope, its 16 MiB of ring included"
        table.rows.append(Row(name, None, Figure(peaks), unit="MiB"))
    if "stream" in figures:
        table.remarks.append(_check(path, calls))
    _bytes_of_a_call(tools, table)
    table.remarks.append(_exact(tools))
    _remove(path)
    return table


def _check(path: str, calls: int) -> str:
    try:
        whole, lost = _recorded(path)
    except ImportError as error:
        return f"Sustained: not checked for losses ({error})."
    except (Failed, OSError, ValueError) as error:
        return f"Sustained: not checked for losses: {error}."
    verdict = "none lost" if whole >= calls and not lost else f"**{lost} LOST**"
    return f"Sustained: {calls:,} calls made, {whole:,} read back with entry and exit, {verdict}."


def _bytes_of_a_call(tools: Tools, table: Table) -> None:
    """Compare the sizes of two recordings: what is there once falls out."""
    for kind, select, goal in (("one", "labs", 64), ("six", "bench_six", 128)):
        sizes = []
        path = tools.path("size.sosr")
        try:
            for calls in (1000, 3000):
                words = [tools.path("calls"), kind, "1", "1", "50", str(calls), "0"]
                run([*tools.trace("--record", path, "-e", select), *words])
                sizes.append(os.path.getsize(path))
        except (Failed, OSError) as error:
            table.remarks.append(f"bytes a call, {kind}: {error}")
            continue
        made = 2000 * 50 * 2
        each = (sizes[1] - sizes[0]) / made
        many = "one argument" if kind == "one" else "six arguments"
        row = Row(f"bytes a call in ring and file, {many}", goal, Figure([each]), unit="B")
        # The ends of chunks are left for nested signals, and chunks have heads.
        row.why = "64 and 128 bytes of records; the rest is the chunks' heads and ends"
        table.rows.append(row)
        _remove(path)


def _exact(tools: Tools) -> str:
    """Compare --count-only with what the program says it did, at one and two threads."""
    said = []
    for threads in (1, 2):
        out = tools.path("exact.json")
        words = [tools.path("calls"), "leaf", str(threads), "1", "10", "12345", "0"]
        options = ["--count-only", "--json", "-o", out, "-e", "bench_leaf", "--", *words]
        try:
            run([*tools.soscope, "trace", "-q", *options])
            with open(out, encoding="utf-8") as file:
                rows = json.load(file)["rows"]
        except (Failed, OSError, ValueError, KeyError) as error:
            return f"`--count-only` could not be checked: {error}."
        made = 2 * 10 * 12345 * threads
        counted = sum(row["calls"] for row in rows if row["symbol"] == "bench_leaf")
        verdict = "exact" if counted == made else "**WRONG**"
        said.append(f"{counted:,} of {made:,} with {threads} ({verdict})")
    return "`--count-only` by number of threads: " + ", ".join(said) + "."


def _remove(path: str) -> None:
    if os.path.exists(path):
        os.unlink(path)
