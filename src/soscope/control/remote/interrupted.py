# SPDX-License-Identifier: Apache-2.0
"""Breakpoints that a thread meets twice, because a signal came before their instruction ran."""

from __future__ import annotations


class InterruptedPoints:
    """The breakpoints that were handled already, for threads that are in a signal handler.

    A handler may meet the same breakpoint further down the stack, which is another call. If a
    handler never returns, its breakpoint remains here until the thread is found elsewhere, as far
    up the stack.
    """

    __slots__ = ("_places",)

    def __init__(self) -> None:
        self._places: dict[int, list[tuple[int, int]]] = {}

    def leave(self, thread: int, pc: int, sp: int) -> None:
        """Note that a signal comes before the instruction at a breakpoint has run."""
        self._places.setdefault(thread, []).append((pc, sp))

    def comes_back(self, thread: int, pc: int, sp: int) -> bool:
        """Return whether a thread is at a breakpoint that was handled already."""
        places = self._places.get(thread)
        while places and places[-1][1] <= sp:
            if places.pop() == (pc, sp):
                return True
        return False

    def inherit(self, other: InterruptedPoints, creator: int, thread: int) -> None:
        """Copy the entries of the creating thread to the first thread of its child."""
        places = other._places.get(creator)
        if places:
            self._places[thread] = list(places)

    def forget(self, thread: int) -> None:
        """Drop the data of a thread that has ended."""
        self._places.pop(thread, None)
