# SPDX-License-Identifier: Apache-2.0
"""Processes that have stopped themselves, looked at."""

from __future__ import annotations

import os

from soscope.entry import ptrace
from soscope.entry.isa import arch


def thread_pointer(tid: int) -> int:
    """Return the thread pointer of a thread of a stopped child; it stays stopped."""
    ptrace.seize(tid, 0)
    ptrace.interrupt(tid)
    os.waitpid(tid, ptrace.WALL)
    pointer = arch.get_registers(tid).thread_pointer
    ptrace.detach(tid, 0)
    return pointer
