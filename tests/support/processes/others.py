# SPDX-License-Identifier: Apache-2.0
"""Run soscope as somebody else: a user with no rights at all."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

from tests.support.machines.tools import need, not_here
from tests.support.processes.run import run

NOBODY = 65534


def drop() -> list[str]:
    """Return words that run a command as that user; only root can."""
    return [need("setpriv"), f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]


def as_nobody(folder: Path) -> list[str]:
    """Return words that run soscope as another user, who can read its code."""
    for path in (folder, *folder.parents):
        if path.stat().st_uid == os.getuid() and not path.stat().st_mode & stat.S_IXOTH:
            path.chmod(path.stat().st_mode | 0o055)
    for python in (sys.executable, "/usr/bin/python3"):
        words = [*drop(), "/usr/bin/env", python, "-m", "soscope"]
        if os.path.exists(python) and run([*words, "--help"]).returncode == 0:
            return words
    not_here("another user cannot run this interpreter")
    return []
