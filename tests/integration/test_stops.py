# SPDX-License-Identifier: Apache-2.0
"""A process is stopped (SIGSTOP) at a bad moment: nobody waits for ever; the stop takes place."""

from __future__ import annotations

import sys

import pytest

from tests.support.processes.run import run
from tests.support.processes.tracing import SOSCOPE
from tests.support.targets import build
from tests.support.time.patience import limit

CHILDREN = 60
# Each program but the first is stopped in the middle of its remote system calls.
STOP = """\
import os, signal, sys
from soscope.entry.agent.install import Install

pids = []
def stop_and_map(self, *arguments):
    pids.append(self.tracee.tid)
    if len(pids) > 1:
        os.kill(pids[-1], signal.SIGSTOP)
    return map_(self, *arguments)

map_, Install._map = Install._map, stop_and_map
sys.argv[0] = "soscope"
from soscope.verbs.main import start
start()
"""


@pytest.mark.covering(1)
@pytest.mark.parametrize("step", [50, 200, 1000])
@pytest.mark.parametrize("mode", [["-c"], ["--count-only"], []], ids=["times", "count", "text"])
def test_children_that_are_stopped_while_the_agent_goes_in(mode: list[str], step: int) -> None:
    words = [str(build.program("stopping")), str(CHILDREN), str(step)]
    done = run([*SOSCOPE, "-f", *mode, "-o", "/dev/null", "--", *words], timeout=limit(120))
    assert (done.returncode, done.stdout) == (3, f"ended {CHILDREN}, right\n"), done.stderr


@pytest.mark.parametrize("mode", [["-c"], []], ids=["times", "text"])
def test_a_stop_in_the_middle_takes_place_afterwards(mode: list[str]) -> None:
    words = [str(build.program("stopping")), "5", "0", "stopped-by-others"]
    trace = ["trace", "-f", *mode, "-o", "/dev/null", "--", *words]
    done = run([sys.executable, "-c", STOP, *trace], timeout=limit(120))
    assert (done.returncode, done.stdout) == (3, "ended 5, right\n"), done.stderr
