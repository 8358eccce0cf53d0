# SPDX-License-Identifier: Apache-2.0
"""No method table is hooked as long as a thread is in what the interpreter hashes functions by.

The program's own account of its hashes says whether it was let be: the thread stands between two
instructions of the interpreter's function, behind a signal handler, when soscope comes and goes on.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

from tests.support.machines.pythons import DISTRIBUTION
from tests.support.processes import attached
from tests.support.processes.launching import environment
from tests.support.targets.extensions import extension
from tests.support.time.patience import limit

STUCK = """
import os, sys
sys.path.insert(0, sys.argv[1])
import tabled, stuck
was = hash(tabled.none)
print("ready", flush=True)
print(stuck.hash_slowly(tabled.none) == was == hash(tabled.none), flush=True)
while os.read(0, 1) == b"c":
    tabled.none()
    os.write(1, b"called\\n")
print(hash(tabled.none) == was, flush=True)
"""


def profiler(pid: int) -> subprocess.Popen[str]:
    words = ["prof", "attach", "-p", str(pid), "--boundary", "count", "--json", "-l", "tabled*"]
    started = subprocess.Popen(
        [sys.executable, "-m", "soscope", *words],
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    attached.assert_it_profiles(started, pid)
    return started


def test_a_thread_that_hashes_a_function_is_waited_for(tmp_path: Path) -> None:
    extension(DISTRIBUTION, "tabled", tmp_path)
    extension(DISTRIBUTION, "stuck", tmp_path)
    with attached.running([DISTRIBUTION, "-c", STUCK, str(tmp_path)]) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "inside\n"
        first = profiler(process.pid)
        for word, answer in (("g", "True\n"), ("c", "called\n")):
            process.stdin.write(word)
            process.stdin.flush()
            assert process.stdout.readline() == answer
        first.send_signal(signal.SIGINT)
        out, err = first.communicate(timeout=limit())
        assert "method tables left" in out + err
        assert not any(row["calls"] for row in json.loads(out)["functions"])

        # it has left the function: the next one hooks them
        second = profiler(process.pid)
        process.stdin.write("c")
        process.stdin.flush()
        assert process.stdout.readline() == "called\n"
        second.send_signal(signal.SIGINT)
        out, err = second.communicate(timeout=limit())
        assert "method tables left" not in out + err
        calls = {row["symbol"]: row["calls"] for row in json.loads(out)["functions"]}
        assert calls["tabled.none"] == 1
        assert attached.finish(process) == (0, "True\n", "")
