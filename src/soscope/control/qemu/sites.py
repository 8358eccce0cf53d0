# SPDX-License-Identifier: Apache-2.0
"""The engines that stop at call sites, or in soscope's own code that slots lead to."""

from __future__ import annotations

from types import ModuleType

from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.stubs import sites
from soscope.binfmt.stubs.sites import StubSite
from soscope.control.breakpoints.images import CalledSlot, GuestMemory, LoadedElf
from soscope.control.breakpoints.watch import (
    Armed,
    CallSpec,
    CallWatch,
    ChangedSlots,
    Sender,
    without,
)
from soscope.control.settings import SITES, SLOT
from soscope.entry.breakpoint import Points
from soscope.entry.remote.convention import Convention
from soscope.entry.remote.stub import RemoteStub
from soscope.errors import FormatError, RemoteError
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


# The engine `sites`: breakpoints at stubs, where these have loaded their slot.
#
# Nothing of the program is changed, so it may be running already, and it goes on when the
# breakpoints are gone. The thread is moved on as the rest of the stub would do it, without a single
# step, during which other threads would have to be stopped. An emulator checks all breakpoints at
# each jump, so this engine is not suited to large programs under an emulator.

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
        self._sites: dict[LoadedElf, dict[int, list[StubSite]]] = {}  # slot's vaddr -> its sites
        # The first values of slots, by address. A slot may be bound while a thread jumps to its
        # old value.
        self._first: dict[int, int] = {}
        self._unclear: dict[LoadedElf, frozenset[int]] = {}  # slots by vaddr
        self._armed: dict[int, Armed] = {}  # address of the slot -> slot
        self._at: dict[int, tuple[StubSite, int, LoadedElf]] = {}  # with the slot's address

    def hook(self, slot: CalledSlot, image: LoadedElf, spec: CallSpec) -> Armed | int:
        """Put traps at the call sites of a slot."""
        told = self._by_slot(image).get(slot.addr - image.linked.load_bias, [])
        if not told and not any(image is other for _, slot, other in self._at.values() if not slot):
            return layout.REFUSED_NO_SITE
        for site in told:
            self._stop_at(site, image)
        armed = self._armed[slot.addr] = Armed(slot, image, spec)
        self._first[slot.addr] = self._memory.word(slot.addr)
        return armed

    def hook_shared(self, slot: CalledSlot, image: LoadedElf, spec: CallSpec) -> Armed | int:
        """Put breakpoints at the calls through a slot that code also uses otherwise."""
        vaddr = slot.addr - image.linked.load_bias
        told = self._by_slot(image).get(vaddr, [])
        if not any(site.way == sites.ENTER for site in told):
            return layout.REFUSED_ADDRESS_TAKEN
        if len(self._at) + len(told) > _MOST_SHARED:
            return layout.REFUSED_FULL
        armed = self.hook(slot, image, spec)
        if isinstance(armed, Armed):
            armed.is_part = vaddr in self._unclear[image]
        return armed

    def enters(self, pc: int) -> bool:
        """Return whether the thread is at a jump with a delay slot, which runs first."""
        return pc in self._at and self._at[pc][0].way == sites.ENTER

    def _by_slot(self, image: LoadedElf) -> dict[int, list[StubSite]]:
        """Return the call sites in an image, by their slot's link-time address."""
        sites_of = self._sites.get(image)
        if sites_of is None:
            sites_of, self._unclear[image] = _by_slot(image)
            self._sites[image] = sites_of
            for site in sites_of.pop(0, ()):  # their slot is known only at the stop
                self._stop_at(site, image)
        return sites_of

    def _stop_at(self, site: StubSite, image: LoadedElf) -> None:
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
            target = self._stub.get(self._convention.target)
            if target not in (self._memory.word(slot), self._first.get(slot)):
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

    def forget(self, image: LoadedElf) -> None:
        """Drop the call sites of an image that was unloaded."""
        self._sites.pop(image, None)
        self._unclear.pop(image, None)
        for addr, _ in without(image, self._armed):
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


def _by_slot(image: LoadedElf) -> tuple[dict[int, list[StubSite]], frozenset[int]]:
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
        pass  # keep the sites that were read; slots without a site are refused
    return by_slot, unclear


# The engine `slot` for machines whose stub cannot set registers: slots lead to soscope's code.
#
# A call runs through that code on its way to the function, whose address is in the slot's cell. All
# calls run one common instruction, which has the only breakpoint, and a register tells which slot
# it was. The thread goes on from there without help. Without the breakpoint the code only makes the
# call take longer, so children and detached programs can go on with it.
#
# The loader must store later bindings in the cell. If a relocation has the address of the slot, it
# is changed to the address of the cell. On MIPS there is no relocation: the loader counts words
# from the beginning of the GOT, and the words without symbols come first. soscope changes their
# number so that the loader counts to the cells.

_MOST = 16384  # slots
_PAGE = 1 << 16  # largest page size; code and cells have their own pages


class Detoured(Armed):
    """One slot that leads to soscope's code, and whose calls are noticed."""

    __slots__ = ()

    tells_thread = True


class _Detours:
    """The changes in one image.

    `slots` maps the slot's address to (address of the cell, new value of the slot). `numbers` are
    (address, old value, new value) of words by which the loader finds slots.
    """

    __slots__ = ("numbers", "slots")

    def __init__(self) -> None:
        self.slots: dict[int, tuple[int, int]] = {}
        self.numbers: list[tuple[int, int, int]] = []


