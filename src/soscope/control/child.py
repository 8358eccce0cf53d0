# SPDX-License-Identifier: Apache-2.0
"""The new process between fork and exec: it undoes what Python changed, then waits.

It must not differ from a process that a shell forked: it has the same environment, descriptors,
limits, signal mask and signal dispositions.
"""

from __future__ import annotations

import ctypes
import errno
import os
from _thread import get_native_id

from soscope.control.command import Command, is_text
from soscope.control.signals import Signals
from soscope.proc.status import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_CONTINUE = (errno.ENOENT, errno.ENOTDIR, errno.ESTALE, errno.ENODEV, errno.ETIMEDOUT)
_SHELL = b"/bin/sh"
_FAILED = 127
INHERIT, PRELOAD, BARE = b"i", b"p", b"b"  # the orders of `Child.go`
_PR_SET_PDEATHSIG, _PR_GET_PDEATHSIG = 1, 2
# Python ignores these signals from its start; a new program would inherit that (signal(7)).
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
        """Let the child execute the command.

        INHERIT: the child inherits soscope's descriptors. PRELOAD: it also gets the environment
        with LD_PRELOAD. BARE: it gets neither.
        """
        try:
            os.write(self._go, order)
        except BrokenPipeError:
            pass  # the process was killed
        finally:
            os.close(self._go)
            self._go = -1

    def exec_error(self) -> int | None:
        """Wait until the child has executed the command. Return None, or the errno of the exec."""
        if self._result < 0:
            return None
        data = os.read(self._result, 16)
        self.close()
        return int(data) if data else None

    def close(self) -> None:
        """Close the pipes. A child that still waits for its order ends."""
        for descriptor in (self._go, self._result):
            if descriptor >= 0:
                os.close(descriptor)
        self._go = self._result = -1


def restore_actions() -> None:
    """Restore the signal dispositions that Python and soscope have changed, in a new process."""
    for number in signal.valid_signals():
        action = signal.getsignal(number)
        if callable(action) or (number in _PYTHON_IGNORES and action == signal.SIG_IGN):
            signal.signal(number, signal.SIG_DFL)


def fork(
    command: Command,
    descriptors: tuple[int, ...],
    signals: Signals,
    preload: Callable[[list[bytes]], list[bytes]],
    *,
    dies_with_us: bool = False,
) -> Child:
    """Fork a process that waits before it executes `command`.

    `descriptors` are those that the process may inherit. `preload` makes the environment for the
    order PRELOAD. With `dies_with_us` the process is killed when this thread ends. Raises OSError
    if no process or no pipe can be made.
    """
    environ = command.environ
    death_signal = ctypes.c_int(0)
    _libc.prctl(_PR_GET_PDEATHSIG, ctypes.byref(death_signal), 0, 0, 0)
    argv = _vector(command.arguments)
    pipes: list[int] = []
    try:
        pipes += os.pipe2(os.O_CLOEXEC)
        pipes += os.pipe2(os.O_CLOEXEC)
        if get_native_id() != os.getpid():
            _allow_fork_beside_threads()
        pid = os.fork()
    except OSError:
        for descriptor in pipes:
            os.close(descriptor)
        raise
    go_read, go_write, result_read, result_write = pipes
    if not pid:
        try:
            os.close(go_write)
            restore_actions()
            # A soscope that dies with its parent (PR_SET_PDEATHSIG) passes that on to the child.
            end = signal.SIGKILL if dies_with_us else death_signal.value
            if end:
                _libc.prctl(_PR_SET_PDEATHSIG, end, 0, 0, 0)
            order = os.read(go_read, 1)
            if order:
                for descriptor in () if order == BARE else descriptors:
                    os.set_inheritable(descriptor, True)
                envp = _vector(preload(environ) if order == PRELOAD else environ)
                signals.restore_in_child()
                os.write(result_write, b"%d" % _go_and_execute(command, argv, envp))
        finally:
            os._exit(_FAILED)
    os.close(go_read)
    os.close(result_write)
    return Child(pid, go_write, result_read)


def _allow_fork_beside_threads() -> None:
    """Silence the warning of Python 3.12 and later about fork in a program with threads.

    The fork is safe here: the new process takes no lock that another thread may hold, and
    executes a program.
    """
    import warnings

    said = r"This process \(pid=\d+\) is multi-threaded, use of fork"
    warnings.filterwarnings("ignore", said, DeprecationWarning, __name__.replace(".", r"\."))


def _vector(entries: list[bytes]) -> ctypes.Array[ctypes.c_char_p]:
    return (ctypes.c_char_p * (len(entries) + 1))(*entries, None)


def _go_and_execute(
    command: Command,
    argv: ctypes.Array[ctypes.c_char_p],
    envp: ctypes.Array[ctypes.c_char_p],
) -> int:
    try:
        if command.user is not None:
            command.user.become()
        if command.cwd is not None:
            os.chdir(command.cwd)
    except OSError as error:
        return error.errno or errno.ENOENT
    return _execute(command, argv, envp)


def _execute(
    command: Command,
    argv: ctypes.Array[ctypes.c_char_p],
    envp: ctypes.Array[ctypes.c_char_p],
) -> int:
    """Execute the first file that can be executed (execvp(3)). Return the errno if none can."""
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
