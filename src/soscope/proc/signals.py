# SPDX-License-Identifier: Apache-2.0
"""The module `signal` for the way to a started program, where every millisecond counts.

`signal` wraps the interpreter's own module in enumerations, whose import takes longer than
all that is done with them here. Numbers are plain integers; it is imported for names alone.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal

__all__ = ["signal"]


def heeded(numbers: tuple[int, ...]) -> set[int]:
    """Return those signals that whoever started us did not want to be ignored.

    A blocked signal is taken by sigtimedwait(2) although it is ignored (`nohup`, `&` in a
    script).
    """
    return {number for number in numbers if signal.getsignal(number) != signal.SIG_IGN}


def signal_name(number: int) -> str:
    """Return the name of a signal: SIGTERM, SIGRTMIN+2."""
    from signal import SIGRTMAX, SIGRTMIN, Signals

    try:
        return Signals(number).name
    except ValueError:  # a real-time signal, or none at all
        return f"SIGRTMIN+{number - SIGRTMIN}" if SIGRTMIN < number < SIGRTMAX else f"SIG{number}"
