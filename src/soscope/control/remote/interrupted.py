# SPDX-License-Identifier: Apache-2.0
"""Points that a thread comes to twice: a signal was there before their instruction had run."""

from __future__ import annotations


class InterruptedPoints:
    """Which points have been dealt with, of threads that are away in a signal's handler.

    A handler may come by the same point, further down the stack, and that is another call. One
    that never returns leaves its point behind: it is forgotten when the thread is found
    somewhere else as far up.
    """

    __slots__ = ("_places",)

    def __init__(self) -> None:
        self._places: dict[int, list[tuple[int, int]]] = {}

    def leave(self, thread: int, pc: int, sp: int) -> None:
        """Hear that a signal comes before the instruction at a point has run."""
        self._places.setdefault(thread, []).append((pc, sp))

    def comes_back(self, thread: int, pc: int, sp: int) -> bool:
        """Return whether a thread is at a point that has been dealt with."""
        places = self._places.get(thread)
        while places and places[-1][1] <= sp:
            if places.pop() == (pc, sp):
                return True
        return False

    def inherit(self, other: InterruptedPoints, creator: int, thread: int) -> None:
        """Have the first thread of a child be where the one is that has made it."""
        places = other._places.get(creator)
        if places:
            self._places[thread] = list(places)

    def forget(self, thread: int) -> None:
        """Forget a thread that has ended."""
        self._places.pop(thread, None)
