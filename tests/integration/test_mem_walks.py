# SPDX-License-Identifier: Apache-2.0
"""Walks over stacks whose frames lead out of the stack: the program lives, and is told no lies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes.run import run
from tests.support.targets import build
from tests.support.targets.accounts import SOSCOPE

WAYS = {
    "exact": ["mem", "run", "--blocks", "--mode", "exact"],
    "sample": ["mem", "run", "--blocks", "--mode", "sample=1"],
    "trace": ["trace", "-k", "-e", "malloc"],
}


def hostile(name: str, *flags: str) -> str:
    """Return a program of tests/targets/hostile."""
    words = ["gcc", "-O1", "-g", "-pthread", *flags]
    return str(build.compiled(name, words, [build.TARGETS / "hostile" / f"{name}.c"]))


def stacks(path: Path, sizes: tuple[int, ...]) -> dict[int, list[str]]:
    """Return the functions of the stack of each block of such a size that is alive."""
    shown = run([*SOSCOPE, "mem", "report", "--json", str(path)])
    report: dict[str, Any] = json.loads(shown.stdout)
    return {
        row["bytes"]: [frame["symbol"] for frame in row["frames"]]
        for row in report["native"]
        if row["bytes"] in sizes
    }


@pytest.mark.covering(1)
@pytest.mark.parametrize("stack", ["thread", "coroutine", "signal"])
@pytest.mark.parametrize("way", WAYS)
def test_a_frame_pointer_to_a_buffer_above_the_stack(way: str, stack: str, tmp_path: Path) -> None:
    file = tmp_path / "out"
    words = [*SOSCOPE, *WAYS[way], "-o", str(file), "--", hostile("frame_pointer"), stack]
    done = run(words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr
    if way == "trace":
        text = file.read_text()
        assert text.count("(allocate_with+") == 2
        assert "never_called" not in text or stack != "thread"
        return
    found = stacks(file, (1000, 1001))
    assert [names[0] for names in found.values()] == ["allocate_with"] * 2
    assert found[1001] == ["allocate_with"]  # the buffer has gone
    if stack == "thread":
        assert found[1000] == ["allocate_with"]
