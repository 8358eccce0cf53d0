# SPDX-License-Identifier: Apache-2.0
"""Sleep until a child or a traced thread has an event, or a descriptor is readable."""

from __future__ import annotations

import ctypes
import os
import select

from soscope.proc.status import signal

_libc = ctypes.CDLL(None, use_errno=True)


class ChildNews:
    """Gets SIGCHLD, which must be blocked. Other code may take the signal first."""

    __slots__ = ("_descriptor",)

    def __init__(self) -> None:
        mask = (ctypes.c_uint64 * 16)(1 << signal.SIGCHLD - 1)  # sigset_t has 1024 bits
        self._descriptor = int(_libc.signalfd(-1, mask, os.O_NONBLOCK | os.O_CLOEXEC))
        if self._descriptor < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    def wait(self, seconds: float, descriptor: int | None = None) -> None:
        """Sleep for `seconds` at most, until SIGCHLD comes or a descriptor is readable."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        if descriptor is not None:
            poll.register(descriptor, select.POLLIN)
        if any(each == self._descriptor for each, _ in poll.poll(seconds * 1000)):
            try:
                os.read(self._descriptor, 4096)
            except BlockingIOError:
                pass  # it was taken elsewhere

    def close(self) -> None:
        """Close the descriptor. May be called twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
