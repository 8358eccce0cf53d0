# SPDX-License-Identifier: Apache-2.0
"""Begin to trace an emulator whose only thread waits in its stub, if that is possible."""

from __future__ import annotations

import os
import time
from errno import ENOTSUP

from soscope.binfmt.source import ByteSource
from soscope.entry import ptrace
from soscope.entry.isa import arch
from soscope.proc.status import signal

_ATTEMPTS = 50
_ATTEMPT = 0.002  # seconds
_PAGE = 4096


def entry_of_code(memory: ByteSource, code: list[tuple[int, int]]) -> int:
    """Return the address at which an emulator enters translated code, before all of that code.

    `code` are the executable mappings without a file. Raises OSError if it is not found.
    """
    for start, _ in code:
        at = memory.read(start, _PAGE).find(arch.EMULATOR_ENTRY)
        if at >= 0:
            return start + at
    raise OSError(ENOTSUP, "the emulator is of an unknown kind")


def seize_in_stub(tid: int, options: int) -> int:
    """Trace the thread and leave it stopped. Return its descriptor of the stub's socket.

    It waits for soscope in a system call, which is repeated when it goes on, so it has to stop at
    that instruction. Raises OSError if the processor's breakpoints do not work, or if it may not
    be traced. The thread then goes on untraced.
    """
    ptrace.seize(tid, options)
    try:
        return _check_breakpoints(tid)
    except OSError:
        try:
            ptrace.detach(tid)
        except ProcessLookupError:
            pass  # the process was killed
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
    registers = arch.get_registers(tid)  # fails if it has ended; its status then remains
    os.waitpid(tid, ptrace.WALL)
    return registers


def _stops_soon(tid: int) -> bool:
    for _ in range(_ATTEMPTS):
        waited, wait_status = os.waitpid(tid, ptrace.WALL | os.WNOHANG)
        if waited:
            return os.WIFSTOPPED(wait_status) and os.WSTOPSIG(wait_status) == signal.SIGTRAP
        time.sleep(_ATTEMPT)
    return False
