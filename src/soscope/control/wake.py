# SPDX-License-Identifier: Apache-2.0
"""A process that wakes soscope, which has stopped itself as its target is stopped.

Who continues the target alone continues nobody else, and a tracer that is stopped lets its
tracees go nowhere. So a child looks from time to time whether there is something to do.
"""

from __future__ import annotations

import os
import time

from soscope.errors import SoscopeError
from soscope.proc import status
from soscope.proc.signals import signal

_PAUSE = 0.05  # seconds between looks
_SOON = 5.0  # seconds in which soscope has to stop
_STOPPED = "Tt"
_CHILD = 1 << signal.SIGCHLD - 1


def watch(target: int) -> int:
    """Make the process; it ends when soscope goes on. Returns its pid, 0 if there is none.

    It continues soscope when `target` goes on, or soscope is told of some tracee.
    """
    soscope = os.getpid()
    try:
        child = os.fork()
    except OSError:
        return 0  # soscope stays stopped until somebody continues it
    if child:
        return child
    try:
        os.setpgid(0, 0)  # what stops and continues the job is not for this
        os._exit(_work(soscope, target))
    except BaseException:  # noqa: BLE001  nothing of soscope's is to run on here
        os._exit(0)


def was_woken(child: int) -> bool:
    """End the process; return whether it was it that continued soscope."""
    if not child:
        return False
    try:
        os.kill(child, signal.SIGKILL)
        _, wait_status = os.waitpid(child, 0)
    except (ProcessLookupError, ChildProcessError):
        return False  # somebody else's handler of SIGCHLD has waited for it
    return os.WIFEXITED(wait_status) and os.WEXITSTATUS(wait_status) == 1


def _work(soscope: int, target: int) -> int:
    end = time.monotonic() + _SOON
    has_stopped = False
    while os.getppid() == soscope:
        is_stopped = _state(soscope) in _STOPPED
        has_stopped |= is_stopped
        if has_stopped and not is_stopped:
            return 0
        if not has_stopped and time.monotonic() > end:
            return 0
        if is_stopped and (_state(target) not in _STOPPED or _is_told(soscope)):
            os.kill(soscope, signal.SIGCONT)
            return 1
        time.sleep(_PAUSE)
    return 0


def _state(pid: int) -> str:
    try:
        return status.read_stat(pid).state
    except SoscopeError:
        return "X"  # it has ended


def _is_told(pid: int) -> bool:
    """Return whether a process has a SIGCHLD to take."""
    try:
        return bool(int(status.read_status(pid).get("ShdPnd", "0"), 16) & _CHILD)
    except SoscopeError:
        return False  # it has ended
