# SPDX-License-Identifier: Apache-2.0
"""What a traced program has more in memory: at most 1 MiB and 64 bytes a call site."""

from __future__ import annotations

from pathlib import Path

from benchmarks import memory
from benchmarks.tools import Tools
from tests.support.tools import need


def test_the_agent_is_small_however_many_call_sites(tmp_path: Path) -> None:
    need("gcc")
    tools = Tools(str(tmp_path), [], "", "")
    tools.build()
    table = memory.measure(tools, 1, lambda _: None)
    seen = {row.name: (row.figure.median, row.goal) for row in table.rows if row.figure}
    assert len(seen) == 6, table.remarks
    assert not {name for name, (extra, goal) in seen.items() if goal and extra > goal}, seen
