# SPDX-License-Identifier: Apache-2.0
"""Who else has the memory of a process: a child of vfork(2) until it executes something.

What is changed in such a memory is changed for both, and would stay with the one that soscope
does not know of.
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
# Seconds. Such a child usually executes something at once, but on a busy machine it has to wait for
# a processor first.
_PATIENCE, _PAUSE = 2.0, 0.002

_libc = ctypes.CDLL(None, use_errno=True)


def who_shares(pid: int) -> int:
    """Return the parent or a child that has the same memory, 0 where there is none.

    Waits a moment for one that shares it to execute its own program. Also 0 where the kernel
    does not tell (kcmp(2) needs CONFIG_KCMP, and the right to look at both).
    """
    end = time.monotonic() + _PATIENCE
    while other := shares_now(pid):
        if time.monotonic() > end:
            return other
        time.sleep(_PAUSE)
    return 0


def shares_now(pid: int) -> int:
    """Do the same without waiting."""
    try:
        parent = status.read_stat(pid).parent
    except NoSuchProcess:
        return 0
    for other in (parent, *status.children(pid)[:_MOST_CHILDREN]):
        if other and _has_same_memory(pid, other):
            return other
    return 0


def _has_same_memory(pid: int, other: int) -> bool:
    # of two processes without memory (zombies, threads of the kernel) the answer is "the same"
    same = _libc.syscall(arch.KCMP, pid, other, _KCMP_VM, 0, 0) == 0
    return same and bool(os.path.exists(f"/proc/{other}/exe"))
