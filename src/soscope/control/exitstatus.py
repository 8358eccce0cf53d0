# SPDX-License-Identifier: Apache-2.0
"""How a program ended, and how to end in the same way."""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False  # type checkers take it for true; importing typing costs milliseconds
if TYPE_CHECKING:
    from typing import NoReturn


class ExitStatus:
    """An exit status, or the number of the signal that killed; the other one is None."""

    __slots__ = ("signal", "status")

    def __init__(self, status: int | None, signal: int | None) -> None:
        self.status = status
        self.signal = signal

    @classmethod
    def of_wait(cls, status: int) -> ExitStatus:
        """Make it from a wait status of a process that ended."""
        if os.WIFSIGNALED(status):
            return cls(None, os.WTERMSIG(status))
        return cls(os.WEXITSTATUS(status), None)

    def __repr__(self) -> str:
        """Show both."""
        return f"ExitStatus(status={self.status}, signal={self.signal})"


def die_like(how: ExitStatus) -> NoReturn:
    """End this process as the program ended; does not return.

    A signal is sent to ourselves with its default action and without a core file, so that
    a shell sees the same. No `atexit` function runs: everything must be written and closed.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass
    if how.signal is None:
        os._exit(how.status or 0)
    _forbid_core()
    try:
        signal.signal(how.signal, signal.SIG_DFL)
    except (OSError, ValueError):
        pass  # SIGKILL has no other action
    os.kill(os.getpid(), how.signal)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (how.signal,))
    os._exit(128 + how.signal)  # ignored by default, or a signal that is no more


def _forbid_core() -> None:
    import resource

    from soscope.process import ptrace

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    # A core_pattern that is a program is started whatever the limit is.
    ptrace.forbid_dump()
