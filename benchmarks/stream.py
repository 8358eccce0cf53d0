# SPDX-License-Identifier: Apache-2.0
"""Recording without a pause: how fast calls get to a file, and that none is lost."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

from benchmarks.measure import Failed, Figure, rounds, run, timed
from benchmarks.rows import Row, Table
from benchmarks.tools import Tools

_UNIT = 32
_GO, _GO_PARTS = 10_000_000, 40  # calls in one go, timed in parts
_CHUNK, _HEAD = 16384, 64
_OF_CALLS = {1, 2, 3, 4, 6, 7}  # stream.h: entries, exits, both, and their data
# one go of ten million calls: (name, kind, function, threads, goal in ns)
_LONG = (
    ("known function, 10,000,000 calls in one go", "one", "labs", 1, 40),
    ("known function, 10,000,000 calls, 2 threads", "one", "labs", 2, 100),
    ("unknown function, 10,000,000 calls in one go", "six", "bench_six", 1, 60),
)


def _recorded(path: str) -> tuple[int, int]:
    """Return (calls with entry and exit, of `labs`) and how many events a recording lost."""
    from soscope.recording.columns import batches
    from soscope.recording.reader import RecordingFile

    recording = RecordingFile.open(path)
    try:
        whole = sum(int((part.duration_ns >= 0).sum()) for part in batches(recording))
        lost = sum(count for count, _ in recording.losses.messages())
        return whole, lost
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
        return calls / ended.seconds / 1e6

    figures, failed = rounds(count, {"stream": stream})
    table.failed({f"sustained, {name}": why for name, why in failed.items()})
    name = "sustained, `block`: million calls a second, to a file"
    table.rows.append(Row(name, 10, figures.get("stream"), unit="M/s", at_least=True))
    if peaks:
        name = "sustained: peak memory of soscope, its 16 MiB of ring included"
        table.rows.append(Row(name, None, Figure(peaks), unit="MiB"))
    if "stream" in figures:
        table.remarks.append(_check(path, calls))
    _in_one_go(tools, table, count, say)
    _bytes_of_a_call(tools, table)
    table.remarks.append(_exact(tools))
    _remove(path)
    return table


def _in_one_go(tools: Tools, table: Table, count: int, say: Callable[[str], None]) -> None:
    """Measure more calls than any buffer holds, timed by the program itself."""
    for name, kind, function, threads, goal in _LONG:
        say(name)
        words = [tools.path("calls"), kind, threads, 1, _GO_PARTS, _GO // _GO_PARTS // threads, 0]
        command = list(map(str, words))
        cases = {"base": command, "full": [*tools.record("-e", function), *command]}
        if "uftrace" in tools.peers:
            cases["uftrace record --force"] = [*tools.uftrace(), *command]
        timers = {case: _mean_of(words) for case, words in cases.items()}
        figures, failed = rounds(count, timers)
        table.failed({f"{name}, {case}": why for case, why in failed.items()})
        base = figures.get("base")
        if base is None:
            continue
        full, peer = figures.get("full"), figures.get("uftrace record --force")
        row = Row(name, goal, full and full.minus(base), base=base)
        row.peers = [("uftrace record --force", peer.minus(base))] if peer else []
        table.rows.append(row)


def _mean_of(command: list[str]) -> Callable[[], float]:
    """Return what runs a command and returns the mean of its parts: none may hide in a median."""

    def timer() -> float:
        parts = [float(word) for word in run(command, timeout=120).output.split()]
        return sum(parts) / len(parts)

    return timer


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
    """Count the records of a call, and how much longer a recording gets by it.

    Two recordings are compared: what is there once falls out.
    """
    for kind, select, goal in (("one", "labs", 32), ("six", "bench_six", 64)):
        path = tools.path("size.sosr")
        sizes, records = [], []
        try:
            for calls in (1000, 3000):
                words = [tools.path("calls"), kind, "1", "1", "50", str(calls), "0"]
                run([*tools.trace("--record", path, "-e", select), *words])
                sizes.append(os.path.getsize(path))
                records.append(_records(path) * _UNIT)
        except (Failed, OSError, ImportError) as error:
            table.remarks.append(f"bytes a call, {kind}: {error}")
            continue
        made = 2000 * 50 * 2
        many = "one argument" if kind == "one" else "six arguments"
        each = Figure([(records[1] - records[0]) / made])
        table.rows.append(Row(f"bytes a call in the ring, {many}", goal, each, unit="B"))
        longer = (sizes[1] - sizes[0]) / made
        table.remarks.append(
            f"A call with {many} makes a recording {longer:.1f} bytes longer, heads and ends of "
            "chunks and the note of each chunk's own time included."
        )
        _remove(path)


def _records(path: str) -> int:
    """Return how many records of 32 bytes a recording holds."""
    from soscope.recording.reader import RecordingFile
    from soscope.recording.sink import Sink

    class Counter(Sink):
        """Counts units that belong to calls, leaving out the heads of chunks."""

        records = 0

        def chunks(self, program: int, data: bytes) -> None:
            for at in range(0, len(data), _CHUNK):
                self.count(data[at + _HEAD : at + _CHUNK])

        def chunk(self, program: int, header: bytes, first: int, units: bytes) -> None:
            self.count(units)

        def count(self, units: bytes) -> None:
            commits = memoryview(units).cast("I")[:: _UNIT // 4]
            self.records += sum(1 for word in commits.tolist() if word >> 28 in _OF_CALLS)

    counter = Counter()
    recording = RecordingFile.open(path)
    try:
        for _ in recording.replay(counter):
            pass  # the counter keeps what it is given
    finally:
        recording.close()
    return counter.records


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
