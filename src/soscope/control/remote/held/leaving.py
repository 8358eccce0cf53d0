# SPDX-License-Identifier: Apache-2.0
"""Detach from all processes that a stub holds: stop them, undo all changes, and resume.

A stop of one thread is enough, because all others are stopped then.
"""

from __future__ import annotations

import time

from soscope.control.remote.held.engine import HeldEngine
from soscope.control.remote.held.family import HeldFamily
from soscope.control.remote.held.kept import is_interrupted, without_ours
from soscope.entry.remote.packets import RemoteStop, process_of
from soscope.entry.remote.stub import RemoteFiles

LATER = "the stub did not stop the program: its breakpoints go when it stops by itself"
_NATURAL = 0.5  # seconds to wait for a stop of its own
_INTERRUPT = 1.0  # seconds to wait for a requested stop
_PATIENCE = 3.0  # seconds in all


class HeldLeaving:
    """Detaches from a family that runs or is over.

    `is_for_guard` is set if the guard has to do it at the program's next stop.
    """

    def __init__(self, family: HeldFamily) -> None:
        self.is_for_guard = False
        self._has_interrupted = False
        self._family = family
        self._stub = family.stub
        self._keeps_threads = family.first.keeps_threads

    def let_go(self) -> None:
        """Undo all changes and let all processes go on. Raises RemoteError if the stub is gone."""
        family = self._family
        family.lets_go = True
        end = time.monotonic() + _NATURAL
        while not family.is_over:
            stop = self._stub.wait(max(end - time.monotonic(), 0.0))
            if stop is None:
                break
            if self._is_ours(stop) and self._knows_all():
                self.finish()
                return
            family.handle(stop)
        # Slots that lead to soscope cannot stay, so the program is served until it stops.
        has_slots = any(engine.has_slots for engine in self._engines())
        end = time.monotonic() + (_PATIENCE if self._keeps_threads else 0.0)
        while not family.is_over and (has_slots or time.monotonic() < end):
            if not self._is_interrupted():
                continue
            if self._knows_all():
                self.finish()
                return
            self._stub.resume()
        if not family.is_over:
            self._leave_orders()

    def _knows_all(self) -> bool:
        """Return whether all processes are known: the event of a new child may wait in the stub."""
        if not self._keeps_threads:
            return True
        names = self._stub.threads()
        return all(self._family.engine_of(name) is not None for name in names)

    def _engines(self) -> list[HeldEngine]:
        return list(dict.fromkeys(self._family.engines.values()))

    def _leave_orders(self) -> None:
        """Send the packets that detach. The stub reads them when the program stops by itself."""
        for engine in self._engines():
            engine.give_back_slots()
        if self._keeps_threads:
            self._stub.leave(self._orders())
        else:
            self.is_for_guard = True
            self._stub.close()
        self._family.say(LATER)
        self._family.is_over = self._family.is_left = True

    def _orders(self) -> list[bytes]:
        orders = without_ours(programs=self._stub.can.has("QProgramSignals"))
        size = self._family.first.run.held.convention.breakpoint
        for engine in self._engines():
            orders.append(b"Hg" + engine.home.encode())
            orders += [b"z0,%x,%x" % (addr, size) for addr in engine.points]
        return orders + [b"D;%x" % pid for pid in self._others()]

    def _others(self) -> list[int]:
        """Return all processes except the last one to detach from, children first."""
        *others, last = sorted(self._family.engines, key=self._family.first_pid.__ne__)[::-1]
        self._stub.thread = self._family.engines[last].home
        return others

    def _is_interrupted(self) -> bool:
        """Request a stop of the program, and return whether it stops.

        A stub that has just reported a stop ignores the request. A stub that takes it sends a
        signal, which has to be taken before the program is detached. An emulator always ignores
        it, and takes the byte as a request to report its next stop twice.
        """
        family = self._family
        if self._keeps_threads:
            self._stub.interrupt()
            self._has_interrupted = True
            family.takes_interrupt = True
        end = time.monotonic() + _INTERRUPT
        while not family.is_over:
            is_late = time.monotonic() >= end
            stop = self._stub.wait(_NATURAL if is_late else end - time.monotonic())
            if stop is None and is_late:
                break
            if stop is None:
                continue
            if is_late and self._is_ours(stop) and self._knows_all():
                return True
            family.handle(stop)
            if self._keeps_threads and not family.takes_interrupt:
                return True
        return False

    def _is_ours(self, stop: RemoteStop) -> bool:
        """Return whether a thread has stopped because of soscope, and for no other reason."""
        if stop.facts.keys() & {"fork", "vfork", "vforkdone", "exec"}:
            return False
        engine = self._family.engine_of(stop.thread)
        return engine is not None and engine.is_ours(stop)

    def _take_interrupts(self) -> None:
        """Take the SIGINTs that a stub has sent to a whole group of processes.

        Processes that have not reported it yet would be killed by it as soon as they are
        detached.
        """
        family, stub = self._family, self._stub
        files = RemoteFiles(stub, 0)
        end = time.monotonic() + _PATIENCE
        for pid in list(family.engines):
            if not is_interrupted(files, pid) or not self._may_go_on(pid):
                continue
            stub.only, family.takes_interrupt = pid, True
            stub.resume()
            while family.takes_interrupt and not family.is_over and time.monotonic() < end:
                stop = stub.wait(_NATURAL)
                if stop is None:
                    stub.interrupt()  # it was taken elsewhere
                else:
                    family.handle(stop)
        stub.only = 0

    def _may_go_on(self, pid: int) -> bool:
        """Return whether a thread of a process does not wait for a vfork child."""
        names = self._stub.threads()
        return any(process_of(name) == pid and name not in self._stub.waiting for name in names)

    def finish(self) -> None:
        """Undo all changes while all are stopped, and let them go on. Raises RemoteError."""
        family, stub = self._family, self._stub
        if self._keeps_threads:
            if self._has_interrupted and len(family.engines) > 1:
                self._take_interrupts()
            # Threads may have come to a slot as well without being reported yet.
            for packet in without_ours(programs=stub.can.has("QProgramSignals")):
                stub.ask(packet)
            for name in stub.threads():
                engine = family.engine_of(name)
                if engine is not None:
                    stub.choose(name)
                    engine.send_on()
            for engine in self._engines():
                stub.choose(engine.home)
                engine.give_all_back()
            for pid in self._others():
                stub.release(pid)
        else:
            family.first.send_on()
            family.first.give_all_back()
        stub.detach()
        family.is_over = family.is_left = True
