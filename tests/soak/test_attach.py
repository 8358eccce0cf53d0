# SPDX-License-Identifier: Apache-2.0
"""The agent goes in and out of running programs two hundred times, and nobody notices."""

from __future__ import annotations

import random
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.machines.tools import need
from tests.support.processes import attached
from tests.support.processes.launching import environment
from tests.support.processes.run import run
from tests.support.services import postgres
from tests.support.targets import build
from tests.support.time.patience import limit, until

pytestmark = pytest.mark.soak

CYCLES = 200
MODES = (
    ["--count-only", "--from", "all"],
    ["-c", "--from", "all"],
    ["--from", "all", "--record", "{}"],
    ["-c", "-e", "malloc@MAIN,free@MAIN"],
)
PYTHON = (
    "import sys, json, ssl, select\nprint('ready', flush=True)\n"
    "while not select.select([0], [], [], 0.001)[0]:\n    json.dumps(list(range(100)))\n"
    "print('end')"
)
RUBY = (
    "puts 'ready'; $stdout.flush\n"
    "until IO.select([$stdin], nil, nil, 0.001); (1..50).map(&:to_s).join; end; puts 'end'"
)
NODE = (
    "console.log('ready'); setInterval(() => JSON.stringify([1, 2, 3]), 1);"
    "process.stdin.on('data', () => { console.log('end'); process.exit(0) })"
)
# name -> (command, status and output at the end)
PROGRAMS = {
    "asleep": (["{attached}", "0"], (7, "wrong 0\n")),
    "busy": (["{attached}", "4"], (7, "wrong 0\n")),
    "waiting": (["{attached_waits}"], (7, "wrong 0, waited 1\n")),
    "mixed": (["{attached_mixed}"], (7, "wrong 0, some 1\n")),
    "forking": (["{forking}"], (7, "wrong 0\n")),
    "python3": (["python3", "-c", PYTHON], (0, "end\n")),
    "this-python": ([sys.executable, "-c", PYTHON], (0, "end\n")),
    "ruby": (["ruby", "-e", RUBY], (0, "end\n")),
    "node": (["node", "-e", NODE], (0, "end\n")),
}


def command(words: list[str]) -> list[str]:
    """Return a command, with what it needs built."""
    first = words[0]
    if first.startswith("{"):
        return [str(build.program(first.strip("{}"))), *words[1:]]
    return [need(first) if shutil.which(first) is None else first, *words[1:]]


@pytest.mark.parametrize("name", PROGRAMS)
def test_cycles(name: str, tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    words, end = PROGRAMS[name]
    with attached.running(command(words)) as process:
        stops = in_and_out(process.pid, tmp_path / "run.sosr")
        assert attached.finish(process)[:2] == end
    record_property("stops", stops)


def test_cycles_on_a_backend_under_load(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    with postgres.folder() as place:
        postgres.cluster(place)
        with postgres.served(place) as server:
            postgres.bench(place, "-i", "-q")
            words = ["-h", str(place), "-U", "bench", "-n", "-c", "3", "-T", "3600", "postgres"]
            client = subprocess.Popen(
                [postgres.tool("pgbench"), *words],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
            try:
                backend = backend_of(place)
                record_property("stops", in_and_out(backend, tmp_path / "run.sosr"))
                assert client.poll() is None
                assert backend == backend_of(place)
            finally:
                client.terminate()
                _, errors = client.communicate(timeout=limit())
            assert not errors
            found = postgres.sums(place)
            transactions, total = found[0].split("|")
            assert int(transactions) > 0
            assert found[1:] == [total] * 3
        assert server.returncode == 0
        log = (place / "log").read_text()
        assert "PANIC" not in log
        assert "terminated by signal" not in log


def backend_of(place: Path) -> int:
    """Return the process that serves the client that came first."""
    query = "select pid from pg_stat_activity where application_name = 'pgbench' order by pid"
    words = [postgres.tool("psql"), "-h", str(place), "-U", "bench", "-At", "-c", query]

    def clients() -> list[str]:
        found = run([*words, "postgres"]).stdout.split()
        return found if len(found) == 3 else []

    return int(until(clients, "three clients are served")[0])


def in_and_out(pid: int, recording: Path) -> str:
    """Trace a process again and again; return how long its threads stood still."""
    stops = []
    before = attached.snapshot(pid, without="libanl")
    for cycle in range(CYCLES):
        mode = [word.format(recording) for word in MODES[cycle % len(MODES)]]
        done = attached.trace(pid, "-v", *mode, "--duration", "20ms")
        assert done.returncode == 0, (cycle, done.stderr)
        found = re.search(r"longest stop (\d+\.\d) ms", done.stderr)
        assert found is not None, done.stderr
        stops.append(float(found[1]))
        assert attached.differences(before, pid, without="libanl") == [], cycle
    return f"median {statistics.median(stops)} ms, longest {max(stops)} ms of {len(stops)}"


def test_kills() -> None:
    chance = random.Random(50)
    with attached.running([build.program("attached"), "4"]) as process:
        before = attached.snapshot(process.pid)
        for _ in range(max(CYCLES // 4, 1)):
            words = attached.words(process.pid, "-c", "--from", "all", "--duration", "200ms")
            tracer = subprocess.Popen(
                words, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            time.sleep(0.1 + chance.random() * 0.5)
            tracer.kill()
            tracer.wait(60)
            done = attached.detach(process.pid)
            assert done.returncode == 0, done.stderr
            assert attached.differences(before, process.pid) == []
        assert attached.finish(process) == (7, "wrong 0\n", "")
