# SPDX-License-Identifier: Apache-2.0
"""Many calls at once in one thread, on stacks of their own: nothing is shown that is not so."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.support.processes.run import run
from tests.support.processes.tracing import SOSCOPE, is_whole
from tests.support.targets import build

COUNT = 40
NEAR = 128  # KiB between stacks, as many coroutine libraries have them
FAR = 1 << 20  # KiB: a distance at which all of them want the same places of the agent's table


def traced(*options: str, apart: int) -> tuple[Counter[str], str, str]:
    """Return what the coroutines say that they read, the trace and the notes."""
    program = str(build.program("coroutines"))
    out = Path(options[options.index("-o") + 1])
    done = run([*SOSCOPE, *options, "-e", "fread", "--", program, str(COUNT), str(apart)])
    assert done.returncode == 0, done.stderr
    said = re.findall("^read (<.*>)$", done.stdout, re.MULTILINE)
    assert len(said) == 3 * COUNT
    return Counter(said), out.read_text(), done.stderr


def test_what_a_call_filled_in_is_known_on_stacks_side_by_side(tmp_path: Path) -> None:
    said, text, notes = traced("-o", str(tmp_path / "out"), apart=NEAR)
    shown = re.findall(r'"(<\d+>)", 1, 6, 0x[0-9a-f]+\) += 6$', text, re.MULTILINE)
    assert Counter(shown) == said
    assert "nil" not in text
    assert is_whole(notes)


def test_what_a_call_filled_in_is_no_null_where_its_place_is_not_known(tmp_path: Path) -> None:
    said, text, notes = traced("-o", str(tmp_path / "out"), apart=FAR)
    shown = Counter(re.findall(r'"(<\d+>)", 1, 6, 0x[0-9a-f]+\) += 6$', text, re.MULTILINE))
    assert shown <= said
    assert "nil" not in text
    [without] = re.findall(r"(\d+) events dropped: arguments that a call filled in", notes)
    # stacks 4 GiB apart look like one to whoever reads the stream: some ends are nobody's
    assert 0 < int(without) <= 3 * COUNT - shown.total()
    assert "complete" not in notes


@pytest.mark.parametrize("apart", [NEAR, FAR])
def test_each_return_is_timed_or_said_not_to_be(apart: int, tmp_path: Path) -> None:
    said, text, notes = traced("-c", "--json", "-o", str(tmp_path / "out"), apart=apart)
    document = json.loads(text)
    [row] = document["rows"]
    assert row["calls"] == said.total()
    dropped = document["totals"]["dropped"]
    # the times of all that were timed: none of them is below the shortest or above the longest
    timed = row["calls"] - dropped
    assert timed * row["min_ns"] <= row["total_ns"] <= timed * row["max_ns"]
    assert is_whole(notes) == (dropped == 0)
    assert (dropped > 0) == (apart == FAR)
