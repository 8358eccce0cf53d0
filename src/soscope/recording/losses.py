# SPDX-License-Identifier: Apache-2.0
"""Losses of a stream, and when they happened."""

from __future__ import annotations

from bisect import bisect_left

from soscope.wire import layout

# Counters of DROPPED after dropped[]: see `format`.
EXITS = layout.DROP_KINDS
IMAGES = layout.DROP_KINDS + 1
SLOTS = layout.DROP_KINDS + 2
COUNTERS = layout.DROP_KINDS + 3

# Losses after which a thread's stream continues, with a hole in it.
_HOLES = (layout.DROP_FULL, layout.DROP_READER_GONE, EXITS)

WHY = {
    layout.DROP_FULL: "the ring was full",
    layout.DROP_OVERWRITTEN: "overwritten by newer calls",
    layout.DROP_THREADS: "too many threads",
    layout.DROP_READER_GONE: "the ring was full and soscope did not answer",
    layout.DROP_EXIT_UNPAIRED: "returns whose entry was not kept: those calls have no time",
    layout.DROP_SITES: "returns that are not seen: there are too many places that call",
    layout.DROP_WORDS: "arguments that a call filled in: where they are was not kept",
    layout.DROP_RIGHTS: "a process changed its rights: its calls are not seen from there on",
    EXITS: "exits whose entry was kept",
    IMAGES: "images that found no room in the tables",
    SLOTS: "slots that found no room in the tables",
}
WHY_FILE_ENTRIES = "the recording could not be written"
WHY_SPOILED = "records and counters that no agent writes: the program has written over them"
WHY_FILE_EXITS = "exits that could not be written to the recording"


class Losses:
    """Counts losses, and remembers the spans of the tsc in which they happened.

    `strange` is the number of invalid records, as found by the reader.
    """

    __slots__ = (
        "_ends",
        "_spoiled",
        "_starts",
        "_tick",
        "_totals",
        "file_entries",
        "file_exits",
        "strange",
    )

    def __init__(self) -> None:
        self._totals: dict[int, tuple[int, ...]] = {}
        self._tick = 0
        self._starts: list[int] = []  # disjoint spans, in order
        self._ends: list[int] = []
        self.file_entries = 0
        self.file_exits = 0
        self.strange = 0
        self._spoiled: dict[int, int] = {}

    def tick(self, tsc: int) -> None:
        """Take note that all counters have been read."""
        self._tick = max(self._tick, tsc)

    def dropped(self, program: int, tsc: int, totals: tuple[int, ...]) -> None:
        """Take a program's counters as they were at `tsc`."""
        before = self._totals.get(program, (0,) * COUNTERS)
        if any(totals[kind] > before[kind] for kind in _HOLES):
            self._span(self._tick, max(tsc, self._tick))
        self._totals[program] = totals

    def spoil(self, program: int, count: int) -> None:
        """Take how many records and counters a program has overwritten so far."""
        self._spoiled[program] = count

    @property
    def spoiled(self) -> int:
        """Return how many records and counters the programs have overwritten."""
        return sum(self._spoiled.values()) + self.strange

    def lost(self, start: int, end: int, entries: int, exits: int) -> None:
        """Take records that could not be written to a file in [start, end]."""
        self.file_entries += entries
        self.file_exits += exits
        self._span(start, end)

    def _span(self, start: int, end: int) -> None:
        at = bisect_left(self._ends, start)
        until = at
        while until < len(self._starts) and self._starts[until] <= end:
            start = min(start, self._starts[until])
            end = max(end, self._ends[until])
            until += 1
        self._starts[at:until] = [start]
        self._ends[at:until] = [end]

    def within(self, start: int, end: int) -> bool:
        """Return whether anything may have been lost between two times (tsc)."""
        at = bisect_left(self._ends, start)
        # A span begins at a tick, after everything that had happened by then.
        return at < len(self._starts) and self._starts[at] < end

    def __bool__(self) -> bool:
        """Return whether anything was lost that left a hole."""
        return bool(self._starts)

    def total(self, kind: int) -> int:
        """Return the sum of a counter over all programs."""
        return sum(totals[kind] for totals in self._totals.values())

    def messages(self) -> list[tuple[int, str]]:
        """Return (count, reason) for all losses."""
        counts = [(self.total(kind), why) for kind, why in WHY.items()]
        counts.append((self.spoiled, WHY_SPOILED))
        counts += [(self.file_entries, WHY_FILE_ENTRIES), (self.file_exits, WHY_FILE_EXITS)]
        return [(count, why) for count, why in counts if count]
