# SPDX-License-Identifier: Apache-2.0
"""An agent whose start fails in a running process leaves nothing changed there."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import attached
from tests.support.processes.launching import environment
from tests.support.targets import build
from tests.support.time.patience import limit, until
from tests.support.time.progress import has_run

FAILING = f"""\
import sys
from soscope.entry.tracee import Faulted, Tracee

def call(self, function, *arguments, **words):
    made(self, function, *arguments, **words)
    raise Faulted({int(signal.SIGSEGV)}, function)

made, Tracee.call = Tracee.call, call
sys.argv[0] = "soscope"
from soscope.verbs.main import start
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


# In soscope and its children: one call of a function of the kernel's fails, or all of them.
BROKEN = """\
import os, signal, sys
module, name, first, last = sys.argv[1:5]
of, count = {"os": os, "signal": signal}[module], 0

def call(*arguments):
    global count
    count += 1
    if int(first) <= count <= int(last):
        raise PermissionError(1, "Operation not permitted")
    return made(*arguments)

made = getattr(of, name)
setattr(of, name, call)
sys.argv[:5] = ["soscope"]
from soscope.verbs.main import start
start()
"""

MANY = 1 << 30


@pytest.mark.parametrize(
    ("function", "first", "last"),
    [
        *(("os.waitpid", number, number) for number in (3, 6, 9, 10, 11, 12)),
        ("os.waitpid", 1, MANY),
        ("os.waitpid", 10, MANY),
        ("signal.sigtimedwait", 1, 1),
        ("signal.sigtimedwait", 1, MANY),
    ],
)
def test_a_thread_that_makes_our_calls_outlives_an_error_of_ours(
    function: str, first: int, last: int
) -> None:
    """Somebody may forbid soscope to wait: the thread gets its own registers back all the same."""
    module, name = function.split(".")
    with attached.running([build.program("attached_mixed")]) as process:
        subprocess.run(
            [
                *(sys.executable, "-c", BROKEN, module, name, str(first), str(last)),
                *("trace", "-c", "--duration", "50ms", "-p", str(process.pid)),
            ],
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=attached.LIMIT,
            check=False,
        )
        done = attached.trace(process.pid, "-c", "--duration", "50ms")
        assert done.returncode == 0, done.stderr
        assert attached.finish(process) == (7, "wrong 0, some 1\n", "")


@pytest.mark.parametrize("most", range(8, 13))
def test_who_has_no_descriptor_left_does_not_say_that_the_process_has_ended(most: int) -> None:
    script = f'ulimit -n {most}; exec "$@"'
    words = ["sh", "-c", script, "-", sys.executable, "-m", "soscope", "mem", "snapshot", "-p"]
    with attached.running([build.program("attached_mixed")]) as process:
        looking = subprocess.Popen(
            [*words, str(process.pid)], env=environment(), stderr=subprocess.PIPE, text=True
        )
        # who has enough of them watches the process for ten seconds
        maps, goes_on = Path(f"/proc/{process.pid}/maps"), has_run(process.pid, cpu=0.1)
        until(
            lambda: (
                looking.poll() is not None or ("memfd:soscope" in maps.read_text() and goes_on())
            ),
            "soscope has failed, or the program goes on",
        )
        looking.send_signal(signal.SIGINT)
        _, said = looking.communicate(timeout=limit())
        assert "has ended" not in said
        assert "too many open files" in said or most > 8
        assert attached.finish(process) == (7, "wrong 0, some 1\n", "")
