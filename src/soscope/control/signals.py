# SPDX-License-Identifier: Apache-2.0
"""The signals that soscope takes while it supervises a program.

They are blocked from the launch until all is written down, and taken with sigtimedwait(2). So
waiting for a signal and for a process is one thing, and none of them ends soscope before its
recording has an end.
"""

from __future__ import annotations

import ctypes
import os
from _thread import allocate_lock

from soscope.proc.signals import heeded, signal

# What a user or a supervisor sends to end a program, and what it may be told beside that.
ENDING = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)
PASSED_ON = (*ENDING, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTSTP)
OWN_SIGNALS = (signal.SIGCHLD, *PASSED_ON)

_SIGACTION = 152  # bytes of glibc's struct sigaction on x86-64; musl's is as large
_FLAGS_AT, _SA_NOCLDWAIT = 136, 2
_IGNORE = 1  # SIG_IGN

_libc = ctypes.CDLL(None, use_errno=True)


class _Children:
    """The action of SIGCHLD: children are to be waited for, even if nobody else wants that.

    It is the whole process's, and the `signal` module changes it in the main thread alone.
    Traces in several threads share it: the last one puts it back.
    """

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._users = 0
        self._before: ctypes.Array[ctypes.c_char] | None = None

    def keep(self) -> None:
        """Let ended children stay until they are waited for."""
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
        """Put the action back where nobody else waits for children.

        Those that have ended meanwhile the kernel would not have kept.
        """
        with self._lock:
            self._users -= 1
            if self._users or not self.put_back():
                return
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass  # each is reaped
            except ChildProcessError:
                pass  # none is left

    def put_back(self) -> bool:
        """Put the action back; return whether it was another one."""
        before, self._before = self._before, None
        if before is not None:
            _libc.sigaction(signal.SIGCHLD, before, None)
        return before is not None


_children = _Children()


class Signals:
    """The signal mask and the action of SIGCHLD that this thread had, to be put back."""

    __slots__ = ("_mask",)

    def __init__(self) -> None:
        self._mask: set[int] | None = None

    def block(self) -> None:
        """Block OWN_SIGNALS; this thread takes them from here on."""
        if self._mask is None:
            self._mask = set(signal.pthread_sigmask(signal.SIG_BLOCK, OWN_SIGNALS))
            _children.keep()

    def drop(self) -> None:
        """Take away what has come so far, but for signals that somebody had blocked before."""
        ours = set(OWN_SIGNALS) - (self._mask or set())
        while signal.sigtimedwait(ours, 0):
            pass  # each is taken away

    def restore(self) -> None:
        """Put both back; may be called twice. What has come meanwhile does what it does then."""
        if self._mask is not None:
            _children.release()
            mask, self._mask = self._mask, None
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def restore_in_child(self) -> None:
        """Put both back in a process that was forked."""
        _children.put_back()
        if self._mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)


def end_is_wanted() -> bool:
    """Return whether a signal is waiting that is to end soscope."""
    return not signal.sigpending().isdisjoint(heeded(ENDING))


def take_wish_to_end() -> None:
    """Take such signals away: what they were sent for is about to be done."""
    while signal.sigtimedwait(heeded(ENDING), 0):
        pass  # each is taken away
