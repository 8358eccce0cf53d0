# SPDX-License-Identifier: Apache-2.0
"""No test waits for a moment or reads a clock, but for those that clocks.txt names with a reason.

A test waits for a condition: `until` of tests/support/time/patience.py. A sleep or a clock in a
test makes its result depend on how busy the machine is. What a target does inside its own
process is the target's business: this looks at calls that the tests themselves make.

Nor does a test say in seconds how long something may take: `limit` knows that.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
LIST = HERE / "clocks.txt"
CLOCKS = {
    *("sleep", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "time_ns"),
    *("process_time", "process_time_ns", "thread_time", "thread_time_ns", "clock_gettime"),
    *("clock_gettime_ns", "time"),
}
MAY_CALL = re.compile(rf"\btime\.(?:{'|'.join(CLOCKS)})\b|^\s*from time import", re.MULTILINE)
LIMIT = re.compile(r"\btimeout=\d")
# They wait for a condition, or are what is waited by: one place for each kind of wait.
OWN = HERE / "support" / "time"


def calls(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield (function of the module, line) for each call of a clock; "" outside of functions."""
    names = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "time"
        for alias in node.names
        if alias.name in CLOCKS
    }
    for top in tree.body:
        outer = top.name if isinstance(top, ast.FunctionDef | ast.ClassDef) else ""
        for node in ast.walk(top):
            if isinstance(node, ast.Call) and _is_clock(node.func, names):
                yield outer, node.lineno


def _is_clock(function: ast.expr, names: set[str]) -> bool:
    if isinstance(function, ast.Attribute):
        owner = function.value
        return isinstance(owner, ast.Name) and owner.id == "time" and function.attr in CLOCKS
    return isinstance(function, ast.Name) and function.id in names


def listed() -> dict[str, str]:
    """Return the reasons of clocks.txt by `file::function`."""
    rows = [line for line in LIST.read_text().splitlines() if line and not line.startswith("#")]
    return {place: reason.strip() for place, _, reason in (row.partition(" ") for row in rows)}


def test_time_is_not_an_answer() -> None:
    reasons = listed()
    found: dict[str, int] = {}
    numbers: list[str] = []
    for path in sorted(HERE.rglob("*.py")):
        inside = path.relative_to(HERE)
        if inside.parts[0] == "targets" or OWN in path.parents:
            continue
        text = path.read_text()
        if inside.parts[:2] != ("unit", "support"):
            rows = enumerate(text.splitlines(), 1)
            numbers += [f"{inside}:{line}" for line, row in rows if LIMIT.search(row)]
        if MAY_CALL.search(text) is None:
            continue  # a quick answer for most files
        for function, line in calls(ast.parse(text)):
            found[f"{inside}::{function}"] = line
    assert not numbers, f"write timeout=limit(...): {', '.join(numbers)}"
    new = [f"{place} (line {line})" for place, line in found.items() if place not in reasons]
    assert not new, "wait for a condition, or give a reason in tests/clocks.txt: " + ", ".join(new)
    gone = reasons.keys() - found.keys()
    assert not gone, f"tests/clocks.txt names what is not there any more: {sorted(gone)}"
    assert all(reasons.values())


def test_a_clock_is_seen() -> None:
    text = "import time\nfrom time import sleep as nap\n"
    text += "def a():\n    nap(1)\nclass B:\n    def c(self):\n        return time.monotonic()\n"
    text += "time.strftime('%Y')\n"
    assert list(calls(ast.parse(text))) == [("a", 4), ("B", 7)]
