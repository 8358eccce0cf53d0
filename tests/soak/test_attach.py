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
from pathlib import Path

import pytest

from tests.support import attached, build
from tests.support.launching import environment
from tests.support.tools import need

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
def test_cycles(name: str, tmp_path: Path) -> None:
    words, end = PROGRAMS[name]
    stops = []
    with attached.running(command(words)) as process:
        before = attached.snapshot(process.pid)
        for cycle in range(CYCLES):
            mode = [word.format(tmp_path / "run.sosr") for word in MODES[cycle % len(MODES)]]
            done = attached.trace(process.pid, "-v", *mode, "--duration", "20ms")
            assert done.returncode == 0, (cycle, done.stderr)
            found = re.search(r"longest stop (\d+\.\d) ms", done.stderr)
            assert found is not None, done.stderr
            stops.append(float(found[1]))
            assert attached.differences(before, process.pid) == [], cycle
        assert attached.finish(process)[:2] == end
    print(f"{name}: median stop {statistics.median(stops)} ms, longest {max(stops)} ms")


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
