# SPDX-License-Identifier: Apache-2.0
"""More threads at once than the ring has chunks: nobody waits for ever, nothing is lost unsaid."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support import build
from tests.support.run import run
from tests.support.tracing import SOSCOPE

THREADS, CALLS = 300, 40  # 256K are 16 chunks


@pytest.mark.parametrize("policy", ["block", "drop", "overwrite", "stop"])
@pytest.mark.parametrize("calls", [CALLS, 300])
def test_threads_that_wait_for_one_another(policy: str, calls: int, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = [*SOSCOPE, "--json", "-o", str(out), "--buffer", "256K", "-e", "f0"]
    words += ["--when-full", policy, "--", str(build.program("crowd")), str(THREADS), str(calls)]
    done = run(words, timeout=60)
    assert done.returncode == 0, done.stderr
    assert f"crowd {THREADS} {calls}" in done.stdout
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    seen = sum(row["type"] == "call" for row in rows)
    lost = sum(row["count"] for row in rows if row["type"] == "dropped")
    made = 2 * THREADS * calls
    if policy == "block" or calls == CALLS:
        assert (seen, lost) == (made, 0)
    elif policy != "stop":  # a recording that ends does not count what comes later
        assert 0 < seen <= made
        assert lost >= made - seen
