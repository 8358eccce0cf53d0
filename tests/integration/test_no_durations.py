# SPDX-License-Identifier: Apache-2.0
"""Text without times: calls that wait for nobody have no time of their return, and all is told."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from soscope.instruments.trace.instrument import TraceInstrument
from soscope.instruments.trace.listener import Destination
from soscope.instruments.trace.settings import TraceSettings
from soscope.report.output import Output
from soscope.report.trace.display import TIME_SECONDS, Display
from soscope.report.trace.text import TextListener
from soscope.wire import layout
from tests.support.processes.run import run
from tests.support.processes.tracing import SOSCOPE
from tests.support.targets import build
from tests.support.truth.account import Truth

LINE = re.compile(
    r"(?:\[pid (?P<tid>\d+)\] )?(?:[\d.]+ )?(?:.*->(?P<begun>\w+)\((?P<rest>.*)"
    r"|<\.\.\. (?P<resumed>\w+) resumed>.*)$"
)
UNFINISHED = " <unfinished ...>"


@pytest.mark.every(3)
@pytest.mark.parametrize("options", [(), ("-T",), ("-ttt",)])
def test_interrupted_calls_are_told_in_order(options: tuple[str, ...], tmp_path: Path) -> None:
    """The target's own account says how many; each thread's lines say in what order."""
    facts, output = tmp_path / "facts", tmp_path / "output"
    chosen = ["-q", "-o", str(output), "-e", "memset@MAIN,labs@MAIN,strlen@MAIN", *options]
    program = build.program("brief")
    done = run([*SOSCOPE, *chosen, "--", program], env={"SOSC_TRUTH": str(facts)})
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    truth = Truth.read(facts)
    text = output.read_text()
    lines = [match for line in text.splitlines() if (match := LINE.match(line))]
    tids = list(dict.fromkeys(re.findall(r"^\[pid (\d+)\]", text, re.MULTILINE)))
    # Lines name nobody until a second thread makes one, which names it.
    alone = next((tid for tid in tids[1:]), str(truth.facts[0].pid))
    calls: Counter[str] = Counter()
    resumed: Counter[str] = Counter()
    stacks: dict[str, list[str]] = defaultdict(list)
    for match in lines:  # signals and the end are none
        stack = stacks[match["tid"] or alone]
        if match["begun"]:
            calls[match["begun"]] += 1
            if match["rest"].endswith(UNFINISHED):
                stack.append(match["begun"])
        else:
            assert stack.pop() == match["resumed"], match[0]
            resumed[match["resumed"]] += 1
    assert not any(stacks.values())
    bounds = truth.bounds(followed=False)
    assert calls == {name: low for name, (low, _) in bounds.items()}
    assert resumed["memset"]
    assert calls["labs"] > 10


@pytest.mark.parametrize(
    ("display", "record", "asked"),
    [
        (Display(), None, False),
        (Display(), "x.sosr", True),
        (Display(durations=True), None, True),
        (Display(time=TIME_SECONDS), None, True),
    ],
)
def test_durations_are_asked_for_where_somebody_sees_them(
    display: Display, record: str | None, asked: bool
) -> None:
    listener = TextListener(Output(2, "stderr"), display)
    settings = TraceSettings(["true"], record=record)
    plan = TraceInstrument(settings, listener, Destination()).hooks
    assert plan is not None
    assert bool(plan.flags & layout.PLAN_NO_DURATIONS) is not asked
