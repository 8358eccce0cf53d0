# SPDX-License-Identifier: Apache-2.0
"""What is in a recording, looked at in two ways: as columns, and as `soscope report` tells it."""

from __future__ import annotations

import json
import signal
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from soscope.model.call import Exit
from soscope.recording.columns import RETURNED, Columns, columns
from soscope.recording.reader import RecordingFile
from soscope.recording.stream import events
from soscope.wire import layout
from tests.support.processes.run import run
from tests.support.time.patience import limit
from tests.support.truth.account import Truth

REPORT = [sys.executable, "-m", "soscope", "report"]
ENDED = {"return", "unwound", "exit", "killed", "lost", None}
_SLOT, _PID = (1 << 32) - 1, (1 << 22) - 1
ENOUGH = 20  # problems of one recording


class Recorded(NamedTuple):
    """The calls of a recording, and what is wrong with it."""

    calls: int
    by_name: Counter[str]  # by symbol, and by symbol@version
    by_process: Counter[tuple[int, str]]
    orphans: int  # exits without an entry
    problems: list[str]


def by_columns(path: Path) -> Recorded:
    """Count the calls of a recording that must be whole."""
    problems = []
    by_name: Counter[str] = Counter()
    by_process: Counter[tuple[int, str]] = Counter()
    with RecordingFile.open(path) as recording:
        found = columns(recording)
        if not recording.complete:
            problems.append(f"not complete: {recording.why}")
        problems += [f"dropped {count}: {why}" for count, why in recording.losses.messages()]
        rows = {(row.process, row.index): row for row in recording.slots}
        for (program, slot, pid), calls in _tallied(found.program, found.slot, found.pid):
            row = rows[program, slot]
            by_name[row.symbol] += calls
            by_name[f"{row.symbol}@{row.version}"] += calls
            by_process[pid, row.symbol] += calls
        orphans = _orphans(recording, found)
    return Recorded(len(found), by_name, by_process, orphans, problems)


def _orphans(recording: RecordingFile, calls: Columns) -> int:
    """Count the exits without an entry: one by one only if there are more than have returned."""
    exits = 0
    for piece in recording.chunks():
        kinds = np.frombuffer(piece.units, "<u4")[:: layout.UNIT // 4] >> 28
        is_exit = (kinds == layout.UNIT_EXIT) | (kinds == layout.UNIT_WHOLE)
        exits += int(np.count_nonzero(is_exit))
    if exits == np.count_nonzero(calls.ended == RETURNED):
        return 0
    return sum(isinstance(event, Exit) and event.entry is None for event in events(recording))


def by_report(path: Path, status: int, other: Recorded) -> Recorded:
    """Count them again in the JSON Lines of `soscope report`; `other` is by_columns' answer."""
    done = run([*REPORT, "--json", "-q", str(path)], timeout=limit(120))
    problems = list(other.problems)
    if done.returncode or done.stderr:
        problems.append(f"report ended with {done.returncode}: {done.stderr}")
    by_name: Counter[str] = Counter()
    by_process: Counter[tuple[int, str]] = Counter()
    calls, last, exits = 0, 0, []
    for line in done.stdout.splitlines():
        event: dict[str, Any] = json.loads(line)
        kind = event["type"]
        if kind == "call":
            calls += 1
            by_name[event["symbol"]] += 1
            by_name[f"{event['symbol']}@{event['version']}"] += 1
            by_process[event["pid"], event["symbol"]] += 1
            problems += _wrong_call(event)
        elif kind == "dropped":
            problems.append(f"dropped {event['count']}: {event['why']}")
        elif kind == "exit":
            exits.append(event)
        if "time_ns" in event:
            if event["time_ns"] < last:
                problems.append(f"not in order of time: {event}")
            last = event["time_ns"]
        if len(problems) > ENOUGH:
            break
    else:
        problems += wrong_exit(exits[-1], status) if exits else ["no exit is told"]
        if by_process != other.by_process:
            problems.append(f"columns have {other.by_name}, the report {by_name}")
    return Recorded(calls, by_name, by_process, other.orphans, problems)


def _tallied(program: Any, slot: Any, pid: Any) -> list[tuple[tuple[int, int, int], int]]:
    """Return the rows that three columns make, and how often each occurs.

    Each row becomes one number: numpy sorts these fifty times as fast as rows.
    """
    parts = ((program, 9), (slot, 32), (pid, 22))  # bits: of a test, of the wire, of Linux
    keys = np.zeros(len(pid), np.int64)
    for part, bits in parts:
        assert not len(part) or int(part.max()) >> bits == 0
        keys = keys << bits | part
    values, counts = np.unique(keys, return_counts=True)
    rows = zip(
        (values >> 54).tolist(),
        (values >> 22 & _SLOT).tolist(),
        (values & _PID).tolist(),
        strict=True,
    )
    return list(zip(rows, counts.tolist(), strict=True))


def _wrong_call(event: Mapping[str, Any]) -> list[str]:
    name = event["symbol"]
    if event["ended"] not in ENDED:
        return [f"{name} ended by {event['ended']!r}"]
    # None: the program forbade the clock
    if event["duration_ns"] is not None and event["duration_ns"] < 0:
        return [f"{name} returned after {event['duration_ns']}"]
    if event["depth"] < 0 or not event["return_addr"].startswith("0x"):
        return [f"{name}: depth {event['depth']}, return address {event['return_addr']}"]
    return []


def wrong_exit(exit_: Mapping[str, Any], status: int) -> list[str]:
    """Compare an exit as JSON has it with a status as subprocess has it."""
    code, name = exit_["status"], exit_["signal"]
    seen = -_signal(name) if name else code
    return [] if seen == status else [f"the end is told as {dict(exit_)}"]


def _signal(name: str) -> int:
    """Return the number of a signal as it is written: SIGTERM, SIGRTMIN+3, SIGRT_3, 37."""
    if name in signal.Signals.__members__:
        return signal.Signals[name].value
    digits = "".join(filter(str.isdigit, name))
    return int(digits) + (signal.SIGRTMIN if name.startswith("SIGRT") else 0)


def wrong_process(
    found: Recorded, truth: Truth, *, followed: bool, at_most: bool = False
) -> list[str]:
    """Compare the counts of each process that was recorded with what it says itself.

    `at_most`: fewer may have been recorded than were made, never more.
    """
    lines = []
    seen = {pid for pid, _ in found.by_process}
    for (pid, name), (low, high) in truth.by_process(followed=followed).items():
        if "@" in name or pid not in seen:
            continue
        if not (0 if at_most else low) <= found.by_process[pid, name] <= high:
            calls = found.by_process[pid, name]
            lines.append(f"{name} in process {pid}: {calls}, made {low} to {high}")
    return lines
