# SPDX-License-Identifier: Apache-2.0
"""The engine `slot`: slots lead to their PLT entries, which have breakpoints, as in ltrace.

    call ─► stub ─► slot ─► its entry, a point ─► the function      … or, while it is unbound:
                           its entry, a point ─► the resolver, which binds the slot
                                                 its end, a point: the slot is ours again

The value that the resolver stores is read at the resolver's last instruction. Each image's .plt
or GOT has the resolver's address. So soscope sees a slot that is called again before its first
call has returned, and slots that were bound before the attach. The program's slots have to be
restored at the end. Otherwise slots that nothing binds again would lead to a resolver that is
gone.

With `steps` a thread is single-stepped through the resolver until the value of its slot changes,
as the plan for ltrace on PowerPC preferred it. That needs no knowledge of the resolver's code. If
a signal or another breakpoint interrupts the stepping, the breakpoint at the resolver's end
remains.
"""

from __future__ import annotations

from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.isa import part
from soscope.control.breakpoints.images import CalledSlot, ForeignImage
from soscope.control.remote.guest import GuestMemory
from soscope.control.remote.watch import Armed, CallWatch, Sender
from soscope.control.settings import SLOT
from soscope.entry.breakpoint import Points
from soscope.model.arch import Arch
from soscope.wire import layout

_RESOLVER = 512  # bytes of code
_BRANCHES = 4096


class PltSlot(Armed):
    """One slot. `entry` is its PLT entry, `target` its function's address, 0 if it is unbound."""

    __slots__ = ("entry", "target")

    def __init__(self, slot: CalledSlot, image: ForeignImage, call: object, entry: int) -> None:
        super().__init__(slot, image, call)
        self.entry = entry
        self.target = 0


