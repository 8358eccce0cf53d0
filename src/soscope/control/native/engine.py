# SPDX-License-Identifier: Apache-2.0
"""The breakpoint engine of one native process: it handles each stop of the threads.

    a call site ─► a call          a return address ─► a return
    the loader's event ─► images

Each thread stops on its own and goes on at once, while the other threads run. `family` handles
threads and processes that come and go.
"""

from __future__ import annotations

import time

from soscope.binfmt.elf.image import ElfImage
from soscope.control.native.calls import NativeCalls
from soscope.control.native.entries import NativeEntries
from soscope.control.native.images import NativeHooks
from soscope.control.native.run import Company, NativeRun
from soscope.control.native.sites import NativeSite, NativeSites
from soscope.control.remote.capturing import Capturer
from soscope.control.remote.entries import EntryPoint
from soscope.control.remote.errnoplace import ErrnoPlace
from soscope.control.remote.interrupted import InterruptedPoints
from soscope.control.remote.watch import NoSlots
from soscope.entry import ptrace
from soscope.entry.breakpoint import Points
from soscope.entry.native.threads import NativeTask, NativeThreads
from soscope.entry.native.traps import NativeMemory, Trap, Traps
from soscope.proc import status
from soscope.proc.status import signal

LOADER = object()  # the site at which the loader reports that images come or go

NOT_DISPLACED = "{:,} calls whose return was not seen: what they return to must stay in place"
UNKNOWN_LOADER = "images that it loads later are not seen: unknown loader"


