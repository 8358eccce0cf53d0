# SPDX-License-Identifier: Apache-2.0
"""What is slow to import is not imported for a short program: it would wait for that at its end."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.processes.run import run

SLOW = {"numpy", "dataclasses", "inspect", "ast", "subprocess", "typing", "collections.abc"}
SLOW |= {"re", "enum", "json", "threading"}


@pytest.mark.parametrize(
    "words",
    [
        ["--blocks", "--", "true"],
        ["--blocks", "--", "/usr/bin/python3", "-c", "pass"],
        ["--objects", "--", "/usr/bin/python3", "-c", "pass"],
    ],
)
def test_a_short_program(words: list[str], tmp_path: Path) -> None:
    soscope = [sys.executable, "-X", "importtime", "-m", "soscope", "mem", "run"]
    done = run([*soscope, "-o", tmp_path / "rec", *words])
    assert done.returncode == 0
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "soscope.inspect.memory" in imported  # it has looked at its memory
    assert SLOW & imported == set()
