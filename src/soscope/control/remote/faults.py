# SPDX-License-Identifier: Apache-2.0
"""Faults of the program's own, where its calls are faults as well."""

from __future__ import annotations

from soscope.control.remote.guest import GuestMemory
from soscope.control.remote.hooking import ImageHooks
from soscope.control.remote.watch import CallWatch
from soscope.entry.breakpoint.points import Points

IN_HANDLERS = "calls in handlers of SIGSEGV were not seen, nor those of other threads meanwhile"
_LEAVE = ("longjmp", "_longjmp", "siglongjmp", "__longjmp_chk")


class OwnFaults:
    """Has slots lead where they would while the program deals with a fault of its own.

    Its handler runs with SIGSEGV blocked. A call that faults there would take the handler away, as
    kernels and emulators deliver a fault that is blocked to nobody else any more. The handler is
    over when its thread comes back to the instruction, or leaves by longjmp. `any_survived`: the
    program has gone on behind one.
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
        if self._memory.word(pc):  # else there is no code, and no way back
            places.add(pc)
        for place in places:
            self._points.want(place)
        self._waiting = places

    def at_point(self, pc: int, *, is_stopped: bool) -> None:
        """Hear that a thread is at a point; have calls fault again if its handler is over."""
        if pc in self._waiting:
            self.any_survived = True
            self._forget()
            if not is_stopped:
                self._slots.take_again()

    def ended(self, *, is_killed: bool) -> None:
        """Hear that the program has ended, perhaps in such a handler."""
        self.any_survived |= bool(self._waiting) and not is_killed

    def _forget(self) -> None:
        for place in self._waiting:
            self._points.leave(place)
        self._waiting = set()
