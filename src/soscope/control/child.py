# SPDX-License-Identifier: Apache-2.0
"""The new process between fork and exec: what Python changed is put back, then it waits.

It is to be indistinguishable from a process that a shell forked: the same environment,
descriptors, limits, signal mask and dispositions.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable

from soscope.control import environment
from soscope.control.command import Command, is_text
from soscope.process.signals import signal

_CONTINUE = (errno.ENOENT, errno.ENOTDIR, errno.ESTALE, errno.ENODEV, errno.ETIMEDOUT)
_SHELL = b"/bin/sh"
_FAILED = 127
INHERIT, PRELOAD, BARE = b"i", b"p", b"b"  # what `Child.go` orders
_PR_SET_PDEATHSIG, _PR_GET_PDEATHSIG = 1, 2
# Python ignores these at its start (signal(7): a program would inherit that).
_PYTHON_IGNORES = (signal.SIGPIPE, signal.SIGXFSZ)

_libc = ctypes.CDLL(None, use_errno=True)


class Child:
    """A forked process that waits for `go` before it executes its command."""

    __slots__ = ("_go", "_result", "pid")

    def __init__(self, pid: int, go: int, result: int) -> None:
        self.pid = pid
        self._go = go
        self._result = result

    def go(self, order: bytes) -> None:
        """Let it execute the command.

        INHERIT: with our descriptors. PRELOAD: with the other environment, too. BARE: with
        neither.
        """
        try:
            os.write(self._go, order)
        except BrokenPipeError:
            pass  # it was killed
        finally:
            os.close(self._go)
            self._go = -1

    def exec_error(self) -> int | None:
        """Wait until it has executed the command; return None, or the errno of the failure."""
        if self._result < 0:
            return None
        data = os.read(self._result, 16)
        self.close()
        return int(data) if data else None

    def close(self) -> None:
        """Close the pipes; one that still waits ends."""
        for descriptor in (self._go, self._result):
            if descriptor >= 0:
                os.close(descriptor)
        self._go = self._result = -1


class Signals:
    """The signal mask and the action of SIGCHLD that this process had, to be put back.

    Between `block` and `restore` this thread takes its signals with sigtimedwait(2), so that
    waiting for a signal and for a process is one thing.
    """

    __slots__ = ("_chld", "_mask")

    def __init__(self) -> None:
        self._mask: set[int] | None = None
        self._chld: object = signal.SIG_DFL

    def block(self, numbers: tuple[int, ...]) -> None:
        """Block signals; children are to be waited for, even if we were told to ignore them."""
        if self._mask is None:
            self._mask = set(signal.pthread_sigmask(signal.SIG_BLOCK, numbers))
            self._chld = signal.getsignal(signal.SIGCHLD)
            if self._chld == signal.SIG_IGN:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)

    def restore(self) -> None:
        """Put both back; may be called twice."""
        if self._mask is not None:
            if self._chld == signal.SIG_IGN:
                signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
            self._mask = None

    def restore_actions(self) -> None:
        """Make the dispositions of a new process what they were before Python and we came."""
        for number in signal.valid_signals():
            action = signal.getsignal(number)
            if callable(action) or (number in _PYTHON_IGNORES and action == signal.SIG_IGN):
                signal.signal(number, signal.SIG_DFL)


def fork(
    command: Command,
    descriptors: tuple[int, ...],
    signals: Signals,
    preload: Callable[[list[bytes]], list[bytes]],
) -> Child:
    """Fork a process for `command` that waits; `descriptors` are those it may inherit.

    `preload` makes the environment for the order PRELOAD. Raises OSError where there can be
    no process or no pipe.
    """
    environ = environment.inherited()
    death_signal = ctypes.c_int(0)
    _libc.prctl(_PR_GET_PDEATHSIG, ctypes.byref(death_signal), 0, 0, 0)
    argv = _vector(command.arguments)
    pipes: list[int] = []
    try:
        pipes += os.pipe2(os.O_CLOEXEC)
        pipes += os.pipe2(os.O_CLOEXEC)
        pid = os.fork()
    except OSError:
        for descriptor in pipes:
            os.close(descriptor)
        raise
    go_read, go_write, result_read, result_write = pipes
    if not pid:
        try:
            os.close(go_write)
            signals.restore_actions()
            if death_signal.value:  # who dies with its parent dies with us
                _libc.prctl(_PR_SET_PDEATHSIG, death_signal.value, 0, 0, 0)
            order = os.read(go_read, 1)
            if order:
                for descriptor in () if order == BARE else descriptors:
                    os.set_inheritable(descriptor, True)
                envp = _vector(preload(environ) if order == PRELOAD else environ)
                signals.restore()
                os.write(result_write, b"%d" % _execute(command, argv, envp))
        finally:
            os._exit(_FAILED)
    os.close(go_read)
    os.close(result_write)
    return Child(pid, go_write, result_read)


def _vector(entries: list[bytes]) -> ctypes.Array[ctypes.c_char_p]:
    return (ctypes.c_char_p * (len(entries) + 1))(*entries, None)


def _execute(
    command: Command,
    argv: ctypes.Array[ctypes.c_char_p],
    envp: ctypes.Array[ctypes.c_char_p],
) -> int:
    """Execute the first file that can be, as execvp(3) does; return the errno if none can."""
    failure = errno.ENOENT
    for file in command.files:
        _libc.execve(file, argv, envp)
        number = ctypes.get_errno()
        if number == errno.ENOEXEC and _is_script(file):
            words = _vector([_SHELL, file, *command.arguments[1:]])
            _libc.execve(_SHELL, words, envp)
            number = ctypes.get_errno()
        if number == errno.EACCES:
            failure = number
        elif number not in _CONTINUE:
            return number
        elif failure == errno.ENOENT:
            failure = number
    return failure


def _is_script(file: bytes) -> bool:
    try:
        with open(file, "rb", buffering=0) as opened:
            head = opened.read(256)
    except OSError:
        return False
    return not head.startswith(b"\x7fELF") and is_text(head)
