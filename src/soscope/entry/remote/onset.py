# SPDX-License-Identifier: Apache-2.0
"""Begins to trace an emulator whose only thread waits in its stub, and sees that it can be done."""

from __future__ import annotations

import os
import time
from errno import ENOTSUP

from soscope.binfmt.source import ByteSource
from soscope.entry import ptrace
from soscope.entry.isa import arch
from soscope.proc.signals import signal

_ATTEMPTS = 50
_ATTEMPT = 0.002  # seconds
_PAGE = 4096


def entry_of_code(memory: ByteSource, code: list[tuple[int, int]]) -> int:
    """Return where an emulator enters translated code; that lies before all of it.

    `code` are mappings that are executable, and of no file. Raises OSError where it is not known.
    """
    for start, _ in code:
        at = memory.read(start, _PAGE).find(arch.EMULATOR_ENTRY)
        if at >= 0:
            return start + at
    raise OSError(ENOTSUP, "the emulator is of an unknown kind")


def seize_in_stub(tid: int, options: int) -> int:
    """Trace the thread, and leave it stopped; return its number of the stub's socket.

    It waits for us in a system call, which is made again when it goes on: it has to stop at that
    instruction. Raises OSError where the processor's breakpoints do not work, or it may not be
    traced; the thread goes on untraced then.
    """
    ptrace.seize(tid, options)
    try:
        return _check_breakpoints(tid)
    except OSError:
        try:
            ptrace.detach(tid)
        except ProcessLookupError:
            pass  # killed
        raise


def _check_breakpoints(tid: int) -> int:
    for _ in range(_ATTEMPTS):
        registers = _interrupted(tid)
        if arch.waits(registers):
            break
        ptrace.resume(tid)
        time.sleep(_ATTEMPT)
    call = registers.pc - len(arch.SYSCALL)
    arch.stop_at(tid, call)
    ptrace.resume(tid)
    has_stopped = _stops_soon(tid)
    registers = arch.get_registers(tid) if has_stopped else _interrupted(tid)
    arch.stop_at(tid)
    if not has_stopped or registers.pc != call:
        raise OSError(ENOTSUP, "the processor's breakpoints do not work")
    return arch.arguments(registers)[0]


def _interrupted(tid: int) -> arch.Registers:
    ptrace.interrupt(tid)
    os.waitid(os.P_PID, tid, os.WEXITED | os.WSTOPPED | os.WNOWAIT | ptrace.WALL)
    registers = arch.get_registers(tid)  # not of one that has ended: its status is somebody else's
    os.waitpid(tid, ptrace.WALL)
    return registers


def _stops_soon(tid: int) -> bool:
    for _ in range(_ATTEMPTS):
        waited, wait_status = os.waitpid(tid, ptrace.WALL | os.WNOHANG)
        if waited:
            return os.WIFSTOPPED(wait_status) and os.WSTOPSIG(wait_status) == signal.SIGTRAP
        time.sleep(_ATTEMPT)
    return False
