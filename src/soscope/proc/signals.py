# SPDX-License-Identifier: Apache-2.0
"""Numbers and names of signals without importing `signal`, because each millisecond counts.

`signal` wraps the interpreter's own module in enumerations, whose import takes longer than
everything that soscope does with signals before a program starts. Numbers are plain integers.
`signal` is imported only to get names.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal

__all__ = ["signal"]


def heeded(numbers: tuple[int, ...]) -> set[int]:
    """Return the signals of `numbers` that soscope's parent has not set to be ignored.

    sigtimedwait(2) takes a blocked signal even if it is ignored (`nohup`, `&` in a script).
    """
    return {number for number in numbers if signal.getsignal(number) != signal.SIG_IGN}


def signal_name(number: int) -> str:
    """Return the name of a signal: SIGTERM, SIGRTMIN+2."""
    from signal import SIGRTMAX, SIGRTMIN, Signals

    try:
        return Signals(number).name
    except ValueError:  # a real-time signal, or an invalid number
        return f"SIGRTMIN+{number - SIGRTMIN}" if SIGRTMIN < number < SIGRTMAX else f"SIG{number}"