class PltWatch(CallWatch):
    """The slots of one program that lead to their PLT entries."""

    __slots__ = (
        "_entries",
        "_followed",
        "_images",
        "_is_given_back",
        "_memory",
        "_part",
        "_points",
        "_send",
        "_steps",
        "_taken",
        "_unbound",
    )

    name = SLOT
    changes_slots = True
    for_one_thread = SLOT  # other threads may use a slot while it is bound

    def __init__(
        self, memory: GuestMemory, sender: Sender, points: Points, arch: Arch, *, steps: bool
    ) -> None:
        self._memory = memory
        self._send = sender
        self._points = points
        self._part = part(arch, "resolver")
        self._entries: dict[int, PltSlot] = {}  # address of the PLT entry -> slot
        # PLT entries by slot (link-time addresses), and the end of the resolver (0 if not known)
        self._images: dict[ForeignImage, tuple[dict[int, int], int]] = {}
        self._unbound: set[PltSlot] = set()  # called slots that are not bound yet
        self._is_given_back = False
        self._steps = steps
        self._followed: PltSlot | None = None
        self._taken = [0, 0, 0]  # bound while stepping, steps, bound unseen

    @staticmethod
    def is_possible(arch: Arch) -> bool:
        """Return whether soscope can find the resolver on a machine."""
        return part(arch, "resolver") is not None

    def hook(self, slot: CalledSlot, image: ForeignImage, call: object) -> Armed | int:
        """Make a slot lead to its PLT entry, and put a breakpoint there."""
        if slot.is_code:
            return layout.REFUSED_TEXT
        if image not in self._images:
            self._images[image] = self._look_at(image)
        entries, end = self._images[image]
        entry = entries.get(slot.addr - image.linked.load_bias)
        if entry is None:
            return layout.REFUSED_NO_SITE
        armed = PltSlot(slot, image, call, entry + image.linked.load_bias)
        if self._memory.word(slot.addr) == armed.entry and not end:
            return layout.REFUSED_NO_SITE
        if not self._take(armed):
            return layout.REFUSED_WRITE
        self._entries[armed.entry] = armed
        self._points.want(armed.entry)
        return armed

    def _look_at(self, image: ForeignImage) -> tuple[dict[int, int], int]:
        assert self._part is not None
        mapped = ElfMap(image.elf)
        word = self._part.resolver_word(mapped)
        resolver = 0 if word is None else self._memory.word(word + image.linked.load_bias)
        end = 0
        if resolver:
            code = self._memory.read(resolver, _RESOLVER)
            distance = self._part.end_of_resolver(code, self._memory.coding.order)
            end = 0 if distance is None else resolver + distance
        if end:
            self._points.want(end)
        return self._part.branches(mapped), end

    def _take(self, armed: PltSlot) -> bool:
        """Make a slot lead to its PLT entry, and keep its value if that was another one."""
        held = self._memory.word(armed.slot.addr)
        if held == armed.entry:
            return True
        armed.target = held
        return self._memory.write_word(armed.slot.addr, armed.entry)

    def at_point(self, pc: int) -> Armed | None:
        """Return the slot whose call a thread is about to make. Take back slots bound meanwhile."""
        for unbound in list(self._unbound):  # at a resolver's end, or later
            self._take(unbound)
            if unbound.target:
                self._unbound.discard(unbound)
        armed = self._entries.get(pc)
        if armed is not None and not self._send.comes_from_slot(pc):
            return None  # the thread only runs through this entry, from one before it
        return armed

    def send(self, armed: Armed, pc: int) -> bool:
        """Move the thread on to the slot's function, or to the code that calls the resolver."""
        assert isinstance(armed, PltSlot)
        if armed.target:
            self._send.send(armed.target, armed.slot.addr)
            return True
        self._unbound.add(armed)
        self._followed = armed if self._steps else None
        assert self._part is not None
        code = self._memory.read(pc, _BRANCHES)
        distance = self._part.way_on(code, self._memory.coding.order)
        if distance is None:
            return False
        self._send.jump(pc + distance)
        return True

    @property
    def is_followed(self) -> bool:
        """Return whether a thread has just been sent to the resolver."""
        return self._followed is not None

    def has_stepped(self) -> bool:
        """Check whether a slot has been bound, and take it back then."""
        followed = self._followed
        assert followed is not None
        self._taken[1] += 1
        self._take(followed)
        if not followed.target:
            return False
        self._unbound.discard(followed)
        self._followed = None
        self._taken[0] += 1
        return True

    def is_out_of_sight(self) -> None:
        """Leave the slot to the breakpoint at the resolver's end."""
        self._followed = None
        self._taken[2] += 1

    def remarks(self) -> list[str]:
        """Return how many slots were bound while single-stepping."""
        bound, steps, unseen = self._taken
        said = [f"the resolver was stepped through: {bound:,} slots bound in {steps:,} steps"]
        said += [f"{unseen:,} slots were bound while it was not stepped through"] * bool(unseen)
        return said if bound or unseen else []

    def forget(self, image: ForeignImage) -> None:
        """Drop the slots of an image that was unloaded."""
        for entry, armed in list(self._entries.items()):
            if armed.image is image:
                del self._entries[entry]
                self._unbound.discard(armed)
                self._points.leave(entry)
        _, end = self._images.pop(image, ({}, 0))
        if end:
            self._points.leave(end)

    def give_back(self) -> None:
        """Restore all slots to what they would be without soscope."""
        if not self._is_given_back:
            self._is_given_back = True
            self.give_back_in(self._memory)

    def give_back_in(self, memory: GuestMemory) -> None:
        """Restore a copy of the program's memory to what it would be without soscope."""
        for armed in self._entries.values():
            place = armed.slot.addr
            if armed.target and memory.word(place) == armed.entry:
                memory.write_word(place, armed.target)

    def clean_copy(self) -> None:
        """Restore the slots in a copy of the program."""
        if not self._is_given_back:
            self.give_back()
            self._is_given_back = False  # the program itself keeps its hooks

    def take_again(self) -> None:
        """Undo `give_back`. The present values of the slots become the values of the cells."""
        if self._is_given_back:
            self._is_given_back = False
            for armed in self._entries.values():
                self._take(armed)
