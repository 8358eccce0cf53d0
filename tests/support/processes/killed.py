# SPDX-License-Identifier: Apache-2.0
"""Kill soscope, or the process that it traces, in the middle of a stop.

The moment is a number of requests of ptrace(2), in the processes of soscope together, and none of
a clock: it is in the middle on every machine.
"""

from __future__ import annotations

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
from soscope.cli.main import start
start()
"""


def requests(log: Path) -> int:
    """Return how many requests have been made that `log` knows of."""
    return log.stat().st_size if log.exists() else 0


def start(
    log: Path, words: Sequence[str], *, number: int = 0, victim: int = 0
) -> subprocess.Popen[str]:
    """Run `soscope words…`, which kills in front of its request `number`, 0 for none of them.

    `victim` is who is killed, 0 for soscope itself. Requests are counted in `log`, a new file.
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
