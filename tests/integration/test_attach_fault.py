# SPDX-License-Identifier: Apache-2.0
"""An agent whose start fails in a running process leaves nothing changed there."""

from __future__ import annotations

import signal
import subprocess
import sys

from tests.support.processes import attached
from tests.support.processes.launching import environment
from tests.support.targets import build

FAILING = f"""\
import sys
from soscope.entry.stop.tracee import Faulted, Tracee

def call(self, function, *arguments, **words):
    made(self, function, *arguments, **words)
    raise Faulted({int(signal.SIGSEGV)}, function)

made, Tracee.call = Tracee.call, call
sys.argv[0] = "soscope"
from soscope.cli.main import start
start()
"""


def test_what_a_start_has_changed_is_put_back() -> None:
    with attached.running([build.program("attached_mixed")]) as process:
        before = attached.snapshot(process.pid, without="libanl")
        done = subprocess.run(
            [sys.executable, "-c", FAILING, "trace", "-c", "-p", str(process.pid)],
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=attached.LIMIT,
            check=False,
        )
        assert done.returncode == 1, done.stderr
        assert "the agent's start: signal 11" in done.stderr
        assert attached.differences(before, process.pid, without="libanl") == []
        done = attached.trace(process.pid, "-c", "--duration", "50ms")
        assert done.returncode == 0, done.stderr
        assert attached.differences(before, process.pid, without="libanl") == []
        assert attached.finish(process) == (7, "wrong 0, some 1\n", "")
