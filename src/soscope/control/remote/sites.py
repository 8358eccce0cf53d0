# SPDX-License-Identifier: Apache-2.0
"""The engine `sites`: breakpoints at stubs, where these have loaded their slot.

Nothing of the program is changed, so it may be running already, and it goes on when the
breakpoints are gone. The thread is moved on as the rest of the stub would do it, without a single
step, during which other threads would have to be stopped. An emulator checks all breakpoints at
each jump, so this engine is not suited to large programs under an emulator.
"""

from __future__ import annotations

from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.stubs import sites
from soscope.binfmt.stubs.sites import StubSite
from soscope.control.breakpoints.images import CalledSlot, ForeignImage
from soscope.control.remote.guest import GuestMemory
from soscope.control.remote.watch import Armed, CallWatch, Sender
from soscope.control.settings import SITES
from soscope.entry.breakpoint import Points
from soscope.entry.remote.convention import Convention
from soscope.entry.remote.stub import RemoteStub
from soscope.errors import FormatError
from soscope.wire import layout

_MOST_SHARED = 200  # breakpoints, which an emulator checks at each indirect jump


class SiteWatch(CallWatch):
    """The call sites of one program."""

    __slots__ = (
        "_armed",
        "_at",
        "_convention",
        "_first",
        "_memory",
        "_points",
        "_send",
        "_sites",
        "_stub",
        "_unclear",
    )

    name = SITES

    def __init__(
        self, stub: RemoteStub, memory: GuestMemory, convention: Convention, points: Points
    ) -> None:
        self._stub = stub
        self._memory = memory
        self._convention = convention
        self._points = points
        self._send = Sender(stub, convention, memory)
        self._sites: dict[ForeignImage, dict[int, list[StubSite]]] = {}  # slot's vaddr -> its sites
        # The first values of slots, by address. A slot may be bound while a thread jumps to its
        # old value.
        self._first: dict[int, int] = {}
        self._unclear: dict[ForeignImage, frozenset[int]] = {}  # slots by vaddr
        self._armed: dict[int, Armed] = {}  # address of the slot -> slot
        self._at: dict[int, tuple[StubSite, int, ForeignImage]] = {}  # with the slot's address

    def hook(self, slot: CalledSlot, image: ForeignImage, call: object) -> Armed | int:
        """Put traps at the call sites of a slot."""
        told = self._by_slot(image).get(slot.addr - image.linked.load_bias, [])
        if not told and not any(image is other for _, slot, other in self._at.values() if not slot):
            return layout.REFUSED_NO_SITE
        for site in told:
            self._stop_at(site, image)
        armed = self._armed[slot.addr] = Armed(slot, image, call)
        self._first[slot.addr] = self._memory.word(slot.addr)
        return armed

    def hook_shared(self, slot: CalledSlot, image: ForeignImage, call: object) -> Armed | int:
        """Put breakpoints at the calls through a slot that code also uses otherwise."""
        vaddr = slot.addr - image.linked.load_bias
        told = self._by_slot(image).get(vaddr, [])
        if not any(site.way == sites.ENTER for site in told):
            return layout.REFUSED_ADDRESS_TAKEN
        if len(self._at) + len(told) > _MOST_SHARED:
            return layout.REFUSED_FULL
        armed = self.hook(slot, image, call)
        if isinstance(armed, Armed):
            armed.is_part = vaddr in self._unclear[image]
        return armed

    def enters(self, pc: int) -> bool:
        """Return whether the thread is at a jump with a delay slot, which runs first."""
        return pc in self._at and self._at[pc][0].way == sites.ENTER

    def _by_slot(self, image: ForeignImage) -> dict[int, list[StubSite]]:
        """Return the call sites in an image, by their slot's link-time address."""
        sites_of = self._sites.get(image)
        if sites_of is None:
            sites_of, self._unclear[image] = _by_slot(image)
            self._sites[image] = sites_of
            for site in sites_of.pop(0, ()):  # their slot is known only at the stop
                self._stop_at(site, image)
        return sites_of

    def _stop_at(self, site: StubSite, image: ForeignImage) -> None:
        bias = image.linked.load_bias
        addr = site.vaddr + bias
        if addr not in self._at:
            self._at[addr] = (site, site.slot + bias if site.slot else 0, image)
            self._points.want(addr)

    def at_point(self, pc: int) -> Armed | None:
        """Return the slot whose call a thread at `pc` is about to make, or None."""
        if pc not in self._at:
            return None
        site, slot, _ = self._at[pc]
        if site.base:
            mask = (1 << self._memory.coding.bits) - 1
            slot = self._stub.get(site.base) + site.distance & mask
        if site.way == sites.ENTER:  # other loads may lead to the same jump
            led = self._stub.get(self._convention.target)
            if led not in (self._memory.word(slot), self._first.get(slot)):
                return None
        return self._armed.get(slot)

    def send(self, armed: Armed, pc: int) -> bool:
        """Move the thread on to the present target of the slot."""
        site, _, _ = self._at[pc]
        if site.way != sites.JUMP:
            return False
        convention, place = self._convention, armed.slot.addr
        target = self._memory.word(place)
        if not target:  # not readable here, but the jump itself can read it
            return False
        self._send.send(target, place)
        if convention.slot_in:
            self._stub.put(convention.slot_in, place)
        if convention.behind_in:
            self._stub.put(convention.behind_in, pc + site.size)
        return True

    def return_addr(self, pc: int) -> int | None:
        """Return the return address of a call whose thread has not jumped yet, or None."""
        site = self._at[pc][0] if pc in self._at else None
        return pc + site.size if site is not None and site.way == sites.CALL else None

    def has(self, pc: int) -> bool:
        """Return whether a thread at `pc` is at a call site."""
        return pc in self._at

    def forget(self, image: ForeignImage) -> None:
        """Drop the call sites of an image that was unloaded."""
        self._sites.pop(image, None)
        self._unclear.pop(image, None)
        for addr, armed in list(self._armed.items()):
            if armed.image is image:
                del self._armed[addr]
                self._first.pop(addr, None)
        for addr, (_, _, of) in list(self._at.items()):
            if of is image:
                del self._at[addr]
                self._points.leave(addr)

    def forked(self, memory: GuestMemory, points: Points) -> SiteWatch:
        """Return a copy for a forked process."""
        copied = SiteWatch(self._stub, memory, self._convention, points)
        copied._sites = dict(self._sites)
        copied._first = dict(self._first)
        copied._unclear = dict(self._unclear)
        copied._armed = dict(self._armed)
        copied._at = dict(self._at)
        return copied

    def retire(self) -> bool:
        """Remove the breakpoints of all call sites."""
        for addr in self._at:
            self._points.leave(addr)
        self._at.clear()
        self._armed.clear()
        return True


def _by_slot(image: ForeignImage) -> tuple[dict[int, list[StubSite]], frozenset[int]]:
    """Return the call sites in an image, by their slot's link-time address.

    The second value has the slots that its code may also use at unknown places.
    """
    by_slot: dict[int, list[StubSite]] = {}
    unclear: frozenset[int] = frozenset()
    try:
        mapped = ElfMap(image.elf)
        for site in sites.call_sites(mapped):
            by_slot.setdefault(site.slot, []).append(site)
        unclear = sites.unclear_slots(mapped)
    except FormatError:
        pass  # keep those that were read; slots without a site are refused
    return by_slot, unclear
