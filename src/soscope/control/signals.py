# SPDX-License-Identifier: Apache-2.0
"""The signals that soscope takes while it supervises a program.

They are blocked from the launch until all output is written, and taken with sigtimedwait(2). So
soscope waits for signals and for processes in one place, and no signal ends it before its
recording is complete.
"""

from __future__ import annotations

import ctypes
import os
from _thread import allocate_lock

from soscope.proc.status import heeded, signal

# Signals that a user or a supervisor sends to end a program, and others that are passed on.
ENDING = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)
PASSED_ON = (*ENDING, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTSTP)
OWN_SIGNALS = (signal.SIGCHLD, *PASSED_ON)

_SIGACTION = 152  # bytes of glibc's struct sigaction on x86-64; musl's is as large
_FLAGS_AT, _SA_NOCLDWAIT = 136, 2
_IGNORE = 1  # SIG_IGN

_libc = ctypes.CDLL(None, use_errno=True)


class _Children:
    """The action of SIGCHLD that keeps ended children until they are waited for.

    The action belongs to the whole process, and the `signal` module changes it only in the main
    thread. Traces in several threads share it, and the last one restores it.
    """

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._users = 0
        self._before: ctypes.Array[ctypes.c_char] | None = None

    def keep(self) -> None:
        """Keep ended children until they are waited for."""
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._change()

    def _change(self) -> None:
        now = ctypes.create_string_buffer(_SIGACTION)
        _libc.sigaction(signal.SIGCHLD, None, now)
        flags = int.from_bytes(now.raw[_FLAGS_AT : _FLAGS_AT + 4], "little")
        if int.from_bytes(now.raw[:8], "little") == _IGNORE or flags & _SA_NOCLDWAIT:
            self._before = now
            _libc.sigaction(signal.SIGCHLD, ctypes.create_string_buffer(_SIGACTION), None)

    def release(self) -> None:
        """Restore the action if no other trace waits for children.

        Children that have ended meanwhile are reaped, because the kernel would not have kept them
        under the old action.
        """
        with self._lock:
            self._users -= 1
            if self._users or not self.put_back():
                return
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass  # each is reaped
            except ChildProcessError:
                pass  # no child is left

    def put_back(self) -> bool:
        """Restore the action. Return whether it was a different one."""
        before, self._before = self._before, None
        if before is not None:
            _libc.sigaction(signal.SIGCHLD, before, None)
        return before is not None


_children = _Children()


class Signals:
    """The signal mask and the action of SIGCHLD of this thread, to be restored later."""

    __slots__ = ("_mask",)

    def __init__(self) -> None:
        self._mask: set[int] | None = None

    def block(self) -> None:
        """Block OWN_SIGNALS. This thread takes them from here on."""
        if self._mask is None:
            self._mask = set(signal.pthread_sigmask(signal.SIG_BLOCK, OWN_SIGNALS))
            _children.keep()

    def drop(self) -> None:
        """Discard the pending signals, except those that the caller had blocked before."""
        ours = set(OWN_SIGNALS) - (self._mask or set())
        while signal.sigtimedwait(ours, 0):
            pass  # each call discards a pending one

    def restore(self) -> None:
        """Restore the mask and the action. Pending signals are delivered. May be called twice."""
        if self._mask is not None:
            _children.release()
            mask, self._mask = self._mask, None
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def restore_in_child(self) -> None:
        """Restore the mask and the action in a forked process."""
        _children.put_back()
        if self._mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)


def end_is_wanted() -> bool:
    """Return whether a signal is pending that should end soscope."""
    return not signal.sigpending().isdisjoint(heeded(ENDING))


def take_wish_to_end() -> None:
    """Discard the signals that should end soscope, because it is about to end anyway."""
    while signal.sigtimedwait(heeded(ENDING), 0):
        pass  # each call discards a pending one
