# SPDX-License-Identifier: Apache-2.0
"""Trace a running process with the shortest turns of hooking and putting back that can be."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.processes.launching import environment
from tests.support.time.patience import limit

SHORT = """\
import os, sys
from soscope.control import takeout, attach as turns

def counted(work, path):
    def count(*arguments):
        with open(path, "ab", 0) as file:
            file.write(b".")
        return work(*arguments)
    return count

turns._TURN = 1
takeout._TURN = 0.0
turns._turn = counted(turns._turn, sys.argv[1] + "/in")
takeout._stop_prepared = counted(takeout._stop_prepared, sys.argv[1] + "/out")
sys.argv[:2] = ["soscope"]
from soscope.verbs.main import start
start()
"""


def words(pid: int, folder: Path, duration: str, *options: str) -> list[str]:
    """Return a command that traces a process, with turns as short as can be."""
    found = ["--debug", "trace", "-p", str(pid), "--from", "all", "--duration", duration]
    found += [word.format(folder) for word in options]
    return [sys.executable, "-c", SHORT, str(folder), *found]


class Gate:
    """Where turns wait until the test lets them go."""

    def __init__(self) -> None:
        self.reader, self._writer = os.pipe()

    def let(self, number: int) -> None:
        """Let so many turns go."""
        os.write(self._writer, bytes(number))

    def close(self) -> None:
        """Let all turns go from here on. May be called twice."""
        if self._writer >= 0:
            os.close(self._writer)
            self._writer = -1


@contextmanager
def gated(pid: int, folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], Gate]]:
    """Trace a process, with a gate in front of each turn; yield who traces it, and the gate."""
    gate = Gate()
    wait = f"SimpleNamespace(**vars(turns.time) | {{'sleep': lambda _: os.read({gate.reader}, 1)}})"
    head = f"from types import SimpleNamespace\nturns.time = {wait}\n"
    command = words(pid, folder, "1h", *options)
    command[2] = SHORT.replace("turns._TURN = 1\n", f"turns._TURN = 1\n{head}")
    tracer = subprocess.Popen(
        command,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        pass_fds=[gate.reader],
    )
    try:
        yield tracer, gate
    finally:
        gate.close()
        os.close(gate.reader)
        tracer.kill()
        tracer.communicate(timeout=limit())


def stops(folder: Path) -> int:
    """Return in how many stops was hooked until now."""
    path = folder / "in"
    return path.stat().st_size if path.exists() else 0


def trace(pid: int, folder: Path, *options: str) -> tuple[int, int]:
    """Trace a process for a moment; return the stops it took to hook and to put back."""
    done = subprocess.run(
        words(pid, folder, "50ms", *options),
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=limit(),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "not hooked: its loader was busy" not in done.stderr
    # two files, so two lengths
    return tuple(len((folder / way).read_bytes()) for way in ("in", "out"))  # type: ignore[return-value]
