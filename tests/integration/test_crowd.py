# SPDX-License-Identifier: Apache-2.0
"""More threads at once than the ring has chunks: nobody waits for ever, nothing is lost unsaid."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from soscope.recording.reader import RecordingFile
from soscope.recording.sink import EXITS, WHY
from soscope.wire import layout
from tests.support.processes.run import run
from tests.support.processes.tracing import SOSCOPE
from tests.support.targets import build
from tests.support.targets.covering import sizes
from tests.support.time.patience import limit

CALLS = 40  # 256K are 16 chunks


@pytest.mark.every(11)
@pytest.mark.parametrize("policy", ["block", "drop", "overwrite", "stop"])
@pytest.mark.parametrize("calls", [CALLS, 150])
@pytest.mark.parametrize("threads", sizes(100, 300))
def test_threads_that_wait_for_one_another(
    threads: int, calls: int, policy: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    words = [*SOSCOPE, "--json", "-o", str(out), "--buffer", "256K", "-e", "f0"]
    words += ["--when-full", policy, "--", str(build.program("crowd")), str(threads), str(calls)]
    done = run(words)
    assert done.returncode == 0, done.stderr
    assert f"crowd {threads} {calls}" in done.stdout
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    seen = sum(row["type"] == "call" for row in rows)
    lost = sum(row["count"] for row in rows if row["type"] == "dropped")
    made = 2 * threads * calls
    if policy == "block" or calls == CALLS:
        assert (seen, lost) == (made, 0)
    elif policy != "stop":  # a recording that ends does not count what comes later
        assert 0 < seen <= made
        assert lost >= made - seen


def test_a_thousand_threads_do_not_make_soscope_deaf(tmp_path: Path) -> None:
    # a thousand, which hold most chunks of the default buffer all the time
    threads, calls = 1000, 1000
    file = tmp_path / "out.sosr"
    words = [*SOSCOPE, "--record", str(file), "-e", "f0", "--"]
    done = run([*words, str(build.program("crowd")), str(threads), str(calls)], timeout=limit(300))
    assert done.returncode == 0, done.stderr
    assert f"crowd {threads} {calls}" in done.stdout
    with RecordingFile.open(file) as recording:
        kinds: Counter[int] = Counter()
        for piece in recording.chunks():
            if not piece.flags & layout.CHUNK_RETURNED:
                kinds.update(bytes(piece.units)[3 :: layout.UNIT])  # a kind, and 4 bits of an id
        lost = {kind: recording.losses.total(kind) for kind in WHY}
    gone = lost.pop(layout.DROP_READER_GONE)
    del lost[EXITS]  # some returns of what was called before soscope was gone
    # this machine may not let soscope run for a second: what is lost is said, and it goes on
    assert not any(lost.values())
    ours = {layout.UNIT_ENTRY, layout.UNIT_OPEN, layout.UNIT_WHOLE}
    entries = sum(count for byte, count in kinds.items() if byte >> 4 in ours)
    assert entries + gone == 2 * threads * calls
