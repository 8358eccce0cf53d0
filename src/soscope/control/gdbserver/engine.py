# SPDX-License-Identifier: Apache-2.0
"""The breakpoint engine of one process whose stub may stop all its threads together.

`family` handles processes that are created and end. It passes each stop of a thread to the engine
of the memory that the thread runs in.
"""

from __future__ import annotations

from soscope.control.breakpoints import watch
from soscope.control.breakpoints.images import GuestMemory
from soscope.control.breakpoints.program import Company
from soscope.control.breakpoints.watch import Armed, CallWatch, EntryPoints
from soscope.control.gdbserver.guard import SIGSEGV, SIGTRAP
from soscope.control.gdbserver.run import GdbserverMemory
from soscope.control.qemu.engine import NOT_FURTHER, Engine
from soscope.control.qemu.program import RemoteRun
from soscope.entry.remote import packets
from soscope.entry.remote.packets import RemoteStop, process_of, tid_of
from soscope.entry.remote.stub import RemoteStub
from soscope.errors import RemoteError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


_THUMB2 = 3  # the protocol's kind of a breakpoint of four bytes

WHILE_UNMAPPED = "calls of a child were not seen that was made while images were unmapped"


class GdbserverCompany(Company):
    """The owner of all processes of the stub."""

    def handle(self, stop: RemoteStop) -> None:
        """Handle a stop of any process."""
        raise NotImplementedError


