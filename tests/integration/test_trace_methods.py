# SPDX-License-Identifier: Apache-2.0
"""soscope trace of functions that Python calls by method tables."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.support.machines.pythons import DISTRIBUTION
from tests.support.processes.run import soscope
from tests.support.targets.extensions import TABLED, counted, extension


def test_a_trace_shows_them_where_a_library_is_named(tmp_path: Path) -> None:
    extension(DISTRIBUTION, "tabled", tmp_path)
    options = ["-l", "tabled*", "-e", "tabled.M*,tabled.__new__", "-o", str(tmp_path / "trace")]
    done = soscope("trace", *options, "--", DISTRIBUTION, "-c", TABLED, str(tmp_path))
    assert done.returncode == 3
    own = {name: calls for name, calls in counted(done.stdout).items() if ".Made." in name}
    lines = (tmp_path / "trace").read_text().splitlines()
    shown = Counter(line.partition("->")[2].partition("(")[0] for line in lines if "->" in line)
    assert shown == own
    assert "inside" not in done.stderr  # they call each other by their tables, too
    assert f"not hooked in {Path(DISTRIBUTION).resolve().name} (" in done.stderr
    assert "): tabled.__new__\n" in done.stderr
