# SPDX-License-Identifier: Apache-2.0
"""Parts of the benchmarks: those whose figures hang on no clock, and an agent of their own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import soscope
from benchmarks import heaps, hook, inject, layers, memory, patch, prof, prof_extension
from benchmarks.measure import Failed, timed
from benchmarks.rows import Table
from benchmarks.tools import Tools
from tests.support.machines.tools import need
from tests.support.processes.run import run

pytestmark = pytest.mark.shares
LAYER = ("nothing/nothing.c", "entry/start.c")  # itself, and the table that it is in


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Tools:
    need("gcc")
    tools = Tools(str(tmp_path_factory.mktemp("benchmarks")), [], "", "")
    tools.build()
    return tools


def test_another_layer_compiles_and_one_can_be_measured(tools: Tools) -> None:
    """All but the build of an agent, which takes a compiler longer than a hundred tests."""
    agent = Path(layers.sources(tools), "native")
    words = [need("gcc"), "-std=gnu17", "-fsyntax-only", "-Wall", "-Wextra", "-Werror"]
    words += [f"-I{agent / 'include'}", f"-I{agent / 'agent'}"]
    assert run([*words, *(str(agent / "agent" / name) for name in LAYER)]).returncode == 0
    source = str(Path(soscope.__file__).parents[1])
    assert layers.timer(tools, source, 1, layers.COUNT)() > 0


@pytest.mark.soak
def test_another_layer_can_be_measured(tools: Tools) -> None:
    table = layers.measure(tools, 1, 1, lambda _: None)
    assert [row.figure is not None for row in table.rows] == [True], table.remarks


def test_calls_that_are_not_chosen_can_be_measured(tools: Tools) -> None:
    table = inject.measure(tools, 1, 1, lambda _: None)
    assert [row.figure is not None for row in table.rows] == [True] * 3, table.remarks


def test_replaced_functions_can_be_measured(tools: Tools) -> None:
    table = patch.measure(tools, 1, 1, lambda _: None)
    assert [row.figure is not None for row in table.rows] == [True, True], table.remarks


def test_hooks_can_be_measured(tools: Tools) -> None:
    table = hook.measure(tools, 1, 1, lambda _: None)
    assert [row.figure is not None for row in table.rows] == [True] * 3, table.remarks


def test_the_agent_is_small_however_many_call_sites(tools: Tools) -> None:
    """At most 1 MiB and 64 bytes a call site."""
    table = memory.measure(tools, 1, lambda _: None)
    seen = {row.name: (row.figure.median, row.goal) for row in table.rows if row.figure}
    assert len(seen) == 6, table.remarks
    assert not {name for name, (extra, goal) in seen.items() if goal and extra > goal}, seen


def test_the_start_of_a_python_program_can_be_measured(tools: Tools) -> None:
    table = Table()
    heaps.measure_start(tools, table, 1)
    assert [row.figure is not None for row in table.rows] == [True] * 3, table.remarks
    assert [len(row.peers) for row in table.rows] == [1, 1, 0]


def test_calls_that_code_reports_can_be_measured(tools: Tools, monkeypatch: Any) -> None:
    monkeypatch.setattr(prof, "_FUNCTIONS", ("leaf",))
    rows = [row for row in prof._ROWS if row[0] in ("as loaded", "log") and row[2] == 1]
    monkeypatch.setattr(prof, "_ROWS", rows)
    # it is fetched and built
    monkeypatch.setattr(prof_extension, "measure", lambda *_: Table())
    table = prof.measure(tools, 1, 1, lambda _: None)
    assert all(row.figure is not None for row in table.rows), table.remarks


def test_the_peak_of_a_command_is_its_own() -> None:
    ours = bytearray(1 << 28)
    assert timed(["true"]).peak_kib < len(ours) >> 12
    words = [sys.executable, "-S", "-c", f"bytearray({1 << 27})"]
    assert 1 << 17 < timed(words).peak_kib < len(ours) >> 10
    with pytest.raises(Failed, match="ended with 1"):
        timed(["false"])
