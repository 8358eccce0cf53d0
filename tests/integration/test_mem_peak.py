# SPDX-License-Identifier: Apache-2.0
"""`soscope mem report --peak`: blocks of the moment when most were there, and such mappings."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.processes.run import run
from tests.support.schemas.checked import wrong_members
from tests.support.schemas.mem import REPORT
from tests.support.targets.accounts import SOSCOPE, built, recorded, rows_of

PEAK = """
static pthread_barrier_t barrier;
static void *other(void *unused)
{
    pthread_barrier_wait(&barrier);
    char *p = malloc(3000000);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    free(p);
    return NULL;
}
int main(void)
{
    pthread_t thread;
    char *p, *q;
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&thread, NULL, other, NULL);
    p = malloc(2000000); /* one */
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    free(p);
    q = malloc(1000000); /* after */
    q = realloc(q, 1900000); /* again */
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
    free(q);
    q = malloc(4800000);
    free(q);
    return 0;
}
"""


def test_the_peak_is_the_moment_with_most_bytes(tmp_path: Path) -> None:
    report, _ = recorded(tmp_path, [built("peak.c", PEAK)])
    totals = report["totals"]["native"]
    assert 5_000_000 <= totals["peak_bytes"] < 5_020_000
    shown = run([*SOSCOPE, "mem", "report", "--peak", "--json", str(tmp_path / "run.sosr")])
    peak = json.loads(shown.stdout)
    assert not wrong_members(peak, REPORT)
    rows = rows_of(peak, "peak.c")
    sizes_of = {
        api: sorted(row["bytes"] for row in rows if row["api"] == api)
        for api in {row["api"] for row in rows}
    }
    mapped = peak["totals"]["mapped"]  # stacks of threads, which have a peak of their own
    assert sizes_of.pop("pthread_create") == [mapped["peak_bytes"]]
    assert sizes_of == {"malloc": [2_000_000, 3_000_000]}
    rows = peak["native"]
    assert sum(row["bytes"] for row in rows) == totals["peak_bytes"] + mapped["peak_bytes"]
    assert sum(row["count"] for row in rows) == totals["peak"] + mapped["peak"]
    # the thread's stack is of another moment than the blocks, which is said, and shown
    assert [note for note in peak["notes"] if "of two moments" in note]
    assert not [note for note in report["notes"] if "of two moments" in note]
    text = run([*SOSCOPE, "mem", "report", "--peak", str(tmp_path / "run.sosr")]).stdout
    blocks, _, mappings = text.partition("\nmappings, when most bytes were mapped:\n")
    blocks = blocks.partition("\nblocks, when most bytes of blocks were there:\n")[2]
    apis = [
        [line.split()[-1] for line in part.splitlines() if line[:9].strip().isdigit()]
        for part in (blocks, mappings)
    ]
    assert apis[0][:2] == ["malloc", "malloc"]  # the largest first
    assert "pthread_create" not in apis[0]
    assert apis[1] == ["pthread_create"]
