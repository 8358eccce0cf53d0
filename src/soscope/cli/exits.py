# SPDX-License-Identifier: Apache-2.0
"""End as the command ended: with its exit status, or by its signal."""

from __future__ import annotations

import os


def leave(status: int | None, signal_number: int | None) -> int:
    """Return the exit status of a command, or die of the signal that killed it.

    Where its end was not seen, that is soscope's own failure: 125.
    """
    if signal_number is not None:
        return die(signal_number)
    return 125 if status is None else status


def die(which: int | str) -> int:
    """Die of a signal, by number or name, without a core dump of soscope's own.

    Returns 128 + its number only if the signal does not kill.
    """
    import signal

    number = int(signal.Signals[which]) if isinstance(which, str) else which
    _flush()
    try:
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_CORE)
        resource.setrlimit(resource.RLIMIT_CORE, (0, most))
    except (ImportError, OSError, ValueError):
        pass  # the worst is a core file
    try:
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
    except (OSError, ValueError, RuntimeError):
        pass  # a real-time signal that Python does not handle
    return 128 + number


def _flush() -> None:
    """Write out what Python still holds; a stream that fails is given up."""
    import sys

    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            # Python would complain about it once more at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
