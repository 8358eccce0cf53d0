# SPDX-License-Identifier: Apache-2.0
"""The cost of each way to observe a program: rounded figures from benchmarks/RESULTS.md.

The figures are nanoseconds a call on one machine of 2023, in a loop that does nothing else. They
show the order of magnitude and promise nothing for another machine. A test compares them with the
table.
"""

from __future__ import annotations


class Cost:
    """One way to observe: the command, what it shows, and about how many ns a call takes."""

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
    """Return the ways to observe, the cheapest first."""
    rows = sorted(_ROWS, key=lambda row: row[2])
    return [Cost(f"{command} {options}".rstrip(), shows, ns) for options, shows, ns in rows]
