# SPDX-License-Identifier: Apache-2.0
"""How calls through slots are noticed: what the engine asks of each watch.

The engine knows the program's stops, calls and returns. A watch knows what is changed in the
program so that it stops at calls, which stop is which call, and how the thread goes on from there.
"""

from __future__ import annotations

from soscope.control.outcome import EngineVerdict
from soscope.control.remote.guest import GuestMemory
from soscope.control.remote.images import CalledSlot, ForeignImage
from soscope.control.settings import ENTRIES
from soscope.entry.breakpoint.points import Points
from soscope.entry.remote.convention import Convention
from soscope.entry.remote.stub import RemoteStub
from soscope.wire import layout


class Armed:
    """One slot whose calls are noticed. `number` is its record's, -1: it has none yet.

    `call` is how its calls are treated. `runs_on`: the thread is at the function already.
    `tells_thread`: it has its thread pointer where code of ours leaves it. `is_part`: calls
    through the slot may be made where they are not noticed.
    """

    __slots__ = ("call", "image", "is_part", "number", "slot")

    runs_on = False
    tells_thread = False

    def __init__(self, slot: CalledSlot, image: ForeignImage, call: object) -> None:
        self.slot = slot
        self.image = image
        self.number = -1
        self.is_part = False
        self.call = call


class CallWatch:
    """One watch, of one program: what does nothing here is not needed by each.

    `notices_slots`: the slots of images are to be hooked at all. `for_one_thread` is the
    engine that loses calls where several threads make some at once, "": none does.
    `changes_slots`: the program cannot go on without us before `give_back`. `faults`: a call is a
    fault.
    """

    name = ""
    for_one_thread = ""
    notices_slots = True
    changes_slots = False
    faults = False

    def hook(self, slot: CalledSlot, image: ForeignImage, call: object) -> Armed | int:
        """Have calls through a slot noticed; return why they cannot be, a REFUSED_ of `layout`."""
        raise NotImplementedError

    def hook_shared(self, _slot: CalledSlot, _image: ForeignImage, _call: object) -> Armed | int:
        """Do so for a slot that holds a function's address for others as well."""
        return layout.REFUSED_ADDRESS_TAKEN

    def enters(self, _pc: int) -> bool:
        """Return whether a thread has to reach the function before its arguments are all there."""
        return False

    def at_fault(self, _pc: int) -> Armed | None:
        """Return the slot whose call a fault is; None: it is the program's own."""
        return None

    def at_point(self, _pc: int) -> Armed | None:
        """Return the slot whose call a thread is about to make at a point, None for no call."""
        return None

    def return_addr(self, _pc: int) -> int | None:
        """Return where a call returns to; None: to where functions do that are entered."""
        return None

    def send(self, armed: Armed, pc: int) -> bool:
        """Have the thread that stopped at `pc` go on at the function.

        False: the instruction at `pc` has to run, and does that.
        """
        raise NotImplementedError

    @property
    def is_followed(self) -> bool:
        """Return whether the thread that was just sent on is to be watched step by step."""
        return False

    def has_stepped(self) -> bool:
        """Take note of a step of a watched thread; return whether the thread may run on."""
        return True

    def is_out_of_sight(self) -> None:
        """Hear that such a thread is watched no more before it may run by itself."""

    def remarks(self) -> list[str]:
        """Say what else is to be known of how calls were noticed."""
        return []

    def forget(self, image: ForeignImage) -> None:
        """Forget the slots of an image that is gone."""

    def verdict(self) -> EngineVerdict | None:
        """Return whether two engines agree, None where there is but one."""
        return None

    def give_back(self) -> None:
        """Have the program's memory as it would be without us. May be called twice."""

    def give_back_in(self, _memory: GuestMemory) -> None:
        """Do so in a copy of the program's memory, which has no breakpoints."""

    def take_again(self) -> None:
        """Undo `give_back`."""

    def forked(self, _memory: GuestMemory, _points: Points) -> CallWatch | None:
        """Return the same of a process that was forked, with its memory and points.

        None: there is no such thing.
        """
        return None

    def clean_copy(self) -> None:
        """Have a copy of the program's memory, which is asked for now, as without us."""

    def retire(self) -> bool:
        """Have no call noticed any more, from a stop at one. False: its thread is to be sent on."""
        return False


class NoSlots(CallWatch):
    """Notices no call through a slot, where only functions' entry points are asked for."""

    name = ENTRIES
    notices_slots = False

    def forked(self, _memory: GuestMemory, _points: Points) -> CallWatch:
        """Return the same of a process that was forked."""
        return self


class Sender:
    """Has a thread that has stopped go on at a function, as stubs do."""

    __slots__ = ("_convention", "_memory", "_stub")

    def __init__(self, stub: RemoteStub, convention: Convention, memory: GuestMemory) -> None:
        self._stub = stub
        self._convention = convention
        self._memory = memory

    def send(self, target: int, place: int) -> None:
        """Send it to `target`; `place` is where that is the first word of a descriptor."""
        stub, convention = self._stub, self._convention
        stub.put(convention.pc, target)
        if convention.target:
            stub.put(convention.target, target)
        if convention.state is not None:  # the lowest bit of an address says which code is there
            name, bit = convention.state
            state = stub.get(name) & ~(1 << bit)
            stub.put(name, state | (target & 1) << bit)
            stub.put(convention.pc, target & ~1)
        self._put_descriptor(place)

    def copy_for(self, memory: GuestMemory) -> Sender:
        """Return the same of another process."""
        return Sender(self._stub, self._convention, memory)

    def comes_from_slot(self, pc: int) -> bool:
        """Return whether a slot has led it to `pc`, as far as registers tell."""
        target = self._convention.target
        return not target or self._stub.get(target) == pc

    def jump(self, target: int) -> None:
        """Send it to code that is no function."""
        self._stub.put(self._convention.pc, target)

    def _put_descriptor(self, place: int) -> None:
        stub, convention = self._stub, self._convention
        size = self._memory.coding.word.size
        for number, name in enumerate(convention.descriptor, 1):
            stub.put(name, self._memory.word(place + number * size))
