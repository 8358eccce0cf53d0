# SPDX-License-Identifier: Apache-2.0
"""Find a stopped thread that may call a function: it holds no lock of its libraries.

Loading a library takes the locks of the loader and of malloc. A thread may hold malloc's lock, or
be in the middle of malloc without it, if

- its code is in the C library, or in an image that defines malloc instead;
- it waits in a system call that these make, too (a lock's futex, mmap, brk, madvise, …);
- a signal handler has interrupted it there.

So a thread is fit if it waits for something from outside, or if its code is in any other image,
and if it has no signal frame on its stack. A thread in code of no image is not fit: JIT code soon
enters its runtime's code, and in an emulator all code is of this kind, malloc included.
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
from soscope.proc.status import Refused

_PAUSE, _LONGEST_PAUSE = 0.0005, 0.008
_IDLE_FOR = 1.0  # seconds in which a loader should be idle
_BEFORE = 16  # bytes before a program counter
_FRAMES = 8192  # bytes of a stack with the callers of a recent call
_MOST_TOLD = 4

_WHERE = {
    kinds.LIBC: "it is in the C library",
    kinds.LOADER: "it is in the loader",
    kinds.ALLOCATOR: "it is in an image that defines malloc",
    kinds.AGENT: "it is in the agent",
    kinds.NOBODY: "it is in code of no image",
}


class Fitness:
    """Searches a fit thread in a visited process, and keeps the reasons why others are not fit."""

    __slots__ = ("_has_to_wait", "_visit", "places")

    def __init__(self, visit: Visit, *, has_to_wait: bool = False) -> None:
        """With `has_to_wait`, a thread is fit only while it waits for something from outside."""
        self._visit = visit
        self._has_to_wait = has_to_wait
        self.places = CodePlaces(visit)

    def stop(self, limit: float) -> int:
        """Stop the process when one of its threads is fit, and return that thread.

        All threads are stopped then. Raises Refused, NotPermitted and NoSuchProcess with all of
        them running.
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
        """Return the stopped thread that is disturbed least, or 0 and the reason if none is fit."""
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
        """Return a fit thread and the reason, as `_choose`, if the other threads will not run.

        No thread may hold a lock then.
        """
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
        """Return why a thread may hold a lock at its position, None if it cannot."""
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
        # The called function takes the interpreter's lock, which is in an image's data. A thread
        # that waits for such a lock may be in the middle of taking it.
        lock = arch.lock_waited_for(registers) if self._has_to_wait else 0
        if lock and places.is_data_of_image(lock):
            return "it waits for another thread"
        stack = places.stack(registers.sp)
        if not stack.data:
            return "it has no stack"
        is_pause = is_outside and not arch.waits_outside(registers, before, lends_pauses=False)
        # The program's own allocator may wait for its locks in this way.
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
        """Return why a thread must not make calls, None if it may."""
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
    """Return how much a thread is disturbed by a call. The least is 0."""
    if not arch.waits(registers):
        return 3
    if arch.is_restarting(registers) or arch.lock_waited_for(registers):
        return 2  # the thread's calls must be watched, or other threads may be involved
    return min(thread.rank, 1)


def _some(reasons: list[str]) -> str:
    told = "; ".join(reasons[:_MOST_TOLD])
    left = len(reasons) - _MOST_TOLD
    return f"{told}; and {left} more" if left > 0 else told
