# SPDX-License-Identifier: Apache-2.0
"""What scanf has stored, where calls lie in each other, are left, or are made at once."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes.run import soscope
from tests.support.targets import build
from tests.support.targets.matrix import PLAIN, Cell

ROUNDS, THREADS, LEFT = 100, 3, 20  # of tests/targets/scanned.c


@pytest.mark.parametrize("cell", [PLAIN, PLAIN._replace(compiler="musl")], ids=["glibc", "musl"])
def test_each_call_has_stored_its_own_values(cell: Cell, tmp_path: Path) -> None:
    program = build.program("scanned", cell)
    live, later, recording = tmp_path / "live", tmp_path / "later", tmp_path / "recording"
    words = ["-f", "--json", "-e", "*scanf"]
    traced = soscope("trace", *words, "--record", recording, "-o", live, "--", program)
    assert (traced.returncode, traced.stdout) == (0, "done\n"), traced.stderr
    assert "was not kept" not in traced.stderr
    assert soscope("report", "--json", "-o", later, recording).returncode == 0
    calls = [call for call in map(json.loads, live.read_text().splitlines()) if "args" in call]
    again = [call for call in map(json.loads, later.read_text().splitlines()) if "args" in call]
    assert sorted(map(shown, again)) == sorted(map(shown, calls))
    seen: Counter[object] = Counter()
    for call in calls:
        stored = [argument["out"]["value"] for argument in call["args"] if "out" in argument]
        if not call["symbol"].endswith("sscanf"):
            seen[tuple(stored)] += 1
            continue
        number, word, *real = call["args"][0]["value"].split()
        assert [int(number), word, *map(float, real)] == stored
        seen["inside" if word == "inner" else "thread"] += 1
    wanted = {(43, "outer"): 2, (): LEFT, "inside": LEFT + 2, "thread": ROUNDS * THREADS}
    assert seen == wanted


def shown(call: dict[str, Any]) -> str:
    """Return what two reports of one call have in common."""
    return re.sub(r"0x[0-9a-f]+", "0x", json.dumps([call["symbol"], call["args"], call["tid"]]))
