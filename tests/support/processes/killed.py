# SPDX-License-Identifier: Apache-2.0
"""Kill soscope, or the process that it traces, in the middle of a stop.

The moment is a number of requests of ptrace(2), in the processes of soscope together, and none of
a clock: it is in the middle on every machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support.processes.launching import environment

_SCRIPT = """\
import os, signal, sys
from soscope.entry import ptrace

log = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
number, victim = int(sys.argv[2]), int(sys.argv[3]) or os.getpid()
made = ptrace.request

def request(*words):
    os.write(log, b".")
    if os.fstat(log).st_size == number:
        os.kill(victim, signal.SIGKILL)
    made(*words)

ptrace.request = request
sys.argv[:4] = ["soscope"]
from soscope.verbs.main import start
start()
"""


ANEW = 1_000_000  # more requests than a trace makes


def count_anew(log: Path) -> None:
    """Let the next request be the one behind number `ANEW`."""
    os.truncate(log, ANEW)


def start(
    log: Path, words: Sequence[str], number: int, *, victim: int = 0
) -> subprocess.Popen[str]:
    """Run `soscope words…`, which kills `victim`, 0 for itself, in front of request `number`.

    Requests are counted in `log`, a new file. A trace makes about a hundred when it goes in, and
    a hundred when it goes out; how many more depends on what it finds, and how long that takes.
    """
    log.unlink(missing_ok=True)
    command = [sys.executable, "-c", _SCRIPT, str(log), str(number), str(victim), "--debug", *words]
    return subprocess.Popen(
        command,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
