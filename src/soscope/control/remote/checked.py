# SPDX-License-Identifier: Apache-2.0
"""Run two engines on one program and compare which calls each of them notices (`--check`).

    a call ─► its site, which counts it ─► where the slot leads ─► the other engine

The program runs once, so that differences between two runs do not matter. One of the two engines
records calls, and the other one only counts them. Slots that are code (the BSS PLT of PowerPC)
have no address that could be changed. Their calls are not compared, and the verdict tells that.
"""

from __future__ import annotations

from soscope.control.breakpoints.images import CalledSlot, ForeignImage
from soscope.control.outcome import EngineVerdict
from soscope.control.remote.guest import GuestMemory
from soscope.control.remote.sites import SiteWatch
from soscope.control.remote.watch import Armed, CallWatch
from soscope.wire import layout

_Counts = dict[tuple[str, str], int]  # (image, symbol) -> number of slots


class CheckedWatch(CallWatch):
    """Call sites, and an engine that changes slots. `name` is the engine that records calls."""

    changes_slots = True

    __slots__ = (
        "_alone",
        "_at_sites",
        "_at_slots",
        "_codes",
        "_is_retired",
        "_passed",
        "_sites",
        "_slots",
    )

    def __init__(self, at_sites: SiteWatch, at_slots: CallWatch, name: str) -> None:
        self.name = name
        self.for_one_thread = at_slots.for_one_thread
        self.faults = at_slots.faults
        self._at_sites = at_sites
        self._at_slots = at_slots
        self._sites: _Counts = {}
        self._slots: _Counts = {}
        self._is_retired = False
        self._alone: dict[str, int] = {}  # number of slots with a call site only, by image
        self._codes: set[int] = set()  # addresses of those slots
        self._passed: dict[int, int] = {}  # slot -> calls that only their site has seen

    def hook(self, slot: CalledSlot, image: ForeignImage, call: object) -> Armed | int:
        """Let both engines notice the calls of a slot. Only one result gets a slot number."""
        by_site = self._at_sites.hook(slot, image, call)
        by_slot = self._at_slots.hook(slot, image, call)
        if isinstance(by_site, Armed) and by_slot == layout.REFUSED_TEXT:
            self._alone[image.name] = self._alone.get(image.name, 0) + 1
            self._codes.add(slot.addr)
            return by_site
        return by_site if self.name == self._at_sites.name else by_slot

    def hook_shared(self, slot: CalledSlot, image: ForeignImage, call: object) -> Armed | int:
        """Refuse the slot, because one of the two engines cannot notice its calls."""
        return layout.REFUSED_ADDRESS_TAKEN

    def enters(self, pc: int) -> bool:
        """Return whether a thread is at a call site whose instructions must run first."""
        return self._at_sites.enters(pc)

    def at_fault(self, pc: int) -> Armed | None:
        """Return the slot whose call caused a fault at `pc`, or None."""
        return self._at_slots.at_fault(pc)

    def at_point(self, pc: int) -> Armed | None:
        """Return the slot whose call a thread at `pc` is about to make, or None."""
        return self._at_sites.at_point(pc) or self._at_slots.at_point(pc)

    def return_addr(self, pc: int) -> int | None:
        """Return the return address of a call whose thread has not jumped yet, or None."""
        return self._at_sites.return_addr(pc)

    def send(self, armed: Armed, pc: int) -> bool:
        """Count the call, and move the thread on to the address in the slot or to the function."""
        key, place = (armed.image.name, armed.slot.symbol), armed.slot.addr
        if self._at_sites.has(pc):
            if not self._is_retired and place not in self._codes:
                self._sites[key] = self._sites.get(key, 0) + 1
                self._passed[place] = self._passed.get(place, 0) + 1
            return self._at_sites.send(armed, pc)
        passed = self._passed.get(place, 0)
        if passed or not self._is_retired:
            self._slots[key] = self._slots.get(key, 0) + 1
            self._passed[place] = max(passed - 1, 0)
        return self._at_slots.send(armed, pc)

    @property
    def is_followed(self) -> bool:
        """Return whether the thread just moved on must be single-stepped."""
        return self._at_slots.is_followed

    def has_stepped(self) -> bool:
        """Note a step of a single-stepped thread. Return whether stepping is done."""
        return self._at_slots.has_stepped()

    def is_out_of_sight(self) -> None:
        """Note that the thread is not stepped any more."""
        self._at_slots.is_out_of_sight()

    def remarks(self) -> list[str]:
        """Return further remarks on how calls were noticed."""
        return self._at_slots.remarks()

    def forget(self, image: ForeignImage) -> None:
        """Drop the slots of an image that was unloaded."""
        self._codes = {addr for addr in self._codes if not image.contains(addr)}
        self._at_sites.forget(image)
        self._at_slots.forget(image)

    def give_back(self) -> None:
        """Restore the program's memory to what it would be without soscope."""
        self._at_slots.give_back()

    def give_back_in(self, memory: GuestMemory) -> None:
        """Restore a copy of the program's memory to what it would be without soscope."""
        self._at_slots.give_back_in(memory)

    def take_again(self) -> None:
        """Undo `give_back`."""
        self._at_slots.take_again()

    def retire(self) -> bool:
        """Count no further calls, except those that are under way."""
        self._is_retired = True
        return False

    def verdict(self) -> EngineVerdict:
        """Return whether both engines have noticed the same calls."""
        names = f"check: {self._at_sites.name} and {self._at_slots.name}"
        counts = {
            key: (self._sites.get(key, 0), self._slots.get(key, 0))
            for key in sorted({*self._sites, *self._slots})
        }
        differing = [
            f"{caller}->{symbol} {first} and {second}"
            for (caller, symbol), (first, second) in counts.items()
            if first != second
        ]
        alone = [f"{count} of {image}" for image, count in sorted(self._alone.items())]
        said = f"slots that are code cannot be compared: {', '.join(alone)}" if alone else ""
        if differing:
            text = f"{names} differ: calls of {', '.join(differing)}"
            return EngineVerdict("; ".join(filter(None, (text, said))), is_same=False)
        if not counts:
            said = said or "nothing was compared, as neither has noticed a call"
            return EngineVerdict(f"{names}: {said}", is_same=False)
        calls, functions = sum(self._slots.values()), len({symbol for _, symbol in counts})
        call, function = "call" + "s" * (calls != 1), "function" + "s" * (functions != 1)
        text = f"{names} agree: {calls} {call} of {functions} {function}"
        return EngineVerdict("; ".join(filter(None, (text, said))), is_same=True)
