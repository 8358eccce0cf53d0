# SPDX-License-Identifier: Apache-2.0
"""A thread in whose place calls are made."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from soscope.process.stop.borrowed import Borrowed
from soscope.process.stop.stopping import Threads
from soscope.process.stop.tracee import Gone


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that is stopped, and let it go on."""
    with Borrowed(process.pid) as tracee:
        process.kill()
        while True:
            tracee.run_to_trap(step=True)


def test_one_that_is_killed_meanwhile_is_gone_and_nothing_else() -> None:
    words = [sys.executable, "-c", "import time; time.sleep(60)"]
    with subprocess.Popen(words) as process:
        threads = Threads(process.pid)
        try:
            threads.stop()
        except PermissionError:
            process.kill()
            raise
        with pytest.raises(Gone):
            kill(process)
        threads.resume()
    assert not os.path.exists(f"/proc/{process.pid}/exe")
