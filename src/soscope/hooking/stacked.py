# SPDX-License-Identifier: Apache-2.0
"""Hooked slots. Several hooks may be nested in a slot, with trampolines of tracers in between.

The last hook is called first. The hooks may end in any order. When a hook ends, the value that
was in the slot before it is put back. If another hook or a tracer has changed the slot since, the
value that it will put back is corrected instead.
"""

from __future__ import annotations

from soscope.hooking.isa import code
from soscope.hooking.pins import Pins
from soscope.hooking.slots import Chosen
from soscope.hooking.thunks import Thunk, machine
from soscope.hooking.tracers import Tracers

_MOST_TRIES = 100

_of_thunk: dict[int, HookedSlot] = {}  # address of a thunk -> the last slot that had it
_spare: dict[tuple[int, str, int], list[Thunk]] = {}  # unused thunks that lead to a slot's function


class HookedSlot:
    """A slot of a hook: its value before the hook (`before`), and the `thunk` that it leads to now.

    If `before` is the trampoline of a tracer, `below` is the value for the slot after the tracer
    has gone.
    """

    __slots__ = ("before", "below", "chosen", "is_active", "thunk")

    def __init__(self, chosen: Chosen, thunk: Thunk) -> None:
        self.chosen = chosen
        self.thunk = thunk
        self.before = self.below = chosen.value
        self.is_active = True
        _of_thunk[thunk.addr] = self

    def aim(self, tracers: Tracers) -> None:
        """Make the thunk call the slot's present value as its original."""
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
        elif value in _of_thunk or chosen.is_hooked:  # a hook of soscope or of another tool
            original = value
        thunk.set(code.ORIGINAL, original)

    def store(self, tracers: Tracers, pins: Pins) -> bool:
        """Make the slot lead to its thunk. Return whether that was possible."""
        chosen = self.chosen
        for _ in range(_MOST_TRIES):
            seen = self.exchange(pins, chosen.value, self.thunk.addr)
            if seen is None:
                return False
            if seen == chosen.value:
                break
            chosen.value = seen  # bound by the loader, or changed by a tracer
            chosen.is_unbound, chosen.is_hooked = True, False
            with Tracers() as now:
                self.aim(now)
        if self.below not in (self.before, chosen.definition):
            tracers.bind(self.before, self.below, chosen.definition)
        return True

    def look_again(self, pins: Pins) -> None:
        """Store the thunk again if a thread that was binding the slot has stored the function."""
        self.exchange(pins, self.chosen.definition, self.thunk.addr)

    def exchange(self, pins: Pins, old: int, new: int) -> int | None:
        """Store `new` in the slot if it contains `old`. Return the value before.

        Return None if the image was unloaded, or if its page cannot be made writable.
        """
        chosen = self.chosen
        if not pins.hold(chosen.place):
            return None
        prot = pins.protection(chosen.addr)
        if prot is None:
            return None
        return machine().write(chosen.place.bias, chosen.addr, old, new, prot=prot)

    def end(self) -> None:
        """Make all calls go to the original, also from threads that have the thunk's address."""
        self.is_active = False
        self.thunk.set(code.TARGET, self.thunk.get(code.ORIGINAL))
        self.thunk.set(code.ACTIVE, 0)

    def restore(self, pins: Pins, tracers: Tracers) -> None:
        """Restore the slot's value.

        If a later hook or tracer has changed the slot, correct the value that it will restore
        instead.
        """
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
                if put != under and not tracers.stands(addr, put):  # the tracer has gone meanwhile
                    self.exchange(pins, put, under)
                return
            with Tracers() as now:
                now.replace(addr, thunk, under)
            if self.exchange(pins, thunk, thunk) != thunk:
                return


def standing(value: int) -> int:
    """Return `value`, or the value before it if it is the thunk of a hook that has ended."""
    while value in _of_thunk and not _of_thunk[value].is_active:
        value = _of_thunk[value].below
    return value


def new_slot(chosen: Chosen, symbol: str) -> HookedSlot:
    """Return a slot with a thunk that leads nowhere yet. Raises HookError."""
    spare = _spare.get((chosen.addr, symbol, chosen.definition))
    return HookedSlot(chosen, spare.pop() if spare else machine().new_thunk())


def keep_thunk(slot: HookedSlot, symbol: str) -> None:
    """Keep a thunk for the next hook of the slot. Only threads that execute it still know it."""
    _spare.setdefault((slot.chosen.addr, symbol, slot.chosen.definition), []).append(slot.thunk)
