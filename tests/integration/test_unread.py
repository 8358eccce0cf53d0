# SPDX-License-Identifier: Apache-2.0
"""Pointers that no function follows: soscope follows none of them either."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.processes.run import run
from tests.support.processes.tracing import SOSCOPE
from tests.support.targets import build
from tests.support.targets.matrix import PLAIN, Cell


@pytest.mark.parametrize("cell", [PLAIN, PLAIN._replace(compiler="musl")], ids=["glibc", "musl"])
def test_pointers_that_are_not_followed_do_no_harm(cell: Cell, tmp_path: Path) -> None:
    program = build.program("unread", cell)
    plain = run([program])
    assert (plain.returncode, plain.stdout) == (0, "done\n"), plain.stderr
    output = tmp_path / "output"
    traced = run([*SOSCOPE, "-q", "-o", output, "--", program])
    assert (traced.returncode, traced.stdout) == (0, "done\n"), traced.stderr
    assert "snprintf(" in output.read_text()
