# SPDX-License-Identifier: Apache-2.0
"""`--format`: text, the document of `--json`, or a page that says what the document says."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support.processes.run import run
from tests.support.processes.tracing import SOSCOPE
from tests.support.targets import build

VERBS = [
    ["map", "{program}"],
    ["explain", "{program}", "f0"],
    ["check", "{program}"],
    ["audit-resolver"],
    ["doctor", "{program}"],
    ["called", "-q", "--", "{program}"],
    ["trace", "-q", "-c", "--top", "3", "-o", "-", "--", "{program}"],
    ["trace", "-q", "--graph", "-o", "-", "--", "{program}"],
    ["trace", "-q", "--tree", "-c", "-o", "-", "--", "{program}"],
]
REPORT = [sys.executable, "-m", "soscope", "report", "-q"]


def said(verb: list[str], program: str, *options: str) -> str:
    """Return what a verb prints, without what the program does."""
    words = [word.format(program=program) for word in verb]
    done = run([sys.executable, "-m", "soscope", words[0], *options, *words[1:]])
    assert done.returncode in (0, 1), done.stderr
    return "".join(
        line for line in done.stdout.splitlines(keepends=True) if not line.startswith("calls ")
    )


@pytest.mark.every(8)
@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: "-".join(verb[:3]))
def test_every_form_of_a_verb(verb: list[str]) -> None:
    program = str(build.program("calls"))
    document = json.loads(said(verb, program, "--format", "json"))
    name = document["schema"].removeprefix("soscope/").partition("/")[0].replace("-", " ")
    lines = said(verb, program, "--format", "md").splitlines()
    assert lines[0] == f"# soscope {name}"
    assert len(lines) > 4
    for key, value in document.items():
        if isinstance(value, int) and not isinstance(value, bool):
            assert any(line.startswith(f"- {key.replace('_', ' ')}: ") for line in lines)
    text = said(verb, program, "--format", "text")
    assert text
    assert not text.startswith(("{", "#"))


def test_a_page_of_calls(tmp_path: Path) -> None:
    program, file = str(build.program("calls")), str(tmp_path / "run.sosr")
    out = tmp_path / "live"
    words = ["-q", "--from", "all", "--format", "md", "-o", str(out), "--record", file]
    done = run([*SOSCOPE, *words, "--", program])
    assert done.returncode == 0
    page = out.read_text()
    # what the program and its library say that they called
    truth: Counter[str] = Counter()
    for line in done.stderr.splitlines():
        _, symbol, calls, *_ = line.split()
        truth[symbol] += int(calls)
    counted: Counter[str] = Counter()
    section = page.partition("## Functions")[2].partition("\n## ")[0]
    for line in section.splitlines():
        cells = [cell.strip(" `") for cell in line.strip("|").split("|")]
        if cells[0] in truth:
            counted[cells[0]] += int(cells[1].replace(",", ""))
    assert counted["f0"] == truth["f0"]
    assert counted["f1"] == truth["f1"]
    shown = run([*REPORT, "--format", "md", file]).stdout
    assert shown == page
    events = [json.loads(line) for line in run([*REPORT, "--json", file]).stdout.splitlines()]
    durations = [event["duration_ns"] or 0 for event in events if event["type"] == "call"]
    assert f"- totals calls: {len(durations):,}\n" in page
    longest = max(durations)
    slowest = page.partition("## Slowest")[2].splitlines()[4]
    assert slowest.startswith(f"| {longest / 1000:.3f} µs |" if longest < 10**6 else "| ")


def test_forms_that_are_two_are_refused() -> None:
    for words in (["map", "--json", "--format", "md", "x"], ["doctor", "--format", "xml"]):
        done = run([sys.executable, "-m", "soscope", *words])
        assert done.returncode == 2
        assert "--format" in done.stderr
