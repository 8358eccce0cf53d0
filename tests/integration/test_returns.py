# SPDX-License-Identifier: Apache-2.0
"""Returns that are not the first of their call: JSON says what the text says."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tests.support.processes.run import run
from tests.support.processes.tracing import SOSCOPE
from tests.support.schemas import checked as schema
from tests.support.targets import build

REPORT = [sys.executable, "-m", "soscope", "report"]
NAMES = ("f0", "fork", "qsort", "_setjmp")


def trace(path: Path) -> tuple[list[dict[str, Any]], list[tuple[str, int, int]]]:
    """Trace the program; return the JSON objects, and what the program said of itself."""
    program = str(build.program("returns"))
    done = run([*SOSCOPE, "-q", "-f", "--json", "-e", ",".join(f"{name}@MAIN" for name in NAMES),
                "-o", str(path / "live"), "--record", str(path / "run.sosr"), "--",
                program])  # fmt: skip
    assert done.returncode == 0
    lines = [json.loads(line) for line in (path / "live").read_text().splitlines()]
    assert not schema.wrong_lines(lines)
    said = [line.split() for line in done.stdout.splitlines() if line[0] != "="]
    return lines, [(one[0], int(one[1]), int(one[2])) for one in said if one[0] in NAMES]


def test_calls_of_a_child_lie_inside_those_it_was_forked_in(tmp_path: Path) -> None:
    lines, said = trace(tmp_path)
    pids = {pid for _, pid, _ in said}
    assert len(pids) == 7  # two children and a grandchild in each of two sorts
    calls = [one for one in lines if one["type"] == "call" and one["symbol"] == "f0"]
    for pid in pids:
        shown = [one["depth"] for one in calls if one["pid"] == pid]
        assert shown == [depth for name, one, depth in said if name == "f0" and one == pid]


def test_each_further_return_has_an_object(tmp_path: Path) -> None:
    lines, said = trace(tmp_path)
    calls = {(one["pid"], one["tid"], one["time_ns"]): one for one in lines if "args" in one}
    returns = [one for one in lines if one["type"] == "return"]
    for one in returns:
        call = calls[one["call_pid"], one["call_tid"], one["call_time_ns"]]
        assert call["symbol"] == one["symbol"]
        assert call["time_ns"] <= one["time_ns"]
    shown = Counter((one["symbol"], one["pid"]) for one in returns)
    assert shown == Counter((name, pid) for name, pid, _ in said if name != "f0")
    jumps = [one["result"]["value"] for one in returns if one["symbol"] == "_setjmp"]
    assert jumps == [result for name, _, result in said if name == "_setjmp"]
    text = run([*REPORT, "-q", str(tmp_path / "run.sosr")]).stdout
    again = [one for one in returns if one["symbol"] == "qsort"]
    assert text.count("<... qsort resumed>") >= len(again)


def test_the_table_and_json_count_the_same_errors(tmp_path: Path) -> None:
    program = str(build.program("errno"))
    words = [*SOSCOPE, "-q", "--json", "--from", "all", "-o", str(tmp_path / "out")]
    run([*words, "-c", "--", program])
    rows = json.loads((tmp_path / "out").read_text())["rows"]
    table = {row["symbol"]: row["errors"] for row in rows if row["errors"]}
    run([*words, "--", program])
    lines = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert not schema.wrong_lines(lines)
    assert Counter(one["symbol"] for one in lines if one.get("failed")) == table
    assert all(one["failed"] for one in lines if one.get("errno"))
    assert table["close"] == 50
