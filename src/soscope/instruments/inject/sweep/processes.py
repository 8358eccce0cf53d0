# SPDX-License-Identifier: Apache-2.0
"""Adopting orphaned processes, and killing processes."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans(*, wanted: bool) -> None:
    """Adopt descendants whose parent ends, in place of init, or stop doing so."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(wanted), 0, 0, 0)


def kill(pid: int) -> None:
    """Kill a process, unless it has ended or may not be killed."""
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # the process has ended, or belongs to another user


def kill_group(group: int) -> None:
    """Kill a process group, unless it has ended or may not be killed."""
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # the group has ended, or belongs to another user
