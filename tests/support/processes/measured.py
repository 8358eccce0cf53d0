# SPDX-License-Identifier: Apache-2.0
"""Run a program and say how much memory it and its children had at most."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.support.processes.run import run

_RUN = """
import resource, subprocess, sys
status = subprocess.call(sys.argv[2:])
with open(sys.argv[1], "w") as file:
    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=file)
sys.exit(status if status >= 0 else 128 - status)
"""


class Measured(NamedTuple):
    """What a program printed, how it ended, and the peak of its memory in MiB."""

    status: int
    out: str
    err: str
    peak: int


def measured(
    argv: Sequence[str | os.PathLike[str]], folder: Path, *, timeout: float | None = None
) -> Measured:
    """Run `argv`; `folder` is for a file of ours, and where it runs.

    A signal n that kills it gives the status 128 + n. Raises subprocess.TimeoutExpired.
    """
    said = folder / "peak"
    words = [sys.executable, "-I", "-S", "-c", _RUN, said, *argv]
    done = run(words, timeout=timeout, cwd=folder)
    return Measured(done.returncode, done.stdout, done.stderr, int(said.read_text()) >> 10)
