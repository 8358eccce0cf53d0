# SPDX-License-Identifier: Apache-2.0
"""`--graph` and `--svg`: which image calls which. The program says itself what it called."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from tests.support.processes.run import run
from tests.support.processes.tracing import SOSCOPE
from tests.support.targets import build

REPORT = [sys.executable, "-m", "soscope", "report", "-q"]
Edges = dict[tuple[str, str], dict[str, Any]]


def edges_of(text: str) -> Edges:
    document = json.loads(text)
    assert document["schema"] == "soscope/trace-graph/1"
    return {(edge["caller"], edge["callee"]): edge for edge in document["edges"]}


def test_edges_are_sums_of_the_table(tmp_path: Path) -> None:
    program, file = str(build.program("calls")), str(tmp_path / "run.sosr")
    out, svg = tmp_path / "live", tmp_path / "live.svg"
    done = run(
        [*SOSCOPE, "-q", "--graph", "--json", "-o", str(out), "--svg", str(svg), "--", program]
    )
    assert done.returncode == 0, done.stderr
    live = edges_of(out.read_text())
    # what the program and its library say that they called
    truth: Counter[str] = Counter()
    for line in done.stderr.splitlines():
        word, symbol, calls, *_ = line.split()
        assert word == "calls"
        truth[symbol] += int(calls)
    counts: Counter[str] = Counter()
    for edge in live.values():
        for one in edge["functions"]:
            counts[one["symbol"]] += one["calls"]
    assert truth["f0"] >= 500
    assert {symbol: counts[symbol] for symbol in truth} == truth

    assert run([*SOSCOPE, "-q", "--from", "all", "--record", file, "--", program]).returncode == 0
    found = edges_of(run([*REPORT, "--graph", "--json", file]).stdout)
    assert set(found) == set(live)
    table = json.loads(run([*REPORT, "-c", "--json", file]).stdout)["rows"]
    for (caller, callee), edge in found.items():
        rows = [row for row in table if (row["caller"], row["callee"]) == (caller, callee)]
        for name in ("calls", "errors", "self_ns", "total_ns", "doubt_ns"):
            expected = sum(row[name] or 0 for row in rows)
            assert (edge[name] or 0) == expected
            assert sum(one[name] or 0 for one in edge["functions"]) == expected
        assert edge["doubt_ns"] > 0

    text = run([*REPORT, "--graph", "--top", "1", file]).stdout.splitlines()
    first, *_, rest = [line[51:] for line in text[2:-2] if line[51] != " "]
    assert first == " -> ".join(next(iter(found)))
    assert rest == f"({len(found) - 1} more)"

    titles = [
        title.text or ""
        for title in ET.fromstring(svg.read_text()).iter()
        if title.tag.endswith("title")
    ]
    for (caller, callee), edge in live.items():
        if caller != callee:
            said = [line for line in titles if line.startswith(f"{caller} → {callee}: ")]
            assert len(said) == 1
            assert f" {edge['calls']:,} call" in said[0]


def test_a_picture_alone_prints_nothing(tmp_path: Path) -> None:
    program, svg = str(build.program("calls")), tmp_path / "x.svg"
    out = tmp_path / "out"
    done = run([*SOSCOPE, "-q", "--svg", str(svg), "-o", str(out), "--", program])
    assert done.returncode == 0
    assert out.read_text() == ""
    assert ET.fromstring(svg.read_text()).tag.endswith("svg")
    missing = run([*SOSCOPE, "--svg", str(tmp_path / "no" / "x.svg"), "--", program])
    assert missing.returncode == 125
    assert missing.stdout == ""  # said before the program runs
