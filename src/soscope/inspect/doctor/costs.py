# SPDX-License-Identifier: Apache-2.0
"""What each way to look at a program costs it: figures of benchmarks/RESULTS.md, rounded.

They are nanoseconds a call on one machine of 2023, in a loop that does nothing else: the
order of things, not a promise for another machine. A test compares them with the table.
"""

from __future__ import annotations


class Cost:
    """A way to look: the words to type, what it shows, and about how many ns a call takes."""

    __slots__ = ("command", "ns", "shows")

    def __init__(self, command: str, shows: str, ns: int) -> None:
        self.command = command
        self.shows = shows
        self.ns = ns


# (options of `soscope trace`, what it shows, ns a call)
_ROWS = (
    ("--count-only", "how often each function is called", 1),
    ("-c", "calls, errors and times by function", 22),
    ("--entry-only", "each call with its arguments, no result", 12),
    ("", "each call with arguments, result and time", 29),
)


def costs(command: str = "soscope trace") -> list[Cost]:
    """Return the ways to look, the cheapest first."""
    rows = sorted(_ROWS, key=lambda row: row[2])
    return [Cost(f"{command} {options}".rstrip(), shows, ns) for options, shows, ns in rows]
