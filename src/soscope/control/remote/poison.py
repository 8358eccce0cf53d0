# SPDX-License-Identifier: Apache-2.0
"""The engine `poison`: each slot leads to an unmapped address of its own.

A call through a slot, by whatever stub, causes a fault at that address, which tells which slot it
was. The thread is moved on to the function, and the fault is discarded. So a call costs the
program only its own stop, however many slots there are. An emulator checks all breakpoints at
each indirect jump, so there are few of them: one for each return address of open calls.

A slot that the loader may bind later keeps its unmapped address. Its relocation is changed so
that the loader stores the function's address in a cell elsewhere, which is read at each call.
"""

from __future__ import annotations

from soscope.control.breakpoints.images import CalledSlot, ForeignImage
from soscope.control.remote.guest import GuestMemory
from soscope.control.remote.watch import Armed, CallWatch, Sender
from soscope.control.settings import POISON
from soscope.entry.breakpoint import Points
from soscope.wire import layout

_FIRST, _END = 0x1000, 0x10000  # addresses at which programs have nothing
_CELL = 32  # bytes
_MOST_ENTRIES = 200  # because an emulator checks all breakpoints at each indirect jump
_APART = 4  # bytes between two addresses: no processor rounds jumps further


class Poisoned(Armed):
    """One slot that leads to an unmapped address.

    `before` is its former value. `cell` is the address at which the loader stores the function's
    address, 0 if the loader will not do that any more. `poison` is its present value.
    """

    __slots__ = ("before", "cell", "poison")

    def __init__(
        self, slot: CalledSlot, image: ForeignImage, call: object, *, poison: int, cell: int
    ) -> None:
        super().__init__(slot, image, call)
        self.before = 0
        self.poison = poison
        self.cell = cell

    def copy(self) -> Poisoned:
        """Return the same slot for a forked process."""
        copied = Poisoned(self.slot, self.image, self.call, poison=self.poison, cell=self.cell)
        copied.number, copied.is_part, copied.before = self.number, self.is_part, self.before
        return copied


class PoisonedSlots(CallWatch):
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
        "is_given_back",
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
        self.armed: dict[int, Poisoned] = {}  # unmapped address -> slot
        self.is_given_back = False

    @staticmethod
    def is_possible(memory: GuestMemory) -> bool:
        """Return whether the program has no memory at the addresses to be used."""
        return memory.is_free(_FIRST, _END)

    def hook(self, slot: CalledSlot, image: ForeignImage, call: object) -> Armed | int:
        """Make a slot lead to an unmapped address."""
        if slot.is_entry and self._points is not None:
            if len(self._entries) >= _MOST_ENTRIES:
                return layout.REFUSED_FULL
            entry = self._entries[slot.addr] = Armed(slot, image, call)
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
        poison = self._free.pop() if self._free else self._next
        armed = Poisoned(slot, image, call, poison=poison, cell=cell)
        if not self._take(armed):
            return layout.REFUSED_WRITE
        if poison == self._next:
            self._next += _APART
        self.armed[poison] = armed
        return armed

    def at_fault(self, pc: int) -> Armed | None:
        """Return the slot whose call caused a fault at `pc`, or None."""
        return self.armed.get(pc)

    def at_point(self, pc: int) -> Armed | None:
        """Return the slot whose code a thread is about to run, or None."""
        return self._entries.get(pc)

    def _take(self, armed: Poisoned) -> bool:
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
        return memory.write_word(slot.addr, armed.poison)

    def send(self, armed: Armed, pc: int) -> bool:
        """Move the thread on to the slot's target. Return False if the slot's own code does so."""
        if pc in self._entries:
            return False
        assert isinstance(armed, Poisoned)
        self._send.send(self._target(armed), armed.cell or armed.slot.addr)
        return True

    def _target(self, armed: Poisoned) -> int:
        return self._memory.word(armed.cell) if armed.cell else armed.before

    def give_back(self) -> None:
        """Restore all slots to what they would be without soscope. May be called twice."""
        if self.is_given_back:
            return
        self.is_given_back = True
        self.give_back_in(self._memory)

    def give_back_in(self, memory: GuestMemory) -> None:
        """Restore a copy of the program's memory to what it would be without soscope."""
        for armed in self.armed.values():
            if armed.cell:
                offset = armed.slot.addr - armed.image.linked.load_bias
                memory.write_word(armed.slot.relocation, offset)
            if memory.word(armed.slot.addr) == armed.poison:
                if armed.cell:
                    for offset in self._behind:
                        word = memory.word(armed.cell + offset)
                        memory.write_word(armed.slot.addr + offset, word)
                memory.write_word(armed.slot.addr, self._target(armed))

    def clean_copy(self) -> None:
        """Restore the slots in a copy of the program."""
        if not self.is_given_back:
            self.give_back()
            self.is_given_back = False  # the program itself keeps its hooks

    def forked(self, memory: GuestMemory, points: Points) -> PoisonedSlots:
        """Return a copy for a forked process."""
        copied = PoisonedSlots(
            memory,
            self._send.copy_for(memory),
            self._cells,
            self._cells_end - self._cells,
            words=len(self._behind) + 1,
            points=points,
        )
        copied._entries = dict(self._entries)
        copied._next, copied._free = self._next, list(self._free)
        copied.armed = {poison: armed.copy() for poison, armed in self.armed.items()}
        copied.is_given_back = self.is_given_back
        return copied

    def take_again(self) -> None:
        """Undo `give_back`. The present values of the slots become the values of the cells."""
        if self.is_given_back:
            self.is_given_back = False
            for armed in self.armed.values():
                self._take(armed)

    def forget(self, image: ForeignImage) -> None:
        """Drop the slots of an image that was unloaded."""
        for poison, armed in list(self.armed.items()):
            if armed.image is image:
                del self.armed[poison]
                self._free.append(poison)
        for addr, entry in list(self._entries.items()):
            if entry.image is image and self._points is not None:
                del self._entries[addr]
                self._points.leave(addr)