class NativeEngine:
    """The engine of one process, with its `calls`.

    `lifted` are untraced children that share its memory. Remarks go to its `company`.
    """

    def __init__(
        self, memory: NativeMemory, run: NativeRun, company: Company, traps: Traps | None = None
    ) -> None:
        """Prepare the engine. `traps` are those that a child of a traced process has already."""
        self.pid = memory.pid
        self.run = run
        self.lifted: set[int] = set()
        self._memory = memory
        self._company = company
        machine = self._machine = run.native.machine
        self._threads = NativeThreads(memory.pid, machine, company.tasks)
        self._traps = traps or Traps(memory, machine)
        self._errno = ErrnoPlace(self._threads, memory, machine.convention)
        capturer = Capturer(
            self._threads, memory, machine.convention, self._errno, run.string_limit
        )
        self.calls = NativeCalls(
            self._threads,
            self._traps,
            machine,
            run.recorder,
            run.wants.kind,
            capturer,
            self._errno,
            self.lifted,
            follows=company.follows,
        )
        self._interrupted = InterruptedPoints()
        self._hooks: NativeHooks | None = None
        self._sites = NativeSites(memory, self._traps)
        self._entries = NativeEntries(
            run.inside, machine.convention, _points(), self._traps, self._threads
        )
        self._brk = self._dynamic = 0
        self._pc, self._sp = machine.pc, machine.sp

    # ---- the beginning and the end ----

    def begin(
        self,
        dynamic: int,
        brk: int,
        loader: ElfImage | None = None,
        before: NativeEngine | None = None,
    ) -> None:
        """Trace all threads and put traps at all call sites.

        `brk` is the function that the loader calls at changes, 0 if there is none. `loader` is
        the loader's image if the loader has not run yet in the process, so that images come
        later. `before` is the engine of the first traced process. Raises OSError if the process
        may not be traced or has ended.
        """
        self._threads.seize()
        if before is not None:
            self._entries.go_on_from(before._entries)
        hooks = self._hook(dynamic, brk)
        if loader is not None:
            self._traps.caves.add(loader.segments, loader.load_bias)
        hooks.begin(self._sites, self._traps)
        trap = self._traps.put_back(brk, set()) if brk else None
        if trap is None:
            self._company.say(UNKNOWN_LOADER)
        else:
            trap.site = LOADER

    def _hook(self, dynamic: int, brk: int) -> NativeHooks:
        run = self.run
        self._dynamic, self._brk = dynamic, brk
        hooks = self._hooks = self.calls.hooks = NativeHooks(
            self._memory,
            run.native,
            run.recorder,
            run.wants,
            _points(),
            self._sites if run.sees_slots else NoSlots(),
            self._errno,
            self._entries,
            self._company.say,
            dynamic=dynamic,
            brk=brk,
        )
        return hooks

    def forked(self, memory: NativeMemory, creator: int, tid: int) -> NativeEngine:
        """Return the engine of a child whose memory is a copy of this process's.

        Thread `creator` has made it, and `tid` is its first thread. Raises OSError if it has
        ended.
        """
        child = NativeEngine(memory, self.run, self._company, self._traps.copy_for(memory))
        child._errno.know(self._errno)
        child._sites = self._sites.copy_for(memory, child._traps)
        child._entries = self._entries.copy_for(child._traps, child._threads)
        if self._hooks is not None:
            hooks = child._hook(self._dynamic, self._brk)
            hooks.use(child._sites, child._traps)
            hooks.inherit(self._hooks)
        child.calls.inherit(self.calls, creator, tid)
        self.run.processes += 1
        return child

    def has_memory_of(self, memory: NativeMemory) -> bool | None:
        """Return whether a child shares this process's memory, None if that is not known."""
        return self._traps.is_shared(memory.descriptor)

    def clean(self, memory: NativeMemory) -> None:
        """Undo all traps in the memory of a forked child."""
        self._traps.clean(memory.descriptor)

    def lift_for(self, child: int) -> None:
        """Remove all traps while an untraced child shares this memory."""
        self._traps.lift()
        self.lifted.add(child)

    def has_own_memory(self, child: int) -> None:
        """Put all traps back when no untraced child is left that could run into one."""
        if child not in self.lifted:
            return
        self.lifted.discard(child)
        if not self.lifted and not self._company.is_leaving:
            self._traps.put_again()
            self._look_at_list()

    def _look_at_list(self) -> None:
        if self._hooks is not None:
            self._hooks.look_at_list()

    def unmatched(self) -> list[str]:
        """Return which of the requested functions were not seen, and why."""
        return self._entries.remarks()

    def undo(self) -> None:
        """Remove all traps. A thread may be stopped at one, or have just run into it."""
        self._traps.remove_all()
        if self.calls.unseen:
            self._company.say(NOT_DISPLACED.format(self.calls.unseen))

    def fill_caves(self) -> None:
        """Undo the caves, when no thread is in a copy of displaced instructions."""
        self._traps.fill_caves(self._memory.descriptor)

    def leave(self) -> None:
        """Note that no thread has this memory any more."""
        if self._hooks is not None:
            self._hooks.leave()
        if self.calls.unseen:
            self._company.say(NOT_DISPLACED.format(self.calls.unseen))
        self._memory.close()
        self.run.leave()

    def forget(self, tid: int) -> None:
        """Drop the data of a thread that has ended or has new memory."""
        self.calls.forget(tid)
        self._interrupted.forget(tid)
        self.run.recorder.leave(tid)

    def is_moving(self, task: NativeTask) -> bool:
        """Return whether a thread may be at a trap, or in a displaced copy of instructions."""
        state = status.state_of(task.tid)
        if state in "ZXxT":
            return False
        if state not in "SD":
            return True
        makes, pc = self._threads.sleeps_at(task)
        if makes and not task.is_forking:
            return True  # a vfork child of the thread may have traps in its memory
        return not pc or pc in self._traps.caves

    # ---- stops ----

    def trapped(self, tid: int, task: NativeTask) -> None:
        """Handle the stop of a thread at a breakpoint. Raises ProcessLookupError."""
        threads = self._threads
        threads.fetch(tid)
        values = threads.values
        trap = self._traps.at.get(values[self._pc] - self._machine.trap_length)
        task.inside = None
        # A thread may be one byte behind a trap for another reason, such as a signal to it.
        if trap is None or (trap.is_doubtful and ptrace.is_sent(tid)):
            self._foreign_trap(tid, task)
            return
        if trap.is_back:
            self.calls.returned(tid, task.pid, trap)
        if trap.entry is not None:
            self._at_entry(tid, task, trap)
        site = trap.site
        if site.__class__ is NativeSite:
            self._at_site(tid, task, trap, site)
        else:
            if site is not None and not self.lifted:
                self._look_at_list()
            if trap.away:
                task.inside = trap
                threads.move(tid, trap.away)
            else:
                self._go_from(tid, trap)
        threads.resume(tid)

    def _go_from(self, tid: int, trap: Trap) -> None:
        """Let a thread do the effect of the instruction that a trap displaces."""
        values = self._threads.values
        values[self._pc] = trap.addr
        if not self._traps.go(trap, values):
            self._traps.remove(trap)  # the instruction causes its fault itself
        self._threads.store(tid)

    def _foreign_trap(self, tid: int, task: NativeTask) -> None:
        """Resume a thread from a trap that is not, or no longer, soscope's."""
        threads = self._threads
        place = threads.values[self._pc] - self._machine.trap_length
        if self._traps.has_been(place) and not ptrace.is_sent(tid) and self._hooks is not None:
            threads.move(tid, place)
            self.resume(tid, 0)
        else:
            self.signalled(tid, task, signal.SIGTRAP)

    def resume(self, tid: int, number: int) -> None:
        """Resume a thread, or detach if soscope is leaving. Raises ProcessLookupError."""
        if not self._company.is_leaving:
            ptrace.resume(tid, number)
            return
        ptrace.detach(tid, number)
        self._company.tasks.pop(tid, None)

    def signalled(self, tid: int, task: NativeTask, number: int) -> None:
        """Resume a thread with a signal. Raises ProcessLookupError."""
        self._out_of_copy(tid)
        if self._company.follows or not task.is_child:
            self._company.events.on_signal(task.pid, tid, number, time.time_ns())
        self.resume(tid, number)

    def _out_of_copy(self, tid: int) -> None:
        """Move a thread from a displaced copy to the original code before it goes on.

        This is needed before a detach and before a signal handler runs.
        """
        threads = self._threads
        threads.fetch(tid)
        pc = threads.values[self._pc]
        place = self._traps.place_of(pc)
        if place != pc:
            threads.move(tid, place)
            trap = self._traps.at.get(place)
            if trap is not None and trap.entry is not None:  # this call is recorded already
                self._interrupted.leave(tid, place, threads.values[self._sp])

    def resume_out(self, tid: int) -> None:
        """Resume a thread from an event. When soscope is leaving, move it out of any copy first.

        If the thread has run into a trap, it stops for the trap next, and is detached then.
        Raises ProcessLookupError.
        """
        if self._company.is_leaving:
            if self._threads.has_met_trap(tid):
                ptrace.resume(tid)
                return
            self._out_of_copy(tid)
            if self._machine.restarts:
                _mend(tid)
        self.resume(tid, 0)

    # ---- calls ----

    def _at_site(self, tid: int, task: NativeTask, trap: Trap, site: NativeSite) -> None:
        """Record a call, and move its thread on to the called function."""
        threads, through = self._threads, site.through
        done = self._machine.leave(through, trap.before, threads.values, self._memory)
        if done is None:
            self._traps.remove(trap)
            threads.move(tid, trap.addr)  # the instruction causes its fault itself
            return
        target, return_addr, is_one = done
        if is_one:
            self.calls.called(tid, task, site.armed, return_addr)
        if through.is_call:
            self._machine.move(threads.values, target)
            threads.store(tid)
        else:
            threads.move(tid, target)

    def _at_entry(self, tid: int, task: NativeTask, trap: Trap) -> None:
        """Record a call at the first instruction of its function."""
        entry, sp = trap.entry, self._threads.values[self._sp]
        assert isinstance(entry, EntryPoint)
        if not self._interrupted.comes_back(tid, trap.addr, sp):
            return_addr = self._machine.return_addr(self._threads.values, self._memory)
            self.calls.called(tid, task, entry, return_addr)


def _points() -> Points:
    """Return breakpoints that do nothing, because `Traps` keeps the traps of native processes."""
    return Points(lambda _: None, lambda _: None)


def _mend(tid: int) -> None:
    """Restart a system call that soscope's stop has ended with EINTR.

    A thread that was running when it was asked to stop was not waiting in the call yet.
    """
    from soscope.entry.isa import arch

    registers = arch.get_registers(tid)
    if arch.is_interrupted(registers):
        arch.restart(registers)
        arch.set_registers(tid, registers)
