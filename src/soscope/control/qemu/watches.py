# SPDX-License-Identifier: Apache-2.0
"""The engines that stop at PLT entries or at faults, and a check of two engines."""

from __future__ import annotations

from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.isa import part
from soscope.control.breakpoints.images import CalledSlot, GuestMemory, LoadedElf
from soscope.control.breakpoints.watch import (
    Armed,
    CallSpec,
    CallWatch,
    ChangedSlots,
    Sender,
    without,
)
from soscope.control.outcome import EngineVerdict
from soscope.control.qemu.sites import SiteWatch
from soscope.control.settings import POISON, SLOT
from soscope.entry.breakpoint import Points
from soscope.model.arch import Arch
from soscope.wire import layout

# Run two engines on one program and compare which calls each of them notices (`--check`).
#
#     a call ─► its site, which counts it ─► where the slot leads ─► the other engine
#
# The program runs once, so that differences between two runs do not matter. One of the two engines
# records calls, and the other one only counts them. Slots that are code (the BSS PLT of PowerPC)
# have no address that could be changed. Their calls are not compared, and the verdict tells that.

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

    def hook(self, slot: CalledSlot, image: LoadedElf, spec: CallSpec) -> Armed | int:
        """Let both engines notice the calls of a slot. Only one result gets a slot number."""
        by_site = self._at_sites.hook(slot, image, spec)
        by_slot = self._at_slots.hook(slot, image, spec)
        if isinstance(by_site, Armed) and by_slot == layout.REFUSED_TEXT:
            self._alone[image.name] = self._alone.get(image.name, 0) + 1
            self._codes.add(slot.addr)
            return by_site
        return by_site if self.name == self._at_sites.name else by_slot

    def hook_shared(self, slot: CalledSlot, image: LoadedElf, spec: CallSpec) -> Armed | int:
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

    def forget(self, image: LoadedElf) -> None:
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
        """Count no further calls, except calls that are under way."""
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


# The engine `slot`: slots lead to their PLT entries, which have breakpoints, as in ltrace.
#
#     call ─► stub ─► slot ─► its entry, a point ─► the function      … or, while it is unbound:
#                            its entry, a point ─► the resolver, which binds the slot
#                                                  its end, a point: the slot is ours again
#
# The value that the resolver stores is read at the resolver's last instruction. Each image's .plt
# or GOT has the resolver's address. So soscope sees a slot that is called again before its first
# call has returned, and slots that were bound before the attach. The program's slots have to be
# restored at the end. Otherwise slots that nothing binds again would lead to a resolver that is
# gone.
#
# With `steps` a thread is single-stepped through the resolver until the value of its slot changes,
# as the plan for ltrace on PowerPC preferred it. That needs no knowledge of the resolver's code. If
# a signal or another breakpoint interrupts the stepping, the breakpoint at the resolver's end
# remains.

_RESOLVER = 512  # bytes of code
_BRANCHES = 4096


class PltSlot(Armed):
    """One slot. `entry` is its PLT entry, `target` its function's address, 0 if it is unbound."""

    __slots__ = ("entry", "target")

    def __init__(self, slot: CalledSlot, image: LoadedElf, spec: CallSpec, entry: int) -> None:
        super().__init__(slot, image, spec)
        self.entry = entry
        self.target = 0


