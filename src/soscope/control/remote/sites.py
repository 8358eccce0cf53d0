# SPDX-License-Identifier: Apache-2.0
"""The engine of call sites: breakpoints where stubs have loaded their slot.

Nothing of the program is changed, so it may run already, and goes on when the points are gone.
The thread is sent on from there as the rest of the stub would do it, without a step, during which
others would have to stand still. Each emulated jump costs a point, so this is not for the slots of
large programs under an emulator.
"""

from __future__ import annotations

from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.stubs import sites
from soscope.binfmt.stubs.sites import StubSite
from soscope.control.remote.guest import GuestMemory
from soscope.control.remote.images import CalledSlot, ForeignImage
from soscope.control.remote.watch import Armed, CallWatch, Sender
from soscope.control.settings import SITES
from soscope.entry.breakpoint.points import Points
from soscope.entry.remote.convention import Convention
from soscope.entry.remote.stub import RemoteStub
from soscope.errors import FormatError
from soscope.wire import layout

_MOST_SHARED = 200  # points, as an emulator goes through all of them at each indirect jump


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
        self._sites: dict[ForeignImage, dict[int, list[StubSite]]] = {}  # by the slot's vaddr
        # what slots held, by address: one may be bound while a thread jumps to what it held before
        self._first: dict[int, int] = {}
        self._unclear: dict[ForeignImage, frozenset[int]] = {}  # slots, by vaddr
        self._armed: dict[int, Armed] = {}  # by the slot's address
        self._at: dict[int, tuple[StubSite, int, ForeignImage]] = {}  # with the slot's address

    def hook(self, slot: CalledSlot, image: ForeignImage, call: object) -> Armed | int:
        """Have threads stop at the call sites of a slot."""
        told = self._by_slot(image).get(slot.addr - image.linked.load_bias, [])
        if not told and not any(image is other for _, slot, other in self._at.values() if not slot):
            return layout.REFUSED_NO_SITE
        for site in told:
            self._stop_at(site, image)
        armed = self._armed[slot.addr] = Armed(slot, image, call)
        self._first[slot.addr] = self._memory.word(slot.addr)
        return armed

    def hook_shared(self, slot: CalledSlot, image: ForeignImage, call: object) -> Armed | int:
        """Have threads stop at calls through it; what else the code does with it is its own."""
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
        """Return whether the thread is at a jump behind which an instruction is run first."""
        return pc in self._at and self._at[pc][0].way == sites.ENTER

    def _by_slot(self, image: ForeignImage) -> dict[int, list[StubSite]]:
        """Return the call sites in an image, by their slot's link-time address."""
        sites_of = self._sites.get(image)
        if sites_of is None:
            sites_of, self._unclear[image] = _by_slot(image)
            self._sites[image] = sites_of
            for site in sites_of.pop(0, ()):  # its slot shows at the stop alone
                self._stop_at(site, image)
        return sites_of

    def _stop_at(self, site: StubSite, image: ForeignImage) -> None:
        bias = image.linked.load_bias
        addr = site.vaddr + bias
        if addr not in self._at:
            self._at[addr] = (site, site.slot + bias if site.slot else 0, image)
            self._points.want(addr)

    def at_point(self, pc: int) -> Armed | None:
        """Return the slot whose call a thread is about to make."""
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
        """Have the thread go on where the slot leads now."""
        site, _, _ = self._at[pc]
        if site.way != sites.JUMP:
            return False
        convention, place = self._convention, armed.slot.addr
        target = self._memory.word(place)
        if not target:  # it could not be read: the jump itself can
            return False
        self._send.send(target, place)
        if convention.slot_in:
            self._stub.put(convention.slot_in, place)
        if convention.behind_in:
            self._stub.put(convention.behind_in, pc + site.size)
        return True

    def return_addr(self, pc: int) -> int | None:
        """Return where a call returns to that is no jump yet."""
        site = self._at[pc][0] if pc in self._at else None
        return pc + site.size if site is not None and site.way == sites.CALL else None

    def has(self, pc: int) -> bool:
        """Return whether a thread at `pc` is at a call site."""
        return pc in self._at

    def forget(self, image: ForeignImage) -> None:
        """Forget the call sites of an image that is gone."""
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
        """Return the same of a process that was forked."""
        copied = SiteWatch(self._stub, memory, self._convention, points)
        copied._sites = dict(self._sites)
        copied._first = dict(self._first)
        copied._unclear = dict(self._unclear)
        copied._armed = dict(self._armed)
        copied._at = dict(self._at)
        return copied

    def retire(self) -> bool:
        """Have threads stop at no call site any more."""
        for addr in self._at:
            self._points.leave(addr)
        self._at.clear()
        self._armed.clear()
        return True


def _by_slot(image: ForeignImage) -> tuple[dict[int, list[StubSite]], frozenset[int]]:
    """Return the call sites in an image, by their slot's link-time address.

    And which slots its code may go through elsewhere.
    """
    by_slot: dict[int, list[StubSite]] = {}
    unclear: frozenset[int] = frozenset()
    try:
        mapped = ElfMap(image.elf)
        for site in sites.call_sites(mapped):
            by_slot.setdefault(site.slot, []).append(site)
        unclear = sites.unclear_slots(mapped)
    except FormatError:
        pass  # those that were read; each slot without one is refused, and that is said
    return by_slot, unclear
