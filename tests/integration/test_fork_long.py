# SPDX-License-Identifier: Apache-2.0
"""A signal handler forks while a long buffer is captured: the child writes in no unit of others."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.processes.run import run
from tests.support.processes.tracing import SOSCOPE
from tests.support.targets import build

CALL = re.compile(r'write\(\d+, (?:"child", 5|"x+"\.\.\., 6000)\b')


def test_what_is_shown_is_what_was_written(tmp_path: Path) -> None:
    program, output = build.program("fork_long"), tmp_path / "output"
    chosen = ["-q", "-f", "-s", "4096", "-o", str(output), "-e", "write"]
    done = run([*SOSCOPE, *chosen, "--", program])
    assert done.returncode == 0, done.stderr
    calls = [line for line in output.read_text().splitlines() if "->write(" in line]
    assert len(calls) > 400
    assert not [line for line in calls if not CALL.search(line)]
