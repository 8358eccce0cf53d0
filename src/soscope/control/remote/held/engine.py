# SPDX-License-Identifier: Apache-2.0
"""Sees the calls of a program whose stub may hold all its threads, and tell of its children.

fork    a copy of the program's memory: slots are put back in it, and the child is let go
vfork   the child runs in the program's memory: no slot leads to us until it is done
exec    nothing of ours is left
"""

from __future__ import annotations

import time

from soscope.control.exitstatus import ExitStatus
from soscope.control.remote import wanted
from soscope.control.remote.engine import EXECUTED, IN_CHILDREN, NOT_FURTHER, Engine
from soscope.control.remote.held.kept import SIGINT, SIGSEGV, SIGTRAP, without_ours
from soscope.control.remote.held.memory import HeldMemory
from soscope.control.remote.watch import Armed
from soscope.entry.remote import stops
from soscope.entry.remote.stops import RemoteStop
from soscope.errors import RemoteError

BESIDE_CHILDREN = "calls made while a child ran in the program's memory (vfork) were not seen"
LATER = "the stub did not stop the program: its breakpoints go when it stops by itself"
_NATURAL = 0.5  # seconds for a stop of its own
_INTERRUPT = 1.0  # seconds for one that it is told to make
_PATIENCE = 3.0  # in all


