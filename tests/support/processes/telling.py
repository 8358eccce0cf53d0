# SPDX-License-Identifier: Apache-2.0
"""Programs that say their addresses and then wait to be looked at."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.support.time.patience import limit


@contextlib.contextmanager
def running(*command: str | Path) -> Iterator[tuple[int, dict[str, list[int]]]]:
    """Run a program that says its addresses; give process id and name -> addresses."""
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said: dict[str, list[int]] = {}
    try:
        for line in process.stdout:
            name, _, addr = line.rpartition(" ")
            if name == "end":
                break
            said.setdefault(name, []).append(int(addr, 16))
        assert said
        yield process.pid, said
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=limit())
        process.stdout.close()
