# SPDX-License-Identifier: Apache-2.0
"""Names of signals and errors, and numbers as people read them."""

from __future__ import annotations

from soscope.model.stats import is_told
from soscope.proc.signals import signal_name

STATIC_KINDS = ("static", "static-pie")  # of programs, as `model.filemap` has them
STRAIGHT = "it is statically linked, so its calls go through no slots"
UNTOLD = "?"  # behind a time that may be as wrong as it is long, or behind its share


def signal_text(number: int) -> str:
    """Return what a signal means: Terminated."""
    import signal

    try:
        return signal.strsignal(number) or f"Signal {number}"
    except ValueError:
        return f"Signal {number}"


def plural(count: int, singular: str, more: str | None = None) -> str:
    """Return the count with its noun: `1 call`, `1,204 calls`."""
    return f"{count:,} {singular if count == 1 else more or singular + 's'}"


def marked(text: str, time_ns: float | None, doubt_ns: float | None) -> str:
    """Return the text of a time, or of its share, with a mark if its error is not less than it.

    Every report prints the times of its rows by this; a total has no mark, as its rows have.
    `doubt_ns` is by how much `time_ns` may be wrong, None: nobody knows. What a difference of two
    times may be wrong by counts in either direction.

    >>> from soscope.report.words import marked
    >>> marked("12.50", 900, 300), marked("12.50", 900, 1200)
    ('12.50', '12.50?')
    """
    size = None if time_ns is None else abs(time_ns)
    return text if is_told(size, doubt_ns) else text + UNTOLD


def untold_line(*, few: bool = False) -> str:
    """Say what the mark means; `few`: not all calls were timed."""
    more = ", and what few timed calls do not tell" if few else ""
    error = f"what the hooks cost{more}"
    return f"{UNTOLD} marks times that are no more than their error: {error}"


def ending(status: int | None, signal_number: int | None) -> str:
    """Return how a process ended, in ltrace's words."""
    if signal_number is not None:
        return f"+++ killed by {signal_name(signal_number)} +++"
    if status is not None:
        return f"+++ exited (status {status}) +++"
    return "+++ ended, unseen +++"


def library_lines(closed: list[str], left: dict[str, str]) -> list[str]:
    """Say what became of libraries that nobody needs any more; `left` stay: path -> why."""
    lines = [f"{path} closed" for path in closed]
    return lines + [f"{path} stays loaded: {why}" for path, why in left.items()]
