# SPDX-License-Identifier: Apache-2.0
"""Slots that are hooked: hooks stand behind one another, with trampolines of tracers in between.

Whoever comes later stands in front. Any of them may go first: what stands in a slot is then
what was there below, and what others remember of the slot is put right.
"""

from __future__ import annotations

from soscope.hooking.choice import Chosen
from soscope.hooking.isa import code
from soscope.hooking.pins import Pins
from soscope.hooking.thunks import Thunk, machine
from soscope.hooking.tracers import Tracers

_MOST_TRIES = 100

_of_thunk: dict[int, HookedSlot] = {}  # whose it was last
_spare: dict[tuple[int, str, int], list[Thunk]] = {}  # thunks that go to a slot's function


class HookedSlot:
    """One slot of a hook: what stood there (`before`), and its `thunk`, which stands there now.

    `below` is what is to stand there when a tracer's trampoline that stood there is gone.
    """

    __slots__ = ("before", "below", "chosen", "is_active", "thunk")

    def __init__(self, chosen: Chosen, thunk: Thunk) -> None:
        self.chosen = chosen
        self.thunk = thunk
        self.before = self.below = chosen.value
        self.is_active = True
        _of_thunk[thunk.addr] = self

    def aim(self, tracers: Tracers) -> None:
        """Lead the thunk's original to what stands in the slot."""
        chosen, thunk = self.chosen, self.thunk
        self.before = self.below = value = chosen.value
        original = chosen.definition
        before = tracers.before(chosen.addr, value)
        if before is not None:
            self.below = standing(before)
            if self.below in _of_thunk:
                original = self.below
            at, count = tracers.session(value)
            thunk.set(code.SESSION_AT, at)
            thunk.set(code.SESSION, count)
            thunk.set(code.TRACED, value)
            thunk.set(code.UNTRACED, original)
            original = thunk.way
        elif value in _of_thunk or chosen.is_hooked:  # a hook's before us, or somebody else's
            original = value
        thunk.set(code.ORIGINAL, original)

    def store(self, tracers: Tracers, pins: Pins) -> bool:
        """Point the slot at its thunk; return whether it is."""
        chosen = self.chosen
        for _ in range(_MOST_TRIES):
            seen = self.exchange(pins, chosen.value, self.thunk.addr)
            if seen is None:
                return False
            if seen == chosen.value:
                break
            chosen.value = seen  # the loader has bound it, or a tracer has come or gone
            chosen.is_unbound, chosen.is_hooked = True, False
            with Tracers() as now:
                self.aim(now)
        if self.below not in (self.before, chosen.definition):
            tracers.bind(self.before, self.below, chosen.definition)
        return True

    def look_again(self, pins: Pins) -> None:
        """Store once more where a thread that was binding the slot has stored the function."""
        self.exchange(pins, self.chosen.definition, self.thunk.addr)

    def exchange(self, pins: Pins, old: int, new: int) -> int | None:
        """Store `new` in the slot if it holds `old`; return what it held.

        None where its image is gone, or its page cannot be written.
        """
        chosen = self.chosen
        if not pins.hold(chosen.place):
            return None
        prot = pins.protection(chosen.addr)
        if prot is None:
            return None
        return machine().write(chosen.place.bias, chosen.addr, old, new, prot=prot)

    def end(self) -> None:
        """Let calls go to the original, wherever they come from."""
        self.is_active = False
        self.thunk.set(code.TARGET, self.thunk.get(code.ORIGINAL))
        self.thunk.set(code.ACTIVE, 0)

    def restore(self, pins: Pins, tracers: Tracers) -> None:
        """Put back what stood in the slot, or let those do so who stand before us there."""
        addr, thunk = self.chosen.addr, self.thunk.addr
        under = standing(self.below)
        for _ in range(_MOST_TRIES):
            put = under
            if self.before != self.below and tracers.stands(addr, self.before):
                put = self.before
            seen = self.exchange(pins, thunk, put)
            if seen is None:
                return
            if seen == thunk:
                if put != under and not tracers.stands(addr, put):  # taken out meanwhile
                    self.exchange(pins, put, under)
                return
            with Tracers() as now:
                now.replace(addr, thunk, under)
            if self.exchange(pins, thunk, thunk) != thunk:
                return


def standing(value: int) -> int:
    """Return what a slot holds where `value` stood: hooks that have ended leave what they found."""
    while value in _of_thunk and not _of_thunk[value].is_active:
        value = _of_thunk[value].below
    return value


def new_slot(chosen: Chosen, symbol: str) -> HookedSlot:
    """Return a slot with a thunk that leads nowhere yet. Raises HookError."""
    spare = _spare.get((chosen.addr, symbol, chosen.definition))
    return HookedSlot(chosen, spare.pop() if spare else machine().new_thunk())


def keep_thunk(slot: HookedSlot, symbol: str) -> None:
    """Keep a thunk for the slot's next hook: nobody else knows it, but threads that are in it."""
    _spare.setdefault((slot.chosen.addr, symbol, slot.chosen.definition), []).append(slot.thunk)
