# SPDX-License-Identifier: Apache-2.0
"""A process that wakes soscope, which has stopped itself because its target is stopped.

If only the target is continued, soscope stays stopped, and a stopped tracer does not resume its
tracees. So a child of soscope checks periodically whether there is something to do.
"""

from __future__ import annotations

import os
import time

from soscope.errors import SoscopeError
from soscope.proc import status
from soscope.proc.status import signal

_PAUSE = 0.05  # seconds between checks
_SOON = 5.0  # seconds in which soscope must have stopped
_STOPPED = "Tt"
_CHILD = 1 << signal.SIGCHLD - 1


def watch(target: int) -> int:
    """Fork the process, which ends when soscope goes on. Return its pid, 0 if there is none.

    It continues soscope when `target` goes on, or when an event of a tracee is pending for
    soscope.
    """
    soscope = os.getpid()
    try:
        child = os.fork()
    except OSError:
        return 0  # soscope stays stopped until it gets SIGCONT
    if child:
        return child
    try:
        os.setpgid(0, 0)  # signals to the job must not stop or continue it
        os._exit(_work(soscope, target))
    except BaseException:  # noqa: BLE001  nothing of soscope's is to run on here
        os._exit(0)


def was_woken(child: int) -> bool:
    """End the process. Return whether it has continued soscope."""
    if not child:
        return False
    try:
        os.kill(child, signal.SIGKILL)
        _, wait_status = os.waitpid(child, 0)
    except (ProcessLookupError, ChildProcessError):
        return False  # another handler of SIGCHLD has waited for it
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
        return "X"  # the process or thread has ended


def _is_told(pid: int) -> bool:
    """Return whether a SIGCHLD is pending for a process."""
    try:
        return bool(int(status.read_status(pid).get("ShdPnd", "0"), 16) & _CHILD)
    except SoscopeError:
        return False  # the process or thread has ended