class GdbserverEngine(Engine):
    """One memory, and the processes that have it: `pid` is its owner for the stub.

    `home` is a thread of that process, by the stub's name.
    """

    _company: GdbserverCompany
    _is_lifted = False  # while the loader unmaps images
    _is_to_outlive_us = False

    def __init__(
        self,
        stub: RemoteStub,
        memory: GuestMemory,
        run: RemoteRun,
        company: GdbserverCompany,
        parent: GdbserverEngine | None = None,
    ) -> None:
        """Prepare the engine. `parent` is the engine of the process that has forked this one.

        Raises RemoteError.
        """
        self.home = stub.thread
        self.pid = stub.pid
        self._parent = parent
        # While a child shares the memory: the breakpoints that the stub knew when the child was
        # made, and the bytes displaced by later ones.
        self._shared: frozenset[int] = frozenset()
        self._displaced: dict[int, bytes] = {}
        super().__init__(stub, memory, run, company)

    @property
    def keeps_threads(self) -> bool:
        """Return whether a stop of one thread stops all.

        Stubs with QNonStop do so by default.
        """
        return self._stub.can.has("QNonStop")

    @property
    def has_slots(self) -> bool:
        """Return whether slots lead to soscope and can be restored only by packets."""
        return isinstance(self._memory, GdbserverMemory) and self._slots.changes_slots

    @property
    def has_started(self) -> bool:
        """Return whether the program's first images are loaded."""
        return self._hooks.has_started

    @property
    def points(self) -> list[int]:
        """The addresses of its breakpoints."""
        return self._points.addresses

    @property
    def _guarded(self) -> frozenset[str]:
        can = self._stub.can
        guarded = frozenset() if self.keeps_threads else watch.THREADS
        if can.has("fork-events") and can.has("vfork-events"):
            return guarded
        return guarded | watch.PROCESSES

    def join(self) -> None:
        """Begin with a running program, whose images are loaded and relocated already."""
        self._is_to_outlive_us = True
        self._hooks.look_at_list()
        if not self._hooks.has_started:
            raise RemoteError("the program's loader is at work: its images are not known yet")
        self._stub.resume()

    # ---- processes ----

    def forked(self, thread: str, creator: int) -> GdbserverEngine:
        """Return the engine of a chosen child that has a copy of this memory.

        `thread` is the child's first thread, and `creator` the thread that has made it. Raises
        RemoteError.
        """
        memory = GdbserverMemory(self._stub, self._memory.coding)
        child = GdbserverEngine(self._stub, memory, self.run, self._company, self)
        child._points.know(self._points)
        child._hooks.inherit(self._hooks)
        child._is_lifted = self._is_lifted
        child._is_to_outlive_us = self._is_to_outlive_us
        if self._is_lifted:
            self._company.say(WHILE_UNMAPPED)
        child._calls.copy_from(self._calls, creator, tid_of(thread))
        return child

    def _make_watch(self) -> CallWatch:
        if self._parent is None:
            return super()._make_watch()
        watch = self._parent._slots.forked(self._memory, self._points)
        if watch is None:
            raise RemoteError(f"engine {self._parent._slots.name} does not follow children")
        return watch

    def _make_entries(self) -> EntryPoints:
        if self._parent is None:
            return super()._make_entries()
        return self._parent._entries.forked(self._points)

    def go_on_from(self, before: GdbserverEngine) -> None:
        """Share with `before` the list of functions that were not seen, for all programs."""
        self._entries.go_on_from(before._entries)

    def share(self, thread: str, creator: str) -> None:
        """Let a vfork child run in this memory, while its `creator` waits."""
        self.home = creator
        if not self._shared:
            self._shared = frozenset(self.points)
        self._calls.inherit(self._calls, tid_of(creator), tid_of(thread))

    def move(self, thread: str) -> None:
        """Note that only a child has this memory by now. `thread` is its thread.

        The stub's list of the child's breakpoints dates from the time when the child was made, so
        it is brought up to date.
        """
        stub, size = self._stub, self._convention.breakpoint
        self.home, self.pid = thread, process_of(thread)
        stub.choose(thread)
        points = frozenset(self.points)
        for addr in self._shared - points:
            stub.remove(addr, size)
        for addr in points - self._shared:
            if stub.write(addr, self._displaced.get(addr, b"")):
                stub.insert(addr, size)
        self.stop_sharing()

    def stop_sharing(self) -> None:
        """Note that only one process has this memory again."""
        self._shared = frozenset()
        self._displaced.clear()

    def clean_copy(self) -> None:
        """Restore the memory of a chosen forked child to what it would be without soscope."""
        self._slots.clean_copy()
        self._lift_in_child()

    def lift_for(self, child: str) -> None:
        """Restore the memory while a detached child shares it."""
        self._slots.give_back()
        self._points.lift()
        self._stub.choose(child)
        self._lift_in_child()

    def _lift_in_child(self) -> None:
        """Remove all breakpoints in the chosen child, which has its parent's breakpoints."""
        for addr in self._points.addresses:
            self._stub.remove(addr, self._convention.breakpoint)

    def put_down(self) -> None:
        """Undo `lift_for`."""
        self._points.put_down()
        if not self._recorder.is_stopped:
            self._slots.take_again()

    def leave(self) -> None:
        """Note that no process has this memory any more."""
        self.is_over = True
        self._hooks.leave()

    # ---- stops ----

    def _handle(self, stop: RemoteStop) -> None:
        self._company.handle(stop)

    def take(self, stop: RemoteStop) -> None:
        """Handle a stop of a thread that has this memory, or the end of the first process."""
        if stop.kind == packets.SIGNAL and self.keeps_threads:
            self._tid = stop.tid
        if process_of(stop.thread):
            self._pid = process_of(stop.thread)
        super()._handle(stop)

    def _insert_point(self, addr: int) -> None:
        if self._shared:
            self._at_home(self._keep_displaced, addr)
        self._at_home(self._stub.insert, addr)

    def _keep_displaced(self, addr: int, size: int) -> None:
        self._displaced[addr] = self._stub.read(addr, 4 if size == _THUMB2 else size)

    def _remove_point(self, addr: int) -> None:
        self._at_home(self._stub.remove, addr)
        self._late.gone(addr)

    def _at_home(self, change: Callable[[int, int], None], addr: int) -> None:
        """Change a breakpoint in the list of the process that owns the memory.

        The stub has a list for each process. The list of a child that shares its parent's memory
        does not matter, because it ends with the sharing.
        """
        stub, size = self._stub, self._convention.breakpoint
        thread = stub.thread
        if stub.pid == self.pid:
            change(addr, size)
            return
        stub.choose(self.home)
        change(addr, size)
        stub.choose(thread)

    def _at_point(self, pc: int) -> None:
        if pc == self._hooks.brk and self.keeps_threads:
            if self._hooks.is_deleting:
                # A stub that cannot remove a breakpoint from unmapped memory believes that it is
                # still there.
                self._points.lift()
                self._is_lifted = True
            elif self._is_lifted:
                self._hooks.look_at_list()
                self._points.put_down()
                self._is_lifted = False
        super()._at_point(pc)

    def _prepare_for_threads(self) -> bool:
        if not self._is_to_outlive_us:
            return super()._prepare_for_threads()
        # A soscope that makes threads enter the stub one by one traces the process, and would take
        # it along when killed.
        self._give_all_back()
        self._company.say(NOT_FURTHER)
        self._detach()
        return False

    def _called(self, armed: Armed, pc: int) -> None:
        if not self._company.is_leaving:
            super()._called(armed, pc)
        elif self._slots.send(armed, pc):  # each further stop is a chance to detach
            self._stub.resume()
        else:
            self._go_on(pc)

    def _step(self, pc: int) -> RemoteStop:
        if not self.keeps_threads:
            return super()._step(pc)
        # It stops there again. No other thread runs meanwhile.
        self._at_home(self._stub.remove, pc)
        stop = self._stub.step()
        if stop.kind == packets.SIGNAL:
            self._at_home(self._stub.insert, pc)
        elif self._shared:  # the child was killed; its parent has the memory
            self._stub.choose(self.home)
            self._stub.insert(pc, self._convention.breakpoint)
        return stop

    # ---- the end ----

    def is_ours(self, stop: RemoteStop) -> bool:
        """Return whether a thread has stopped because of soscope, and for no other reason."""
        if stop.kind != packets.SIGNAL or stop.number not in (SIGTRAP, SIGSEGV):
            return False
        pc = self._stub.get(self._convention.pc)
        return pc in self._points or self._slots.at_fault(pc) is not None

    def send_on(self) -> None:
        """Move the chosen thread on if it is at a breakpoint or address of soscope's."""
        pc = self._stub.get(self._convention.pc)
        armed = self._slots.at_fault(pc)
        if armed is None and pc in self._points:
            armed = self._slots.at_point(pc)
        if armed is not None:
            self._slots.send(armed, pc)

    def give_back_slots(self) -> None:
        """Restore the slots to what they would be without soscope."""
        self._slots.give_back()

    def give_all_back(self) -> None:
        """Restore the memory to what it would be without soscope. One of its threads is chosen."""
        self._give_all_back()
