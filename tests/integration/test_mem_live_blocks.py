# SPDX-License-Identifier: Apache-2.0
"""Which native blocks of a running program become more, against the program's own account."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from typing import Any

import pytest

from tests.integration.test_mem_live import LATE, LIVE, watch_tables
from tests.integration.test_mem_snapshot import SERVE, serving
from tests.support.processes.attached import differences, running, snapshot
from tests.support.processes.run import besides_cost, kill
from tests.support.targets.accounts import PRELUDE, built
from tests.support.targets.survivors import soscope
from tests.support.time.patience import limit, until

# SIGUSR1: say how many blocks have been left, SIGUSR2: end
GROWING = """
static void *volatile left, *volatile ring[10], *volatile area;
static volatile sig_atomic_t asks, ends;
static void ask(int number) { asks = 1; }
static void end(int number) { ends = 1; }
static __attribute__((noinline)) void leave(void)
{
    left = malloc(77); /* leaves */
}
int main(void)
{
    int count = 0;
    signal(SIGUSR1, ask);
    signal(SIGUSR2, end);
    write(1, "ready\\n", 6);
    while (!ends) {
        leave();
        count++;
        free(ring[count % 10]);
        ring[count % 10] = malloc(1000); /* turns over */
        free(malloc(count % 50)); /* goes at once */
        if (asks) {
            char text[100];
            asks = 0;
            write(1, text, snprintf(text, sizeof text, "%d\\n", count));
        }
        usleep(1000);
    }
    return 7;
}
"""
LINES = {
    line.split("/* ")[1].split(" */")[0]: number
    for number, line in enumerate((PRELUDE + GROWING).splitlines(), 1)
    if "; /* " in line
}


def count_of(process: subprocess.Popen[str]) -> int:
    """Ask the program how many blocks it has left."""
    process.send_signal(signal.SIGUSR1)
    assert process.stdout is not None
    return int(process.stdout.readline())


def live(*words: str) -> dict[str, Any]:
    done = soscope("mem", "live", *words, "--json")
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    assert list(document) == ["schema", "pid", "what", "seconds", "rows", "notes"]
    assert (document["schema"], document["what"]) == ("soscope/mem-live/1", "blocks")
    return document


@pytest.mark.every(2)
@pytest.mark.parametrize("has_lines", [True, False])
def test_what_grows_is_what_is_left(has_lines: bool) -> None:
    program = built("growing.c", GROWING, *([] if has_lines else ["-g0"]))
    with running([program]) as process:
        slots = snapshot(process.pid)

        def grown() -> tuple[dict[str, Any], int] | None:
            """Return what is told of some turns, and how many blocks the program left in them."""
            before = count_of(process)
            document = live("-p", str(process.pid), "--duration", "1500ms")
            assert document["seconds"] >= 1.4
            left = count_of(process) - before
            most = max((row["count"] for row in document["rows"]), default=0)
            return (document, left) if most > 10 else None

        document, left = until(grown, "the program leaves some blocks")
        assert differences(slots, process.pid) == []
        first, *others = document["rows"]
        assert first["count"] <= left
        assert first["bytes"] == 77 * first["count"]
        minutes = document["seconds"] / 60
        assert first["count_per_minute"] == pytest.approx(first["count"] / minutes, rel=0.01)
        assert first["bytes_per_minute"] == pytest.approx(first["bytes"] / minutes, rel=0.01)
        assert [frame["symbol"] for frame in first["frames"]][:2] == ["leave", "main"]
        assert first["type"] == "malloc"
        if has_lines:
            assert os.path.basename(first["file"]) == "growing.c"
            assert first["line"] == LINES["leaves"]
            assert [row["count"] for row in others if row["line"] == LINES["turns over"]] == [10]
            assert LINES["goes at once"] not in [row["line"] for row in others if row["count"] > 1]
        else:
            assert first["file"].startswith("growing!leave+0x")
            assert first["line"] == 0
        assert any("before soscope came" in note for note in document["notes"])
        process.send_signal(signal.SIGUSR2)
        assert process.wait(limit()) == 7


def test_tables_in_one_place_until_a_signal() -> None:
    ours, theirs = pty.openpty()
    with running([built("growing.c", GROWING)]) as process:
        before = snapshot(process.pid)
        words = [*LIVE, "-p", str(process.pid), "--every", "200ms", "--limit", "1"]
        watcher = subprocess.Popen(
            words, stdout=theirs, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        os.close(theirs)
        try:
            watch_tables(ours, watcher, f"growing.c:{LINES['leaves']}:malloc")
            os.killpg(watcher.pid, signal.SIGINT)  # as a terminal does
            _, err = watcher.communicate(timeout=limit())
        finally:
            kill(watcher)
            os.close(ours)
        assert (watcher.returncode, besides_cost(err)) == (0, "")
        assert differences(before, process.pid) == []
        assert process.poll() is None


@pytest.mark.every(2)
@pytest.mark.parametrize("every", ["1ms", "50ms"])  # the first look may come before the recording
def test_nobody_reads_any_more(every: str) -> None:
    with running([built("growing.c", GROWING)]) as process:
        before = snapshot(process.pid)
        words = [*LIVE, "-p", str(process.pid), "--every", every]
        watcher = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            assert watcher.stdout is not None
            assert watcher.stdout.readline().startswith(f"process {process.pid}: ")
            watcher.stdout.close()
            assert watcher.wait(limit()) == 1
        finally:
            kill(watcher)
        assert differences(before, process.pid) == []


def test_a_process_that_ends_meanwhile() -> None:
    with running([built("growing.c", GROWING)]) as process:
        words = [*LIVE, "-p", str(process.pid), "--every", "100ms"]
        watcher = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            assert watcher.stdout is not None
            assert watcher.stdout.readline().startswith(f"process {process.pid}: ")
            process.send_signal(signal.SIGUSR2)
            assert process.wait(limit()) == 7
            _, err = watcher.communicate(timeout=limit())
        finally:
            kill(watcher)
        assert watcher.returncode == 4
        assert f"process {process.pid} has ended" in err
        assert "Traceback" not in err


def test_blocks_of_a_python_program_stand_at_its_lines() -> None:
    with serving("grow") as process:

        def late() -> list[tuple[str, int]]:
            document = live("-p", str(process.pid), "--blocks", "--duration", "1s")
            places = [(row["file"], row["line"]) for row in document["rows"]]
            return [place for place in places if place == (str(SERVE), LATE)]

        assert (str(SERVE), LATE) in until(late, "the list becomes longer")
