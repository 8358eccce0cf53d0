# SPDX-License-Identifier: Apache-2.0
"""Parts of the benchmarks: those whose figures hang on no clock, and an agent of their own."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import hook, inject, layers, memory, patch, prof
from benchmarks.tools import Tools
from tests.support.tools import need

pytestmark = pytest.mark.shares


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Tools:
    need("gcc")
    tools = Tools(str(tmp_path_factory.mktemp("benchmarks")), [], "", "")
    tools.build()
    return tools


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
    table = hook.measure(tools, 1, lambda _: None)
    assert [row.figure is not None for row in table.rows] == [True] * 3, table.remarks


def test_the_agent_is_small_however_many_call_sites(tools: Tools) -> None:
    """At most 1 MiB and 64 bytes a call site."""
    table = memory.measure(tools, 1, lambda _: None)
    seen = {row.name: (row.figure.median, row.goal) for row in table.rows if row.figure}
    assert len(seen) == 6, table.remarks
    assert not {name for name, (extra, goal) in seen.items() if goal and extra > goal}, seen


def test_calls_that_code_reports_can_be_measured(tools: Tools, monkeypatch: Any) -> None:
    monkeypatch.setattr(prof, "_FUNCTIONS", ("leaf",))
    table = prof.measure(tools, 1, 1, lambda _: None)
    assert all(row.figure is not None for row in table.rows), table.remarks
