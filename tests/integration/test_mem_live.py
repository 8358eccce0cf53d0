# SPDX-License-Identifier: Apache-2.0
"""What grows in a running Python: a minute, by line; the process is what it was afterwards."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from select import select
from typing import Any

import pytest

from tests.integration.test_mem_snapshot import SERVE, code_and_slots, serving
from tests.support.machines.pythons import few_pythons
from tests.support.processes.attached import tracer_of
from tests.support.processes.run import kill
from tests.support.targets.survivors import soscope
from tests.support.time.patience import limit, until

LATE = next(
    number
    for number, line in enumerate(SERVE.read_text().splitlines(), 1)
    if line.endswith("# late")
)
LIVE = [sys.executable, "-m", "soscope", "mem", "live"]
CLEARED = "\x1b[H\x1b[J"


def was_counting(pid: int) -> bool:
    """Have a process count no more; return whether it did."""
    done = soscope("detach", "-p", str(pid))
    assert done.returncode == 0
    return "no longer counts its objects" in done.stdout


def watch_tables(terminal: int, live: subprocess.Popen[str], wanted: str) -> None:
    """Read what is shown on a terminal until there are three tables, one with what is wanted."""
    shown = [""]

    def are_there() -> bool:
        if select([terminal], [], [], 0)[0]:
            shown[0] += os.read(terminal, 1 << 16).decode()
        return shown[0].count(CLEARED) >= 3 and wanted in shown[0]

    until(are_there, f"three tables with {wanted}", running=live)
    assert shown[0].startswith(CLEARED)


@pytest.mark.every(3)
@pytest.mark.parametrize("python", few_pythons())
def test_the_line_that_grows_comes_first(python: str) -> None:
    with serving("grow", python) as process:
        before = code_and_slots(process.pid)

        def with_new_ones() -> dict[str, Any] | None:
            """Return what is told of a time in which the program made some."""
            done = soscope("mem", "live", "-p", str(process.pid), "--duration", "1s", "--json")
            assert (done.returncode, done.stderr) == (0, "")
            document: dict[str, Any] = json.loads(done.stdout)
            return document if "Kept" in [row["type"] for row in document["rows"]] else None

        document = until(with_new_ones, "the program makes some")
        assert list(document) == ["schema", "pid", "what", "seconds", "rows", "notes"]
        assert (document["schema"], document["pid"]) == ("soscope/mem-live/1", process.pid)
        assert document["seconds"] >= 1
        first = document["rows"][0]
        assert (first["file"], first["line"], first["type"]) == (str(SERVE), LATE, "Kept")
        grown = first["count_per_minute"] * document["seconds"] / 60
        assert 0 < grown <= first["count"] + 0.1
        assert first["bytes"] > 0
        assert first["bytes_per_minute"] > 0
        assert not was_counting(process.pid)
        assert code_and_slots(process.pid) == before


def test_a_process_that_counted_before_goes_on_with_it() -> None:
    with serving("grow") as process:
        assert soscope("mem", "attach", "-q", "-p", str(process.pid)).returncode == 0

        def grown() -> bool:
            words = ("-p", str(process.pid), "--duration", "100ms", "--limit", "1")
            done = soscope("mem", "live", *words)
            assert (done.returncode, done.stderr) == (0, "")
            return f"{SERVE}:{LATE}:Kept" in done.stdout

        until(grown, "the program makes some")
        assert was_counting(process.pid)


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("number", "every"), [(signal.SIGINT, "100ms"), (signal.SIGINT, "1ms"), (signal.SIGTERM, "1ms")]
)
def test_tables_in_one_place_until_a_signal(number: signal.Signals, every: str) -> None:
    """With 1 ms between looks, the signal comes in the middle of one."""
    ours, theirs = pty.openpty()
    with serving("grow") as process:
        words = [*LIVE, "-p", str(process.pid), "--every", every, "--limit", "3"]
        live = subprocess.Popen(words, stdout=theirs, stderr=subprocess.PIPE, text=True)
        os.close(theirs)
        try:
            watch_tables(ours, live, f"{SERVE}:{LATE}:Kept")
            if every == "1ms":
                until(lambda: tracer_of(process.pid), "the next look", running=live)
            live.send_signal(number)
            _, err = live.communicate(timeout=limit())
        finally:
            kill(live)
            os.close(ours)
        assert (live.returncode, err) == (0, "")
        assert not was_counting(process.pid)


# Takes memory that is no object's when it gets a line.
MAPS = """
import mmap, sys
sys.stdout.write("here\\n"); sys.stdout.flush()
sys.stdin.readline()
kept = mmap.mmap(-1, 8 << 20, mmap.MAP_PRIVATE)
kept.write(b"a" * (8 << 20))
sys.stdout.write("there\\n"); sys.stdout.flush()
sys.stdin.readline()
"""


def test_memory_that_is_no_object_is_told() -> None:
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", MAPS], stdin=pipe, stdout=pipe, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    words = [*LIVE, "-p", str(process.pid), "--every", "1ms"]
    try:
        assert process.stdout.readline() == "here\n"
        with subprocess.Popen(words, stdout=pipe, text=True) as live:
            shown = live.stdout
            assert shown is not None
            shown.readline()
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "there\n"
            hint = f"soscope mem live --blocks -p {process.pid}"
            until(lambda: hint in shown.readline(), "the hint", running=live)
            live.send_signal(signal.SIGINT)
            live.communicate(timeout=limit())
            assert live.returncode == 0
    finally:
        kill(process)


def test_a_process_that_ends_meanwhile() -> None:
    with serving("idle") as process:
        words = [*LIVE, "-p", str(process.pid), "--every", "100ms"]
        live = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert live.stdout is not None
        assert live.stdout.readline().startswith(f"process {process.pid}: ")
        process.send_signal(signal.SIGUSR1)
        assert process.wait(limit()) == 0
        _, err = live.communicate(timeout=limit())
        assert live.returncode == 4
        assert f"process {process.pid}" in err
        assert "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["-p", "1", "--json"], 2, "--json is for --duration"),
        (["-p", "1", "--duration", "1s", "--every", "1s"], 2, "--duration prints only once"),
        (["--duration", "1s"], 2, "-p"),
        (["-p", "1", "--blocks", "--gc"], 2, "about objects"),
        (["-p", "999999999", "--duration", "1s"], 4, "no process"),
    ],
)
def test_bad_usage(words: list[str], status: int, said: str) -> None:
    done = soscope("mem", "live", *words)
    assert (done.returncode, done.stdout) == (status, "")
    assert said in done.stderr
