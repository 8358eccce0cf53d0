# SPDX-License-Identifier: Apache-2.0
"""Calls that instrumented code reports are counted as the program counts them itself."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support import reported

LIBRARY = "libreported.so"
NAMES = ("leaf", "mid", "fib", "even", "odd")
WAYS = [
    ("gcc", "cyg", "-O0"),  # one enter for each call: nothing is put into its caller
    ("gcc", "pg", "-O0"),
    ("gcc", "fentry", "-O0"),
    ("clang", "cyg", "-O2"),
    ("clang", "pg", "-O2"),
    ("clang", "fentry", "-O2"),
]


def own_counts(account: reported.Account) -> dict[int, dict[str, int]]:
    rows = [json.loads(line) for line in account.out.splitlines()]
    return {row["tid"]: {name: row[name] for name in NAMES} for row in rows}


def self_ticks(nodes: list[dict[str, Any]], at: int) -> int:
    """Add up what a node and all below it took themselves."""
    below = [index for index, node in enumerate(nodes) if node["parent"] == at]
    return int(nodes[at]["self"]) + sum(self_ticks(nodes, index) for index in below)


@pytest.mark.parametrize(("compiler", "hooks", "opt"), WAYS, ids=lambda word: word)
@pytest.mark.parametrize("mode", ["count", "time"])
def test_calls_are_those_that_threads_count_themselves(
    mode: str, compiler: str, hooks: str, opt: str
) -> None:
    command = reported.program("reported", hooks, compiler, opt)
    account = reported.observe(mode, [*command, "200", "2"])
    assert account.status == 3
    truth = own_counts(account)
    assert len(truth) == 2
    for tid, counts in truth.items():
        seen = account.calls(LIBRARY, tid)
        assert {name: seen.get(name) for name in NAMES} == counts
    assert all(thread["dropped"] == thread["left"] == 0 for thread in account.threads)
    for thread in account.threads if mode == "time" else ():
        nodes = thread["nodes"]
        assert all(node["timed"] == node["calls"] for node in nodes)
        roots = [at for at, node in enumerate(nodes) if node["parent"] < 0]
        # each tick of a root is some node's own
        assert [self_ticks(nodes, at) for at in roots] == [nodes[at]["total"] for at in roots]