class DetouredSlots(ChangedSlots):
    """All slots of one program that lead to soscope's code."""

    __slots__ = (
        "_armed",
        "_cells",
        "_code",
        "_free",
        "_images",
        "_memory",
        "_next",
        "_shapes",
        "_sites",
        "_stub",
    )

    name = SLOT

    def __init__(
        self,
        stub: RemoteStub,
        memory: GuestMemory,
        shapes: ModuleType,
        place: int,
        size: int,
        points: Points,
        sites: SiteWatch,
    ) -> None:
        """Write the code into the `size` bytes at `place`, which belong to soscope.

        `shapes` makes the code. Slots whose addresses are also used otherwise than for calls stay
        unchanged, and `sites` notices their calls. Raises RemoteError if the memory is too small,
        or at an address where such code cannot run.
        """
        self._stub = stub
        self._memory = memory
        self._shapes = shapes
        self._sites = sites
        self._code = place
        self._cells: int = -(-(place + shapes.size(_MOST)) // _PAGE) * _PAGE
        code = shapes.code(place, self._cells, _MOST, memory.coding.order)
        is_there = self._cells + _MOST * memory.coding.word.size <= place + size
        if not (code and is_there and memory.write(place, code)):
            raise RemoteError("the program has no place for the tracer's code")
        self._next = 0
        self._free: list[int] = []
        self._armed: dict[int, Armed] = {}  # address of the cell -> slot
        self._images: dict[LoadedElf, _Detours] = {}
        points.want(place + shapes.STOP)

    def _cell(self, number: int) -> int:
        return self._cells + number * self._memory.coding.word.size

    def hook(self, slot: CalledSlot, image: LoadedElf, spec: CallSpec) -> Armed | int:
        """Make a slot lead to soscope's code."""
        if slot.is_code:
            return layout.REFUSED_TEXT
        detours = self._images.get(image)
        if detours is None:
            detours = self._images[image] = _Detours()
            self._count_to_cells(detours, image)
        if slot.addr in detours.slots:
            cell = detours.slots[slot.addr][0]
        else:
            number = self._new_number()
            if number < 0:
                return layout.REFUSED_FULL
            cell = self._cell(number)
            self._memory.write_word(cell, self._memory.word(slot.addr))
        if slot.relocation:
            bias = image.linked.load_bias
            change = slot.relocation, slot.addr - bias, cell - bias
            if not self._memory.write_word(change[0], change[2]):
                return layout.REFUSED_WRITE
            detours.numbers.append(change)
        if not self._lead(detours, slot.addr, cell, self._shapes.noticed):
            return layout.REFUSED_WRITE
        armed = self._armed[cell] = Detoured(slot, image, spec)
        return armed

    def hook_shared(self, slot: CalledSlot, image: LoadedElf, spec: CallSpec) -> Armed | int:
        """Put breakpoints where code calls through a slot that is also compared or passed on."""
        return self._sites.hook_shared(slot, image, spec)

    def _lead(
        self, detours: _Detours, addr: int, cell: int, where: Callable[[int, int], int]
    ) -> bool:
        number = (cell - self._cells) // self._memory.coding.word.size
        leads = where(self._code, number)
        detours.slots[addr] = cell, leads
        return self._memory.write_word(addr, leads)

    def _new_number(self) -> int:
        if self._free:
            return self._free.pop()
        if self._next >= _MOST:
            return -1
        self._next += 1
        return self._next - 1

    def _count_to_cells(self, detours: _Detours, image: LoadedElf) -> None:
        """Make the loader bind cells of soscope instead of an image's unbound slots.

        Some loaders compute the address of a slot from a number in the image's table. With a
        changed number the loader writes to a cell. From then on all of these slots point to
        soscope's code, because the loader does not change them.
        """
        words = image.counted_words(self._memory)
        if words is None or not words.unbound or self._next + words.words > _MOST:
            return
        memory = self._memory
        first = self._cell(self._next)
        self._next += words.words
        cells = {addr: first + addr - words.start for addr in words.unbound}
        for addr, cell in cells.items():
            memory.write_word(cell, memory.word(addr))
        before = memory.word(words.number)
        now = before + (first - words.start) // memory.coding.word.size
        if not memory.write_word(words.number, now):
            return  # each one is noticed until it is bound
        detours.numbers.append((words.number, before, now))
        for addr, cell in cells.items():
            self._lead(detours, addr, cell, self._shapes.passed)

    def at_point(self, pc: int) -> Armed | None:
        """Return the slot whose call a thread at `pc` is about to make, or None."""
        if pc != self._code + self._shapes.STOP:
            return self._sites.at_point(pc)
        return self._armed.get(self._stub.get(self._shapes.CELL))

    def enters(self, pc: int) -> bool:
        """Return whether a thread is at code that calls through a slot that `sites` handles."""
        return self._sites.enters(pc)

    def send(self, _armed: Armed, _pc: int) -> bool:
        """Let the thread go on without help."""
        return False

    # ---- memory without soscope ----

    def give_back_in(self, memory: GuestMemory) -> None:
        """Restore a copy of the program's memory to what it would be without soscope."""
        for detours in self._images.values():
            for addr, before, _ in detours.numbers:
                memory.write_word(addr, before)
            for addr, (cell, leads) in detours.slots.items():
                if memory.word(addr) == leads:
                    memory.write_word(addr, memory.word(cell))

    def _take_all(self) -> None:
        memory = self._memory
        for detours in self._images.values():
            for addr, (cell, _) in detours.slots.items():
                memory.write_word(cell, memory.word(addr))
            for addr, _, now in detours.numbers:
                memory.write_word(addr, now)
            for addr, (_, leads) in detours.slots.items():
                memory.write_word(addr, leads)

    def forget(self, image: LoadedElf) -> None:
        """Drop the slots of an image that was unloaded."""
        self._sites.forget(image)
        detours = self._images.pop(image, None)
        if detours is not None:
            for cell, _ in detours.slots.values():
                self._armed.pop(cell, None)
                self._free.append((cell - self._cells) // self._memory.coding.word.size)
