# SPDX-License-Identifier: Apache-2.0
"""Reading a recording back: as a table, and as text. Processor time, as others use the machine."""

from __future__ import annotations

import os
from collections.abc import Callable

from benchmarks.measure import Figure, rounds, run, timed
from benchmarks.rows import Row, Table
from benchmarks.tools import Tools

_MILLION = 1_000_000
_TEXT = 400_000  # calls that are written as text


def measure(tools: Tools, count: int, calls: int, say: Callable[[str], None]) -> Table:
    """Measure `report -c` of so many calls of two threads, and `report` of fewer."""
    table = Table()
    say("reading recordings")
    peaks: list[float] = []
    walls: list[float] = []

    def summary() -> float:
        ended = timed([*tools.soscope, "report", "-q", "-c", path])
        peaks.append(ended.peak_kib / 1024)
        walls.append(ended.seconds)
        return ended.processor

    path = _recorded(tools, "one", "labs", calls)
    figures, failed = rounds(min(count, 3), {"report -c": summary})
    os.unlink(path)
    title = f"`report -c` of {calls // _MILLION} million calls of two threads: "
    table.rows.append(Row(title + "processor time", 20, figures.get("report -c"), unit="s"))
    if peaks:
        table.rows.append(Row(title + "peak memory", 500, Figure(peaks), unit="MiB"))
        table.rows.append(Row(title + "from start to end", None, Figure(walls), unit="s"))
    for kind, symbol, what in (
        ("one", "labs", "one argument"),
        ("pair", "malloc+free", "malloc and free"),
        ("six", "bench_six", "a function nobody knows"),
    ):
        path = _recorded(tools, kind, symbol, _TEXT, threads=1)
        made = _calls(path)

        def text(path: str = path, made: int = made) -> float:
            return made / timed([*tools.soscope, "report", "-q", path]).processor / 1000

        found, why = rounds(min(count, 3), {f"report, {what}": text})
        failed.update(why)
        figure = found.get(f"report, {what}")
        name = f"`report` as text, {what}: thousand calls a second of processor time"
        table.rows.append(Row(name, 150, figure, unit="k/s", at_least=True))
        os.unlink(path)
    table.failed(failed)
    return table


def _recorded(tools: Tools, kind: str, select: str, calls: int, threads: int = 2) -> str:
    path = tools.path("reading.sosr")
    parts = 40
    each = str(calls // parts // threads // 2)  # a burst warms up, another follows
    words = [tools.path("calls"), kind, str(threads), "1", str(parts), each, "0"]
    record = ["trace", "-q", "--when-full=block", "--record", path, "-e", select]
    run([*tools.soscope, *record, "--", *words], timeout=580)
    return path


def _calls(path: str) -> int:
    """Return the calls in a recording."""
    from soscope.recording.reader import RecordingFile
    from soscope.recording.reduce import stats_of

    with RecordingFile.open(path) as recording:
        return sum(row[0] for rows in stats_of(recording).values() for row in rows.values())
