# SPDX-License-Identifier: Apache-2.0
"""Handle the program's own faults, in an engine whose calls are faults, too."""

from __future__ import annotations

from soscope.control.remote.guest import GuestMemory
from soscope.control.remote.hooking import ImageHooks
from soscope.control.remote.watch import CallWatch
from soscope.entry.breakpoint import Points

IN_HANDLERS = "calls in handlers of SIGSEGV were not seen, nor those of other threads meanwhile"
_LEAVE = ("longjmp", "_longjmp", "siglongjmp", "__longjmp_chk")


class OwnFaults:
    """Restores the slots while the program handles a fault of its own.

    Its handler runs with SIGSEGV blocked. A call that faults there would end the program or
    remove the handler, because a blocked fault is not delivered to the handler. The handler is
    over when its thread comes back to the faulting instruction, or leaves by longjmp.
    `any_survived` is set if the program has gone on after such a fault.
    """

    __slots__ = ("_hooks", "_memory", "_points", "_slots", "_waiting", "any_survived")

    def __init__(
        self, slots: CallWatch, points: Points, hooks: ImageHooks, memory: GuestMemory
    ) -> None:
        self._slots = slots
        self._points = points
        self._hooks = hooks
        self._memory = memory
        self._waiting: set[int] = set()
        self.any_survived = False

    def begin(self, pc: int) -> None:
        """Prepare for the handler of a fault of the instruction at `pc`."""
        if not self._slots.faults or self._waiting:
            return
        self._slots.give_back()
        places = self._hooks.places_of(_LEAVE)
        if self._memory.word(pc):  # else pc is no code, and the handler cannot return
            places.add(pc)
        for place in places:
            self._points.want(place)
        self._waiting = places

    def at_point(self, pc: int, *, is_stopped: bool) -> None:
        """Note a thread at a breakpoint. If its handler is over, make calls fault again."""
        if pc in self._waiting:
            self.any_survived = True
            self._forget()
            if not is_stopped:
                self._slots.take_again()

    def ended(self, *, is_killed: bool) -> None:
        """Note that the program has ended, perhaps in a handler of its own fault."""
        self.any_survived |= bool(self._waiting) and not is_killed

    def _forget(self) -> None:
        for place in self._waiting:
            self._points.leave(place)
        self._waiting = set()
