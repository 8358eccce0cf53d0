# SPDX-License-Identifier: Apache-2.0
"""Processes that were started: which they are, and their end."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans(*, wanted: bool) -> None:
    """Be the parent of descendants whose own has ended, in init's place; or no longer."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(wanted), 0, 0, 0)


def kill(pid: int) -> None:
    """End a process."""
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # it has ended, or is another user's


def kill_group(group: int) -> None:
    """End a process group."""
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # it has ended; as above
