# SPDX-License-Identifier: Apache-2.0
"""The interface of a watch, which notices calls through slots, to its engine.

The engine handles the program's stops, calls and returns. A watch changes the program so that it
stops at calls. It knows which stop is which call, and how the thread goes on from there.
"""

from __future__ import annotations

from soscope.control.breakpoints.images import CalledSlot, ForeignImage
from soscope.control.outcome import EngineVerdict
from soscope.control.remote.guest import GuestMemory
from soscope.control.settings import ENTRIES
from soscope.entry.breakpoint import Points
from soscope.entry.remote.convention import Convention
from soscope.entry.remote.stub import RemoteStub
from soscope.wire import layout


class Armed:
    """One slot whose calls are noticed. `number` is that of its record, -1 before it has one.

    `call` is the treatment of its calls. `runs_on` is set if the thread is at the function
    already. `tells_thread` is set if soscope's code has put the thread pointer into a register.
    `is_part` is set if some calls through the slot may not be noticed.
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
    """A watch of one program. The methods that do nothing here are optional.

    `notices_slots` is set if slots of images are to be hooked at all. `for_one_thread` is the
    name of an engine that loses calls of several threads at once, or "". `changes_slots` is set
    if the program cannot go on without soscope before `give_back`. `faults` is set if a call
    causes a fault.
    """

    name = ""
    for_one_thread = ""
    notices_slots = True
    changes_slots = False
    faults = False

    def hook(self, slot: CalledSlot, image: ForeignImage, call: object) -> Armed | int:
        """Notice calls through a slot. Return why that is not possible: a REFUSED_ of `layout`."""
        raise NotImplementedError

    def hook_shared(self, _slot: CalledSlot, _image: ForeignImage, _call: object) -> Armed | int:
        """Notice calls through a slot whose address is also used otherwise than for calls.

        Return why that is not possible, as `hook` does.
        """
        return layout.REFUSED_ADDRESS_TAKEN

    def enters(self, _pc: int) -> bool:
        """Return whether a thread must reach the function before all arguments are in place."""
        return False

    def at_fault(self, _pc: int) -> Armed | None:
        """Return the slot whose call caused a fault, None if the fault is the program's own."""
        return None

    def at_point(self, _pc: int) -> Armed | None:
        """Return the slot that a thread at a breakpoint is about to call through, None if none."""
        return None

    def return_addr(self, _pc: int) -> int | None:
        """Return the return address of a call at `_pc`.

        It is None if the return address is in the usual place of the machine.
        """
        return None

    def send(self, armed: Armed, pc: int) -> bool:
        """Move the thread that stopped at `pc` on to the function.

        Return False if the instruction at `pc` must run, and does that.
        """
        raise NotImplementedError

    @property
    def is_followed(self) -> bool:
        """Return whether the thread just moved on must be single-stepped."""
        return False

    def has_stepped(self) -> bool:
        """Note a step of a single-stepped thread. Return whether the thread may run on."""
        return True

    def is_out_of_sight(self) -> None:
        """Note that single-stepping of a thread was given up before it was done."""

    def remarks(self) -> list[str]:
        """Return further remarks on how calls were noticed."""
        return []

    def forget(self, image: ForeignImage) -> None:
        """Drop the slots of an image that was unloaded."""

    def verdict(self) -> EngineVerdict | None:
        """Return whether two engines agree, or None if there is only one."""
        return None

    def give_back(self) -> None:
        """Restore the program's memory to what it would be without soscope. May be called twice."""

    def give_back_in(self, _memory: GuestMemory) -> None:
        """Restore a copy of the program's memory, which has no breakpoints, in the same way."""

    def take_again(self) -> None:
        """Undo `give_back`."""

    def forked(self, _memory: GuestMemory, _points: Points) -> CallWatch | None:
        """Return a copy for a forked process, with its memory and breakpoints.

        Return None if the watch does not support that.
        """
        return None

    def clean_copy(self) -> None:
        """Restore a copy of the program's memory, which the stub accesses at this moment."""

    def retire(self) -> bool:
        """Stop noticing calls, at a stop at one. Return False if its thread must be moved on."""
        return False


class NoSlots(CallWatch):
    """Notices no calls through slots, if only functions' entry points are requested."""

    name = ENTRIES
    notices_slots = False

    def forked(self, _memory: GuestMemory, _points: Points) -> CallWatch:
        """Return a copy for a forked process."""
        return self


class Sender:
    """Moves a stopped thread on to a function, as stubs do."""

    __slots__ = ("_convention", "_memory", "_stub")

    def __init__(self, stub: RemoteStub, convention: Convention, memory: GuestMemory) -> None:
        self._stub = stub
        self._convention = convention
        self._memory = memory

    def send(self, target: int, place: int) -> None:
        """Move the thread to `target`. `place` is the descriptor's address if there is one."""
        stub, convention = self._stub, self._convention
        stub.put(convention.pc, target)
        if convention.target:
            stub.put(convention.target, target)
        if convention.state is not None:  # bit 0 of the address is the instruction set
            name, bit = convention.state
            state = stub.get(name) & ~(1 << bit)
            stub.put(name, state | (target & 1) << bit)
            stub.put(convention.pc, target & ~1)
        self._put_descriptor(place)

    def copy_for(self, memory: GuestMemory) -> Sender:
        """Return a copy for another process."""
        return Sender(self._stub, self._convention, memory)

    def comes_from_slot(self, pc: int) -> bool:
        """Return whether the thread came to `pc` through a slot, as far as registers tell."""
        target = self._convention.target
        return not target or self._stub.get(target) == pc

    def jump(self, target: int) -> None:
        """Move the thread to code that is no function."""
        self._stub.put(self._convention.pc, target)

    def _put_descriptor(self, place: int) -> None:
        stub, convention = self._stub, self._convention
        size = self._memory.coding.word.size
        for number, name in enumerate(convention.descriptor, 1):
            stub.put(name, self._memory.word(place + number * size))
