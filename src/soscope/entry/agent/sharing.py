# SPDX-License-Identifier: Apache-2.0
"""Detect processes that share a process's memory: a child of vfork(2) until its exec.

A change in shared memory changes both processes, and would remain in the one that soscope does
not know.
"""

from __future__ import annotations

import ctypes
import os
import time

from soscope.entry.isa import arch
from soscope.errors import NoSuchProcess
from soscope.proc import status

_KCMP_VM = 1
_MOST_CHILDREN = 100
# Seconds. Such a child usually calls execve at once, but on a busy machine it first has to wait
# for a processor.
_PATIENCE, _PAUSE = 2.0, 0.002

_libc = ctypes.CDLL(None, use_errno=True)


def who_shares(pid: int) -> int:
    """Return the parent or a child that has the same memory, 0 if there is none.

    Waits a moment for a process that shares it to execute its own program. Returns 0, too, if the
    kernel cannot tell (kcmp(2) needs CONFIG_KCMP, and the right to look at both processes).
    """
    end = time.monotonic() + _PATIENCE
    while other := shares_now(pid):
        if time.monotonic() > end:
            return other
        time.sleep(_PAUSE)
    return 0


def shares_now(pid: int) -> int:
    """Return the same as `who_shares`, without waiting."""
    try:
        parent = status.read_stat(pid).parent
    except NoSuchProcess:
        return 0
    for other in (parent, *status.children(pid)[:_MOST_CHILDREN]):
        if other and _has_same_memory(pid, other):
            return other
    return 0


def _has_same_memory(pid: int, other: int) -> bool:
    # For two processes without memory (zombies, kernel threads) kcmp answers that it is the same.
    same = _libc.syscall(arch.KCMP, pid, other, _KCMP_VM, 0, 0) == 0
    return same and bool(os.path.exists(f"/proc/{other}/exe"))
