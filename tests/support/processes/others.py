# SPDX-License-Identifier: Apache-2.0
"""Run soscope as somebody else: a user with no rights at all."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

from tests.support.machines.tools import hides_processes, need, not_here
from tests.support.processes.run import run

NOBODY = 65534


def drop() -> list[str]:
    """Return words that run a command as that user; only root can."""
    return [need("setpriv"), f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]


def as_nobody(folder: Path) -> list[str]:
    """Return words that run soscope as another user, who can read its code.

    `folder` is where his files are: `public_path`. Those of `tmp_path` are closed to him anew
    whenever another run of pytest begins.
    """
    for path in (folder, *folder.parents):
        if not path.stat().st_mode & stat.S_IXOTH:
            not_here(f"another user cannot enter {path}")
    for python in (sys.executable, "/usr/bin/python3"):
        words = [*drop(), "/usr/bin/env", python, "-m", "soscope"]
        if os.path.exists(python) and run([*words, "--help"]).returncode == 0:
            return words
    not_here("another user cannot run this interpreter")
    return []


def assert_refused(done: subprocess.CompletedProcess[str], why: str) -> None:
    """Make sure that somebody without rights was told `why` a process is not his to look at.

    Where /proc hides such processes from him, he is told that there is none.
    """
    if hides_processes():
        assert done.returncode == 4, done.stderr
        assert "no process" in done.stderr
    else:
        assert done.returncode == 3, done.stderr
        assert why in done.stderr
