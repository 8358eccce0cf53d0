# SPDX-License-Identifier: Apache-2.0
"""Reading a recording back: as a table, and as text. Processor time, as others use the machine."""

from __future__ import annotations

import os
from collections.abc import Callable

from benchmarks.measure import Ended, Figure, rounds, run, timed
from benchmarks.rows import Row, Table
from benchmarks.tools import Tools

_MILLION = 1_000_000
_TEXT = 400_000  # calls that are written as text
_RIVAL = 4000  # calls that ltrace is given
# workload, function, thousand lines a second that must be reached
_LINES = (
    ("again", "strtol", 400),
    ("texts", "strlen", 150),
    ("numbers", "strtol", 150),
    ("failures", "access", 150),
    ("prints", "snprintf", 150),
)


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
    for kind, symbol, goal in _LINES:
        peaks = []

        def live(kind: str = kind, symbol: str = symbol, peaks: list[float] = peaks) -> float:
            ended = _traced(tools, kind, symbol)
            peaks.append(ended.peak_kib / 1024)
            return _TEXT / ended.processor / 1000

        found, why = rounds(min(count, 3), {f"trace, {symbol}": live})
        failed.update(why)
        title = (
            f"`trace -o FILE`, {'repeating' if kind == 'again' else 'different'} lines of {symbol}"
        )
        figure = found.get(f"trace, {symbol}")
        name = f"{title}: thousand a second of processor time"
        table.rows.append(Row(name, goal, figure, unit="k/s", at_least=True))
        if peaks:
            table.rows.append(Row(f"{title}: peak memory", None, Figure(peaks), unit="MiB"))
    if "ltrace" in tools.peers:

        def rival() -> float:
            words = [tools.path("calls"), "texts", "1", "1", "10", str(_RIVAL // 20), "0"]
            command = ["ltrace", "-o", tools.path("lines.txt"), "-e", "strlen@MAIN", *words]
            return _RIVAL / timed(command).seconds / 1000

        found, why = rounds(min(count, 3), {"ltrace": rival})
        failed.update(why)
        name = "ltrace, different lines of strlen: thousand a second"
        table.rows.append(Row(name, None, found.get("ltrace"), unit="k/s", at_least=True))
    table.failed(failed)
    return table


def _traced(tools: Tools, kind: str, symbol: str) -> Ended:
    words = [tools.path("calls"), kind, "1", "1", "40", str(_TEXT // 80), "0"]
    record = ["trace", "-q", "--when-full=block", "-o", tools.path("lines.txt"), "-e", symbol]
    return timed([*tools.soscope, *record, "--", *words])


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
