# SPDX-License-Identifier: Apache-2.0
"""Which stopped thread may call a function of its process: one that holds no lock of its libraries.

Loading a library takes the locks of the loader and of malloc. A thread may have the latter, or
be in the middle of malloc without it, where

- its code is that of the C library, or of an image that defines malloc in its stead;
- it waits in a call that those make, too (a lock's futex, mmap, brk, madvise, …);
- a signal handler has interrupted it there.

So a thread is fit that waits for something from outside, or whose code is of any other image,
and that has no frame of a signal on its stack. Code of no image is not fit: a JIT comes to its
runtime's code soon, and for an emulator such code is everything, malloc included.
"""

from __future__ import annotations

import time

from soscope.entry.agent.visit import Visit
from soscope.entry.guest import places as kinds
from soscope.entry.guest.places import CodePlaces
from soscope.entry.isa import arch
from soscope.entry.seccomp import calls, filters
from soscope.entry.stop.stopping import SeizedThread
from soscope.errors import NoSuchProcess
from soscope.proc import status
from soscope.proc.reasons import Refused

_PAUSE, _LONGEST_PAUSE = 0.0005, 0.008
_IDLE_FOR = 1.0  # seconds in which a loader is to be idle
_BEFORE = 16  # bytes in front of a program counter
_FRAMES = 8192  # bytes of a stack in which the callers of a call are that has just been made
_MOST_TOLD = 4

_WHERE = {
    kinds.LIBC: "it is in the C library",
    kinds.LOADER: "it is in the loader",
    kinds.ALLOCATOR: "it is in an image that defines malloc",
    kinds.AGENT: "it is in the agent",
    kinds.NOBODY: "it is in code of no image",
}


class Fitness:
    """Looks for a fit thread of a visited process, and knows why others are not."""

    __slots__ = ("_has_to_wait", "_visit", "places")

    def __init__(self, visit: Visit, *, has_to_wait: bool = False) -> None:
        """`has_to_wait`: a thread is fit only while it waits for something from outside."""
        self._visit = visit
        self._has_to_wait = has_to_wait
        self.places = CodePlaces(visit)

    def stop(self, limit: float) -> int:
        """Stop the process where one of its threads is fit; return that. All are stopped then.

        Raises Refused, NotPermitted and NoSuchProcess, with all of them running.
        """
        visit = self._visit
        end = time.monotonic() + limit
        pause = _PAUSE
        while True:
            visit.stop(idle_for=_IDLE_FOR, limit=limit)
            try:
                self.places.look()
                tid, why = self._choose()
            except BaseException:
                visit.threads.resume()
                raise
            if tid:
                return tid
            visit.threads.resume()
            if time.monotonic() > end:
                raise Refused(f"no thread of it is where it can load a library: {why}")
            time.sleep(pause)
            pause = min(1.5 * pause, _LONGEST_PAUSE)

    def _choose(self) -> tuple[int, str]:
        """Return the stopped thread that is disturbed least; 0 and the reason without one."""
        by_tid = self._visit.threads.registers()
        stopped = self._visit.threads.stopped
        ranked = sorted(by_tid, key=lambda tid: _rank(stopped[tid], by_tid[tid]))
        if any(thread.was_stopped for thread in stopped.values()):
            return self._choose_of_suspended(ranked, by_tid)
        reasons = []
        for tid in ranked:
            objection = self._state_objection(by_tid[tid]) or self._kind_objection(tid)
            if objection is None:
                return tid, ""
            reasons.append(f"thread {tid}: {objection}")
        return 0, _some(reasons)

    def _choose_of_suspended(
        self, ranked: list[int], by_tid: dict[int, arch.Registers]
    ) -> tuple[int, str]:
        """Do the same where the other threads will not run: then none may hold a lock."""
        fit, reasons = 0, []
        if self._visit.loader_users:
            return 0, "it is stopped, and its loader is busy"
        for tid in ranked:
            objection = self._state_objection(by_tid[tid])
            if objection is not None:
                reasons.append(f"it is stopped, and thread {tid} would have to run: {objection}")
            elif not fit and self._kind_objection(tid) is None:
                fit = tid
        if reasons or not fit:
            return 0, _some(reasons) or "it is stopped"
        return fit, ""

    def _state_objection(self, registers: arch.Registers) -> str | None:
        """Say why a thread is where it may hold a lock, None where it is not."""
        places = self.places
        kind = places.kind(registers.pc)
        if kind in (kinds.AGENT, kinds.LOADER):
            return self._said(kind, registers)
        before = self._visit.memory.read(registers.pc - _BEFORE, _BEFORE)
        is_outside = arch.waits_outside(registers, before)
        if not is_outside and kind != kinds.PLAIN:
            return self._said(kind, registers)
        if self._has_to_wait and not is_outside:
            return "it does not wait"
        # the guest takes the lock of an interpreter: the thread may be in the middle of that, which
        # is data of an image, and no object of a program's own
        lock = arch.lock_waited_for(registers) if self._has_to_wait else 0
        if lock and places.is_data_of_image(lock):
            return "it waits for another thread"
        stack = places.stack(registers.sp)
        if not stack.data:
            return "it has no stack"
        is_pause = is_outside and not arch.waits_outside(registers, before, lends_pauses=False)
        # an allocator of the program's own may wait for its locks like that
        if is_pause and self._comes_from_allocator(stack, registers):
            return self._said(kinds.ALLOCATOR, registers)
        if places.handlers(stack, registers.sp):
            return "it is in a signal handler"
        return None

    def _said(self, kind: int, registers: arch.Registers) -> str:
        said = _WHERE.get(kind, "it is elsewhere")
        call = ""
        if arch.waits(registers):
            call = f", in system call {int(registers.orig_rax)}"
        return f"{said} ({self.places.name(registers.pc)}{call})"

    def _comes_from_allocator(self, stack: kinds.Stack, registers: arch.Registers) -> bool:
        first = registers.sp - stack.start & -8
        words = memoryview(stack.data[first : first + _FRAMES & -8]).cast("Q")
        places = self.places
        return places.kind(registers.pc) == kinds.ALLOCATOR or any(
            places.kind(word) == kinds.ALLOCATOR for word in set(words) if 4096 < word < 1 << 47
        )

    def _kind_objection(self, tid: int) -> str | None:
        """Say why a thread is none that may make calls, None where it is."""
        try:
            fields = status.read_status(tid)
            if status.inner_pid(tid) in self._visit.loader_users:
                return "it is in dlopen, dlclose, dl_iterate_phdr or a constructor"
            if status.has_shadow_stack(fields):
                return "it has a shadow stack"
            counts = filters.suspects(self._visit.pid, [tid])
        except NoSuchProcess:
            return "it has ended"
        if tid not in counts:
            return None
        if self._visit.filtered.get(tid) != counts[tid]:
            return "it has a seccomp filter"
        return calls.objection_to_loading(list(filters.of_stopped(tid)))


def _rank(thread: SeizedThread, registers: arch.Registers) -> int:
    """Say how little a thread is disturbed; 0 = least."""
    if not arch.waits(registers):
        return 3
    if arch.is_restarting(registers) or arch.lock_waited_for(registers):
        return 2  # its system calls have to be looked at, or others may have to do with it
    return min(thread.rank, 1)


def _some(reasons: list[str]) -> str:
    told = "; ".join(reasons[:_MOST_TOLD])
    left = len(reasons) - _MOST_TOLD
    return f"{told}; and {left} more" if left > 0 else told
