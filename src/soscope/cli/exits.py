# SPDX-License-Identifier: Apache-2.0
"""Ends soscope as its command ended: with its exit status, or by its signal."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # type checkers take it for true; importing typing costs milliseconds
if TYPE_CHECKING:
    from typing import NoReturn


def leave(status: int | None, signal_number: int | None) -> int:
    """Return the exit status of a command, or die of the signal that killed it.

    If its end was not seen, that is soscope's own failure, and the status is 125.
    """
    if signal_number is not None:
        return die(signal_number)
    return 125 if status is None else status


def die(which: int | str) -> int:
    """Die of a signal, by number or name, without a core dump of soscope's own.

    No `atexit` function runs, so everything else must be written and closed. Returns 128 + the
    signal's number only if the signal does not kill.
    """
    import signal

    number = int(signal.Signals[which]) if isinstance(which, str) else which
    _flush()
    _forbid_core()
    try:
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
    except (OSError, ValueError, RuntimeError):
        pass  # a real-time signal that Python does not handle
    return 128 + number


def end(status: int) -> NoReturn:
    """End the process at once. The kernel frees its memory faster than the interpreter would.

    No `atexit` function runs.
    """
    _flush()
    os._exit(status)


def _forbid_core() -> None:
    try:
        import resource

        from soscope.entry import ptrace

        _, most = resource.getrlimit(resource.RLIMIT_CORE)
        resource.setrlimit(resource.RLIMIT_CORE, (0, most))
        # A core_pattern that is a program is started whatever the core limit is.
        ptrace.forbid_dump()
    except (ImportError, AttributeError, OSError, ValueError):
        pass  # at worst there is a core file, and `report` also runs on systems without ptrace


def _flush() -> None:
    """Flush Python's buffers. A stream that fails is given up."""
    import sys

    for stream in (sys.stdout, sys.stderr):
        if stream is None:  # the descriptor was closed when Python started
            continue
        try:
            stream.flush()
        except (OSError, ValueError):
            # Python would report the error once more at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