class HeldEngine(Engine):
    """One program. `exit` is how it has ended, None before.

    `is_for_guard`: it is to be let go by the guard, when it stops next.
    """

    exit: ExitStatus | None = None
    is_for_guard = False
    _is_lifted = False  # while the loader unmaps images
    _takes_interrupt = False  # it was told to stop
    _lets_go = False
    _is_to_outlive_us = False

    @property
    def keeps_threads(self) -> bool:
        """Say whether all threads stand still at a stop: a stub that can leave that does it."""
        return self._stub.can.has("QNonStop")

    @property
    def _guarded(self) -> frozenset[str]:
        can = self._stub.can
        guarded = frozenset() if self.keeps_threads else wanted.THREADS
        if can.has("fork-events") and can.has("vfork-events"):
            return guarded
        return guarded | wanted.PROCESSES

    def join(self) -> None:
        """Begin with a program that runs already: its images are there and relocated."""
        self._is_to_outlive_us = True
        self._hooks.look_at_list()
        if not self._hooks.has_started:
            raise RemoteError("the program's loader is at work: its images are not known yet")
        self._stub.resume()

    # ---- stops ----

    def _handle(self, stop: RemoteStop) -> None:
        if self._is_event(stop):
            return
        if self._takes_interrupt and stop.kind == stops.SIGNAL and stop.number == SIGINT:
            self._takes_interrupt = False  # ours: the program stays where it is
            return
        if stop.kind == stops.EXITED:
            self.exit = ExitStatus(stop.number, None)
        elif stop.kind == stops.KILLED:
            self.exit = ExitStatus(None, stops.linux_signal(stop.number))
        elif self.keeps_threads:
            self._tid = stop.tid
        super()._handle(stop)

    def _at_point(self, pc: int) -> None:
        if pc == self._hooks.brk and self.keeps_threads:
            if self._hooks.is_deleting:
                # what a stub cannot take out of memory that is gone, it takes for being there
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
        # who has its threads come one by one traces it, and takes it along when killed
        self._give_all_back()
        self._say(NOT_FURTHER)
        self._detach()
        return False

    def _called(self, armed: Armed, pc: int) -> None:
        if not self._lets_go:
            super()._called(armed, pc)
        elif self._slots.send(armed, pc):  # each further stop is a chance to end it there
            self._stub.resume()
        else:
            self._go_on(pc)

    def _step(self, pc: int) -> RemoteStop:
        if not self.keeps_threads:
            return super()._step(pc)
        # it stops there again; nobody else runs meanwhile
        size = self._convention.breakpoint
        self._stub.remove(pc, size)
        stop = self._stub.step()
        if stop.kind == stops.SIGNAL:
            self._stub.insert(pc, size)
        return stop

    def _is_event(self, stop: RemoteStop) -> bool:
        """Handle what is no stop of a thread at an instruction; say whether it was that."""
        facts = stop.facts
        if "exec" in facts:
            self._say(EXECUTED)
            self._detach()
            return True
        if "fork" in facts:
            self._forked(stop.thread, facts["fork"])
        elif "vfork" in facts:
            self._vforked(stop.thread, facts["vfork"])
        elif "vforkdone" in facts:
            self._points.put_down()
            if not self._recorder.is_stopped:
                self._slots.take_again()
        else:
            return False
        self._stub.resume()
        return True

    def _forked(self, parent: str, child: str) -> None:
        """Have a child's memory as it would be without us, and let it go."""
        self._say(IN_CHILDREN)
        self._stub.choose(child)
        self._slots.clean_copy()
        self._points.lift()  # of the child: it has all of its parent's
        self._stub.release(_process(child))
        self._stub.choose(parent)

    def _vforked(self, parent: str, child: str) -> None:
        """Have the memory that both have as it would be, and let the child go."""
        self._say(BESIDE_CHILDREN)
        self._slots.give_back()
        self._points.lift()
        self._stub.choose(child)
        self._points.lift()  # it has those of its parent, by its own name
        self._stub.release(_process(child))
        self._stub.choose(parent)

    # ---- the end ----

    def let_go(self) -> None:
        """Undo all of it, and let the program go on alone. It runs, or is over.

        Raises RemoteError where the stub is gone.
        """
        self._lets_go = True
        end = time.monotonic() + _NATURAL
        while not self.is_over:
            stop = self._stub.wait(max(end - time.monotonic(), 0.0))
            if stop is None:
                break
            if self._is_ours(stop):
                self._finish()
                return
            self._handle(stop)
        # slots that lead to us cannot be left behind: the program is served until it stops
        has_slots = isinstance(self._memory, HeldMemory) and self._slots.changes_slots
        end = time.monotonic() + (_PATIENCE if self.keeps_threads else 0.0)
        while not self.is_over and (has_slots or time.monotonic() < end):
            if self._is_interrupted():
                self._finish()
                return
        if not self.is_over:
            self._leave_orders()

    def _leave_orders(self) -> None:
        """Have the stub let the program go when that stops by itself: it reads packets then."""
        self._slots.give_back()
        if self.keeps_threads:
            size = self._convention.breakpoint
            orders = [b"z0,%x,%x" % (addr, size) for addr in self._points.addresses]
            orders += without_ours(programs=self._stub.can.has("QProgramSignals"))
            self._stub.leave(orders)
        else:
            self.is_for_guard = True
            self._stub.close()
        self._say(LATER)
        self.is_over = self.is_left = True

    def _is_interrupted(self) -> bool:
        """Tell the program to stop, and say whether it does.

        A stub that has just told of a stop does not hear that. One that has heard it sends a
        signal, which has to be taken before the program is let go. An emulator never hears it, and
        takes the byte for a word to say its next stop twice.
        """
        if self.keeps_threads:
            self._stub.interrupt()
            self._takes_interrupt = True
        end = time.monotonic() + _INTERRUPT
        while not self.is_over:
            is_late = time.monotonic() >= end
            stop = self._stub.wait(_NATURAL if is_late else end - time.monotonic())
            if stop is None and is_late:
                break
            if stop is None:
                continue
            if is_late and self._is_ours(stop):
                return True
            self._handle(stop)
            if self.keeps_threads and not self._takes_interrupt:
                return True
        return False

    def _is_ours(self, stop: RemoteStop) -> bool:
        """Say whether a thread has stopped for us, and for nobody else."""
        if stop.kind != stops.SIGNAL or stop.number not in (SIGTRAP, SIGSEGV):
            return False
        if stop.facts.keys() & {"fork", "vfork", "vforkdone", "exec"}:
            return False
        pc = self._stub.get(self._convention.pc)
        return pc in self._points or self._slots.at_fault(pc) is not None

    def _finish(self) -> None:
        if self.keeps_threads:
            # threads that have come to a slot as well, and have not been heard
            for packet in without_ours(programs=self._stub.can.has("QProgramSignals")):
                self._stub.ask(packet)
            for name in self._stub.threads():
                self._stub.choose(name)
                self._send_on()
        else:
            self._send_on()
        self._give_all_back()
        self._detach()

    def _send_on(self) -> None:
        """Send a thread on that stands at an address of ours."""
        pc = self._stub.get(self._convention.pc)
        armed = self._slots.at_fault(pc)
        if armed is None and pc in self._points:
            armed = self._slots.at_point(pc)
        if armed is not None:
            self._slots.send(armed, pc)


def _process(thread: str) -> int:
    return int(thread.lstrip("p").partition(".")[0], 16)
