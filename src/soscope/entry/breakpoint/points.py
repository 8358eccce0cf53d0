# SPDX-License-Identifier: Apache-2.0
"""Breakpoints with a count of their users: each is in place as long as it has users.

If a change costs much (`is_sparing`), a breakpoint that comes back again and again is left in
place for a while. Stops at it meanwhile are ignored.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

Change: TypeAlias = "Callable[[int], object]"

_OFTEN = 8  # removals of a breakpoint before it is left in place
_MOST_SPARE = 16
_LONGEST_SPARE = 64  # stops


class Points:
    """Counts the users of each address, and calls `insert` and `remove` accordingly.

    `is_sparing` is set if a change costs much.
    """

    __slots__ = ("_counts", "_gone", "_insert", "_remove", "_spare", "_stops", "is_sparing")

    def __init__(self, insert: Change, remove: Change) -> None:
        self._counts: dict[int, int] = {}
        self._gone: dict[int, int] = {}  # number of removals
        self._spare: dict[int, int] = {}  # unused but in place: since which stop
        self._stops = 0
        self._insert = insert
        self._remove = remove
        self.is_sparing = False

    def __contains__(self, addr: int) -> bool:
        """Return whether a breakpoint is in place at the address."""
        return addr in self._counts or addr in self._spare

    def __len__(self) -> int:
        """Return the number of addresses with a breakpoint."""
        return len(self._counts) + len(self._spare)

    @property
    def addresses(self) -> list[int]:
        """The addresses of its breakpoints."""
        return list(self._counts)

    def want(self, addr: int) -> None:
        """Add a user of the breakpoint at an address."""
        count = self._counts.get(addr, 0)
        if not count and self._spare.pop(addr, None) is None:
            self._insert(addr)
        self._counts[addr] = count + 1

    def leave(self, addr: int) -> None:
        """Undo one `want`."""
        count = self._counts.get(addr, 0) - 1
        if count > 0:
            self._counts[addr] = count
        elif not count:
            del self._counts[addr]
            if self.is_sparing and self._gone.get(addr, 0) >= _OFTEN:
                self._spare[addr] = self._stops
            else:
                self._gone[addr] = self._gone.get(addr, 0) + 1
                self._remove(addr)

    def has_stopped(self) -> None:
        """Note a stop. Breakpoints that were unused for long are removed."""
        self._stops += 1
        if not self._spare:
            return
        oldest = next(iter(self._spare.values()))
        if len(self._spare) > _MOST_SPARE or self._stops - oldest > _LONGEST_SPARE:
            spare, self._spare = self._spare, {}
            for addr in spare:
                self._remove(addr)

    def know(self, other: Points) -> None:
        """Take over the breakpoints that a forked process has from its parent."""
        self._counts = dict(other._counts)
        self._spare = dict(other._spare)

    def lift(self) -> None:
        """Remove all breakpoints until `put_down`."""
        for addr in (*self._counts, *self._spare):
            self._remove(addr)

    def put_down(self) -> None:
        """Undo `lift`."""
        for addr in (*self._counts, *self._spare):
            self._insert(addr)

    def clear(self) -> None:
        """Remove all breakpoints for good."""
        places = [*self._counts, *self._spare]
        self._counts.clear()
        self._spare.clear()
        for addr in places:
            self._remove(addr)
