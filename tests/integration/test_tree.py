# SPDX-License-Identifier: Apache-2.0
"""`--tree`: calls inside of calls, one by one and as sums for each way.

The program calls fcall in fcall, four deep, so often at each depth; what its calls take is compared
with the table of `-c`, which knows nothing of ways.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

from tests.support.processes.run import run
from tests.support.processes.tracing import SOSCOPE
from tests.support.targets import build

REPORT = [sys.executable, "-m", "soscope", "report", "-q"]
# 400 rounds are fcall 1, 2, 3 and 4 deep, a hundred times each; f0 is called twice at the end
DEEP = {1: 400, 2: 300, 3: 200, 4: 100}
F0 = dict.fromkeys((2, 3, 4, 5), 200)


def test_a_tree_of_lines_says_what_is_inside_of_what(tmp_path: Path) -> None:
    program, file = str(build.program("selves")), str(tmp_path / "run.sosr")
    out = tmp_path / "live"
    words = ["-q", "--tree", "-n", "1", "-e", "fcall@MAIN+f0@MAIN", "--record", file]
    done = run([*SOSCOPE, *words, "-o", str(out), "--", program, "0", "400"])
    assert done.returncode == 0, done.stderr
    assert done.stdout == "selves 0\n"
    text = out.read_text()
    assert run([*REPORT, "--tree", "-n", "1", file]).stdout == text

    opened: Counter[tuple[str, int]] = Counter()
    stack: list[str] = []
    for line in text.splitlines():
        name = line.partition(" | ")[2]
        if not name:  # a signal, the end
            continue
        level = len(name) - len(name.lstrip())
        if name.lstrip().startswith("}"):
            assert f"/* {stack.pop()} */" in name
            assert len(stack) == level
            continue
        assert len(stack) == level
        symbol = name.strip().partition("->")[2].partition("(")[0]
        opened[symbol, level + 1] += 1
        if name.endswith("{"):
            stack.append(symbol)
    assert not stack
    wish = {("fcall", depth): calls for depth, calls in DEEP.items()}
    assert opened == wish | {("f0", depth): calls for depth, calls in F0.items()}

    # what is shown of a filter on single calls is the same tree without its other branches
    some = run([*REPORT, "--tree", "--where", "symbol == 'f0' and arg1 == 2", file]).stdout
    assert some.count("f0(") == 400


def test_sums_of_ways_add_up_to_the_table(tmp_path: Path) -> None:
    program, file = str(build.program("selves")), str(tmp_path / "run.sosr")
    out = tmp_path / "live"
    words = ["-q", "--tree", "-c", "--json", "-f", "-e", "fcall@MAIN+f0@MAIN"]
    done = run([*SOSCOPE, *words, "-o", str(out), "--", program, "2", "400"])
    assert done.returncode == 0, done.stderr
    live = json.loads(out.read_text())
    assert live["schema"] == "soscope/trace-tree/1"
    # two threads, the first one and a child do the same
    found = {(row["symbol"], row["depth"] + 1): row["calls"] for row in live["rows"]}
    assert found == {("fcall", depth): 4 * calls for depth, calls in DEEP.items()} | {
        ("f0", depth): 4 * calls for depth, calls in F0.items()
    }

    run([*SOSCOPE, "-q", "-f", "--from", "all", "--record", file, "--", program, "2", "400"])
    ways = json.loads(run([*REPORT, "--tree", "-c", "--json", file]).stdout)
    table = json.loads(run([*REPORT, "-c", "--json", file]).stdout)
    keys = "caller", "callee", "symbol", "version"
    values = "calls", "errors", "self_ns", "total_ns"
    sums: dict[tuple[str, ...], Counter[str]] = {}
    for number, row in enumerate(ways["rows"]):
        assert row["id"] == number
        above = row["above"]
        assert row["depth"] == (0 if above is None else ways["rows"][above]["depth"] + 1)
        key = tuple(row[name] for name in keys)
        sums.setdefault(key, Counter()).update({name: row[name] or 0 for name in values})
    expected = {
        tuple(row[name] for name in keys): {name: row[name] or 0 for name in values}
        for row in table["rows"]
    }
    assert {key: {name: found[name] for name in values} for key, found in sums.items()} == expected
    assert ways["totals"] == table["totals"]

    # each return may have put the cost of a hook into the times of all calls around it
    known = {row["symbol"]: row for row in table["rows"]}
    each = known["f0"]["doubt_ns"] / known["f0"]["calls"]
    inside: Counter[int] = Counter()
    below: Counter[int] = Counter()
    for row in reversed(ways["rows"]):
        at, around, calls = row["id"], row["above"], row["calls"]
        inside[at] += calls
        if around is not None:
            inside[around] += inside[at]
            below[around] += calls
        if row["symbol"] in ("fcall", "f0"):
            assert abs(row["total_doubt_ns"] - each * inside[at]) <= inside[at]
            assert abs(row["doubt_ns"] - each * (calls + below[at])) <= calls + below[at]

    text = run([*REPORT, "--tree", "-c", "--top", "5", file]).stdout.splitlines()
    assert len(text) == 2 + 5 + 1 + 2
    assert sum(int(line.split()[2]) for line in text[2:8]) == ways["totals"]["calls"]
