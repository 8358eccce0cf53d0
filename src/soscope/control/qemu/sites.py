# SPDX-License-Identifier: Apache-2.0
"""The engine `slot` for machines whose stub cannot set registers: slots lead to soscope's code.

A call runs through that code on its way to the function, whose address is in the slot's cell. All
calls run one common instruction, which has the only breakpoint, and a register tells which slot
it was. The thread goes on from there without help. Without the breakpoint the code only makes the
call take longer, so children and detached programs can go on with it.

The loader must store later bindings in the cell. If a relocation has the address of the slot, it
is changed to the address of the cell. On MIPS there is no relocation: the loader counts words
from the beginning of the GOT, and the words without symbols come first. soscope changes their
number so that the loader counts to the cells.
"""

from __future__ import annotations

from types import ModuleType

from soscope.control.breakpoints.images import CalledSlot, ForeignImage
from soscope.control.remote.guest import GuestMemory
from soscope.control.remote.sites import SiteWatch
from soscope.control.remote.watch import Armed, CallWatch
from soscope.control.settings import SLOT
from soscope.entry.breakpoint import Points
from soscope.entry.remote.stub import RemoteStub
from soscope.errors import RemoteError
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


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


class DetouredSlots(CallWatch):
    """All slots of one program that lead to soscope's code."""

    __slots__ = (
        "_armed",
        "_cells",
        "_code",
        "_free",
        "_images",
        "_is_given_back",
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
        self._images: dict[ForeignImage, _Detours] = {}
        self._is_given_back = False
        points.want(place + shapes.STOP)

    def _cell(self, number: int) -> int:
        return self._cells + number * self._memory.coding.word.size

    def hook(self, slot: CalledSlot, image: ForeignImage, call: object) -> Armed | int:
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
        armed = self._armed[cell] = Detoured(slot, image, call)
        return armed

    def hook_shared(self, slot: CalledSlot, image: ForeignImage, call: object) -> Armed | int:
        """Put breakpoints where code calls through a slot that is also compared or passed on."""
        return self._sites.hook_shared(slot, image, call)

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

    def _count_to_cells(self, detours: _Detours, image: ForeignImage) -> None:
        """Let the loader count to cells, if an image has unbound slots that it finds by counting.

        All of these slots lead to soscope's code then, since the loader changes their words no
        more.
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

    def give_back(self) -> None:
        """Restore all slots to what they would be without soscope. May be called twice."""
        if not self._is_given_back:
            self._is_given_back = True
            self.give_back_in(self._memory)

    def give_back_in(self, memory: GuestMemory) -> None:
        """Restore a copy of the program's memory to what it would be without soscope."""
        for detours in self._images.values():
            for addr, before, _ in detours.numbers:
                memory.write_word(addr, before)
            for addr, (cell, leads) in detours.slots.items():
                if memory.word(addr) == leads:
                    memory.write_word(addr, memory.word(cell))

    def clean_copy(self) -> None:
        """Restore the slots in a copy of the program."""
        if not self._is_given_back:
            self.give_back()
            self._is_given_back = False  # the program itself keeps its hooks

    def take_again(self) -> None:
        """Undo `give_back`. The present values of the slots become the values of the cells."""
        if not self._is_given_back:
            return
        self._is_given_back = False
        memory = self._memory
        for detours in self._images.values():
            for addr, (cell, _) in detours.slots.items():
                memory.write_word(cell, memory.word(addr))
            for addr, _, now in detours.numbers:
                memory.write_word(addr, now)
            for addr, (_, leads) in detours.slots.items():
                memory.write_word(addr, leads)

    def forget(self, image: ForeignImage) -> None:
        """Drop the slots of an image that was unloaded."""
        self._sites.forget(image)
        detours = self._images.pop(image, None)
        if detours is not None:
            for cell, _ in detours.slots.values():
                self._armed.pop(cell, None)
                self._free.append((cell - self._cells) // self._memory.coding.word.size)