class PltWatch(ChangedSlots):
    """The slots of one program that lead to their PLT entries."""

    __slots__ = (
        "_entries",
        "_followed",
        "_images",
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
        self._images: dict[LoadedElf, tuple[dict[int, int], int]] = {}
        self._unbound: set[PltSlot] = set()  # called slots that are not bound yet
        self._steps = steps
        self._followed: PltSlot | None = None
        self._taken = [0, 0, 0]  # bound while stepping, steps, bound unseen

    @staticmethod
    def is_possible(arch: Arch) -> bool:
        """Return whether soscope can find the resolver on a machine."""
        return part(arch, "resolver") is not None

    def hook(self, slot: CalledSlot, image: LoadedElf, spec: CallSpec) -> Armed | int:
        """Make a slot lead to its PLT entry, and put a breakpoint there."""
        if slot.is_code:
            return layout.REFUSED_TEXT
        if image not in self._images:
            self._images[image] = self._look_at(image)
        entries, end = self._images[image]
        entry = entries.get(slot.addr - image.linked.load_bias)
        if entry is None:
            return layout.REFUSED_NO_SITE
        armed = PltSlot(slot, image, spec, entry + image.linked.load_bias)
        if self._memory.word(slot.addr) == armed.entry and not end:
            return layout.REFUSED_NO_SITE
        if not self._take(armed):
            return layout.REFUSED_WRITE
        self._entries[armed.entry] = armed
        self._points.want(armed.entry)
        return armed

    def _look_at(self, image: LoadedElf) -> tuple[dict[int, int], int]:
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

    def forget(self, image: LoadedElf) -> None:
        """Drop the slots of an image that was unloaded."""
        for entry, armed in without(image, self._entries):
            self._unbound.discard(armed)
            self._points.leave(entry)
        _, end = self._images.pop(image, ({}, 0))
        if end:
            self._points.leave(end)

    def give_back_in(self, memory: GuestMemory) -> None:
        """Restore a copy of the program's memory to what it would be without soscope."""
        for armed in self._entries.values():
            place = armed.slot.addr
            if armed.target and memory.word(place) == armed.entry:
                memory.write_word(place, armed.target)

    def _take_all(self) -> None:
        for armed in self._entries.values():
            self._take(armed)


# The engine `poison`: each slot leads to an unmapped address of its own.
#
# A call through a slot, by whatever stub, causes a fault at that address, which tells which slot it
# was. The thread is moved on to the function, and the fault is discarded. So a call costs the
# program only its own stop, however many slots there are. An emulator checks all breakpoints at
# each indirect jump, so there are few of them: one for each return address of open calls.
#
# A slot that the loader may bind later keeps its unmapped address. Its relocation is changed so
# that the loader stores the function's address in a cell elsewhere, which is read at each call.

_FIRST, _END = 0x1000, 0x10000  # addresses at which programs have nothing
_CELL = 32  # bytes
_MOST_ENTRIES = 200  # because an emulator checks all breakpoints at each indirect jump
_APART = 4  # bytes between two addresses: no processor rounds jumps further


class FaultingSlot(Armed):
    """One slot that leads to an unmapped address.

    `before` is its former value. `cell` is the address at which the loader stores the function's
    address, 0 if the loader will not do that any more. `unmapped` is its present value.
    """

    __slots__ = ("before", "cell", "unmapped")

    def __init__(
        self, slot: CalledSlot, image: LoadedElf, spec: CallSpec, *, unmapped: int, cell: int
    ) -> None:
        super().__init__(slot, image, spec)
        self.before = 0
        self.unmapped = unmapped
        self.cell = cell

    def copy(self) -> FaultingSlot:
        """Return the same slot for a forked process."""
        copied = FaultingSlot(
            self.slot, self.image, self.spec, unmapped=self.unmapped, cell=self.cell
        )
        copied.number, copied.is_part, copied.before = self.number, self.is_part, self.before
        return copied


class FaultingSlots(ChangedSlots):
    """All slots of one program that lead to unmapped addresses."""

    __slots__ = (
        "_behind",
        "_cells",
        "_cells_end",
        "_entries",
        "_free",
        "_memory",
        "_next",
        "_points",
        "_send",
        "armed",
    )

    name = POISON
    changes_slots = True
    faults = True

    def __init__(
        self,
        memory: GuestMemory,
        sender: Sender,
        cells: int,
        size: int,
        *,
        words: int,
        points: Points | None,
    ) -> None:
        """`cells` are `size` bytes of the program that belong to soscope. A slot has `words` words.

        With `points`, slots that are code get breakpoints. Without, another watch handles them.
        """
        self._points = points
        self._entries: dict[int, Armed] = {}  # slots that are code, by address
        self._behind = range(
            memory.coding.word.size, words * memory.coding.word.size, memory.coding.word.size
        )
        self._memory = memory
        self._send = sender
        self._cells = cells
        self._cells_end = cells + size
        self._next = _FIRST
        self._free: list[int] = []
        self.armed: dict[int, FaultingSlot] = {}  # unmapped address -> slot

    @staticmethod
    def is_possible(memory: GuestMemory) -> bool:
        """Return whether the program has no memory at the addresses to be used."""
        return memory.is_free(_FIRST, _END)

    def hook(self, slot: CalledSlot, image: LoadedElf, spec: CallSpec) -> Armed | int:
        """Make a slot lead to an unmapped address."""
        if slot.is_entry and self._points is not None:
            if len(self._entries) >= _MOST_ENTRIES:
                return layout.REFUSED_FULL
            entry = self._entries[slot.addr] = Armed(slot, image, spec)
            self._points.want(slot.addr)
            return entry
        if slot.is_code:
            return layout.REFUSED_TEXT
        if self._next >= _END and not self._free:
            return layout.REFUSED_FULL
        cell = 0
        if slot.relocation:
            if self._cells + _CELL > self._cells_end:
                return layout.REFUSED_FULL
            cell = self._cells
            self._cells += _CELL
        unmapped = self._free.pop() if self._free else self._next
        armed = FaultingSlot(slot, image, spec, unmapped=unmapped, cell=cell)
        if not self._take(armed):
            return layout.REFUSED_WRITE
        if unmapped == self._next:
            self._next += _APART
        self.armed[unmapped] = armed
        return armed

    def at_fault(self, pc: int) -> Armed | None:
        """Return the slot whose call caused a fault at `pc`, or None."""
        return self.armed.get(pc)

    def at_point(self, pc: int) -> Armed | None:
        """Return the slot whose code a thread is about to run, or None."""
        return self._entries.get(pc)

    def _take(self, armed: FaultingSlot) -> bool:
        memory, slot = self._memory, armed.slot
        armed.before = memory.word(slot.addr)
        if armed.cell:
            where = armed.cell - armed.image.linked.load_bias
            if not memory.write_word(armed.cell, armed.before):
                return False
            for offset in self._behind:  # of a descriptor; a stub would not use one with 0
                word = memory.word(slot.addr + offset)
                memory.write_word(armed.cell + offset, word)
                memory.write_word(slot.addr + offset, word or 1)
            if not memory.write_word(slot.relocation, where):
                return False
        return memory.write_word(slot.addr, armed.unmapped)

    def send(self, armed: Armed, pc: int) -> bool:
        """Move the thread on to the slot's target. Return False if the slot's own code does so."""
        if pc in self._entries:
            return False
        assert isinstance(armed, FaultingSlot)
        self._send.send(self._target(armed), armed.cell or armed.slot.addr)
        return True

    def _target(self, armed: FaultingSlot) -> int:
        return self._memory.word(armed.cell) if armed.cell else armed.before

    def give_back_in(self, memory: GuestMemory) -> None:
        """Restore a copy of the program's memory to what it would be without soscope."""
        for armed in self.armed.values():
            if armed.cell:
                offset = armed.slot.addr - armed.image.linked.load_bias
                memory.write_word(armed.slot.relocation, offset)
            if memory.word(armed.slot.addr) == armed.unmapped:
                if armed.cell:
                    for offset in self._behind:
                        word = memory.word(armed.cell + offset)
                        memory.write_word(armed.slot.addr + offset, word)
                memory.write_word(armed.slot.addr, self._target(armed))

    def forked(self, memory: GuestMemory, points: Points) -> FaultingSlots:
        """Return a copy for a forked process."""
        copied = FaultingSlots(
            memory,
            self._send.copy_for(memory),
            self._cells,
            self._cells_end - self._cells,
            words=len(self._behind) + 1,
            points=points,
        )
        copied._entries = dict(self._entries)
        copied._next, copied._free = self._next, list(self._free)
        copied.armed = {unmapped: armed.copy() for unmapped, armed in self.armed.items()}
        copied.is_given_back = self.is_given_back
        return copied

    def _take_all(self) -> None:
        for armed in self.armed.values():
            self._take(armed)

    def forget(self, image: LoadedElf) -> None:
        """Drop the slots of an image that was unloaded."""
        self._free += [unmapped for unmapped, _ in without(image, self.armed)]
        for addr, _ in without(image, self._entries):
            if self._points is not None:
                self._points.leave(addr)
