# SPDX-License-Identifier: Apache-2.0
"""Sees the calls of a native process: what is done at each stop of one of its threads.

    a call site ─► a call          a return address ─► a return
    the loader's event ─► images   a clone, fork or exec ─► threads, children to be cleaned

Each thread stops by itself and goes on at once; nobody else is held meanwhile.
"""

from __future__ import annotations

import os
import time
from _collections_abc import Callable

from soscope.binfmt.elf.image import ElfImage
from soscope.control.native.calls import NativeCalls
from soscope.control.native.entries import NativeEntries
from soscope.control.native.images import NativeHooks
from soscope.control.native.process import NativeProgram
from soscope.control.native.sites import NativeSite, NativeSites
from soscope.control.remote.capturing import Capturer
from soscope.control.remote.entries import EntryPoint
from soscope.control.remote.errnoplace import ErrnoPlace
from soscope.control.remote.interrupted import InterruptedPoints
from soscope.control.remote.wanted import Wanted
from soscope.control.remote.watch import NoSlots
from soscope.entry import ptrace
from soscope.entry.breakpoint.points import Points
from soscope.entry.native.memory import NativeMemory
from soscope.entry.native.threads import NativeTask, NativeThreads
from soscope.entry.native.traps import Trap, Traps
from soscope.errors import NoSuchProcess
from soscope.proc import status
from soscope.proc.signals import signal
from soscope.wire.recorder import Recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.entry.native.isa import NativeMachine

_TRAPPED = signal.SIGTRAP << 8 | 0x7F  # the wait status of a breakpoint
_GROUP_STOPS = (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
_FORKS = (ptrace.EVENT_FORK, ptrace.EVENT_VFORK, ptrace.EVENT_CLONE)
_LEAVING = 3.0  # seconds
_PAUSE = 0.0005
_WAIT = ptrace.WALL | os.WNOHANG

LOADER = object()  # the site that is no call: the loader says that images come or go

NOT_DISPLACED = "{:,} calls whose return was not seen: what they return to must stay in place"
IN_CHILDREN = "calls of forked children were not seen"
WHILE_STARTING = "calls of other threads were not seen while a child had the same memory"


class NativeEngine:
    """One process. `remarks` say what was not seen; `longest` is the longest stop, in ns.

    `executed` is the path of the program that it has executed, `exit_status` the wait status that
    it has ended with, None before. `is_over`: nothing more will be heard of it.
    """

    def __init__(
        self,
        memory: NativeMemory,
        machine: NativeMachine,
        program: NativeProgram,
        recorder: Recorder,
        wants: Wanted,
        *,
        string_limit: int,
        on_signal: Callable[[int, int, int], object],
        on_fork: Callable[[int, int], object],
        inside: list[str],
        sees_slots: bool = True,
    ) -> None:
        """Prepare; `on_signal(pid, tid, signal)` and `on_fork(child, parent)` hear of those.

        `inside` names functions whose calls are seen where they begin; not `sees_slots`: no others.
        """
        self.remarks: list[str] = []
        self.executed: str | None = None
        self.exit_status: int | None = None
        self.is_over = False
        self._memory = memory
        self._machine = machine
        self._program = program
        self._recorder = recorder
        self._wants = wants
        self._on_signal = on_signal
        self._on_fork = on_fork
        self._threads = NativeThreads(memory.pid, machine)
        self._traps = Traps(memory, machine)
        convention = machine.convention
        self._errno = ErrnoPlace(self._threads, memory, convention)
        capturer = Capturer(self._threads, memory, convention, self._errno, string_limit)
        self._expected: set[int] = set()  # forked, and not seen standing yet
        self._early: set[int] = set()  # seen standing, and not told of by their parents yet
        self._lifted: set[int] = set()  # children that have our memory, and that nobody traces
        self._calls = NativeCalls(
            self._threads,
            self._traps,
            machine,
            recorder,
            wants.kind,
            capturer,
            self._errno,
            self._lifted,
        )
        self._interrupted = InterruptedPoints()
        self._inside = inside
        self._sees_slots = sees_slots
        self._may_trace_all = status.may_trace_setuid()
        self._is_leaving = False
        self._size = machine.word_size
        self._pc, self._sp = machine.pc, machine.sp

    # ---- the beginning and the end ----

    def begin(self, dynamic: int, brk: int, loader: ElfImage | None = None) -> None:
        """Trace all threads and trap all call sites; `brk` is what the loader calls, 0: nothing.

        `loader` is that of a process in which it has not run yet: its images come later.
        Raises OSError where the process may not be traced, or has ended.
        """
        self._threads.seize()
        points = Points(lambda _: None, lambda _: None)  # traps are kept in their own way
        sites = NativeSites(self._memory, self._traps)
        convention = self._machine.convention
        hooks = self._hooks = NativeHooks(
            self._memory,
            self._program,
            self._recorder,
            self._wants,
            points,
            sites if self._sees_slots else NoSlots(),
            self._errno,
            NativeEntries(self._inside, convention, points, self._traps, self._threads),
            self._say,
            dynamic=dynamic,
            brk=brk,
        )
        self._calls.hooks = hooks
        if loader is not None:
            self._traps.caves.add(loader.segments, loader.load_bias)
        hooks.begin(sites, self._traps)
        trap = self._traps.put_back(brk, set()) if brk else None
        if trap is None:
            self._say("images that it loads later are not seen: unknown loader")
        else:
            trap.site = LOADER

    def work(self, is_due: Callable[[], bool]) -> None:
        """Handle stops until `is_due`, asked when a signal came to us, or nobody is traced."""
        wait, handle = self._threads.wait, self._handle
        while True:
            tid, wait_status = wait()
            if tid > 0:
                handle(tid, wait_status)
                if is_due():
                    return
            elif tid < 0:
                self.is_over = True
                return
            else:
                return

    def unmatched(self) -> list[str]:
        """Say which of the functions that were asked for have not been seen, and why."""
        return self._hooks.entries.remarks()

    def stop(self) -> None:
        """Record nothing more."""
        self._calls.is_stopped = True

    def let_go(self) -> None:
        """Undo all traps, and see to it that no thread is in one; who ends now lets go of all.

        A thread that sleeps in the kernel is not woken.
        """
        self._is_leaving = True
        self._traps.remove_all()
        if self._calls.unseen:
            self._say(NOT_DISPLACED.format(self._calls.unseen))
        end = time.monotonic() + _LEAVING
        asked: set[int] = set()
        while time.monotonic() < end:
            while True:
                try:
                    tid, wait_status = os.waitpid(-1, _WAIT)
                except ChildProcessError:
                    tid = 0
                    self._threads.tasks.clear()
                    self._expected.clear()
                if not tid:
                    break
                self._handle(tid, wait_status)
            moving = [task for task in self._threads.tasks.values() if self._is_moving(task)]
            if not moving and not self._expected:
                self._traps.fill_caves(self._memory.descriptor)
                return
            for task in moving:
                if task.tid not in asked:
                    asked.add(task.tid)
                    try:
                        ptrace.interrupt(task.tid)
                    except OSError:
                        pass  # it has ended, which the next wait says
            time.sleep(_PAUSE)

    def _is_moving(self, task: NativeTask) -> bool:
        """Say whether a thread may be in a trap, or in a copy of what one displaces."""
        state = status.state_of(task.tid)
        if state in "ZXxT":
            return False
        if state not in "SD":
            return True
        makes, pc = self._threads.sleeps_at(task)
        if makes and not task.is_forking:
            return True  # its child may have traps in its memory
        return not pc or pc in self._traps.caves

    # ---- stops ----

    def _handle(self, tid: int, wait_status: int) -> None:
        try:
            if wait_status == _TRAPPED:
                self._trapped(tid)
            else:
                self._event(tid, wait_status)
        except ProcessLookupError:
            pass  # killed: its end is told next

    def _trapped(self, tid: int) -> None:
        threads, task = self._threads, self._threads.tasks.get(tid)
        if task is None:
            task = self._newcomer(tid)
            if task is None:
                return
        threads.fetch(tid)
        values = threads.values
        trap = self._traps.at.get(values[self._pc] - 1)
        task.inside = None
        # one byte behind a trap may be code where a thread is for other reasons
        if trap is None or (trap.is_short and ptrace.is_sent(tid)):
            self._foreign_trap(tid)
            return
        if trap.is_back:
            self._calls.returned(tid, trap)
        if trap.entry is not None:
            self._at_entry(tid, task, trap)
        site = trap.site
        if site.__class__ is NativeSite:
            self._at_site(tid, task, trap, site)
        else:
            if site is not None and not self._lifted:
                self._hooks.look_at_list()
            if trap.away:
                task.inside = trap
                threads.move(tid, trap.away)
            else:
                self._go_from(tid, trap)
        threads.resume(tid)

    def _go_from(self, tid: int, trap: Trap) -> None:
        """Have a thread do what a trap displaces."""
        self._threads.values[self._pc] = trap.addr
        if not self._traps.go(trap, self._threads.values):
            self._traps.remove(trap)  # it makes the fault itself, as it would
        self._threads.store(tid)

    def _foreign_trap(self, tid: int) -> None:
        """Let a thread go on from a trap that is not ours, or not any more."""
        threads = self._threads
        place = threads.values[self._pc] - 1
        was_ours = self._memory.read(place, 1) != self._machine.trap and not ptrace.is_sent(tid)
        if was_ours:
            threads.move(tid, place)
            self._resume(tid, 0)
        else:
            self._signalled(tid, signal.SIGTRAP)

    def _resume(self, tid: int, number: int) -> None:
        """Let a thread go on, untraced where we are about to leave."""
        if not self._is_leaving:
            ptrace.resume(tid, number)
            return
        ptrace.detach(tid, number)
        self._threads.tasks.pop(tid, None)

    def _signalled(self, tid: int, number: int) -> None:
        task = self._threads.tasks.get(tid)
        self._out_of_copy(tid)
        if task is not None and not task.is_child:
            self._on_signal(task.pid, tid, number)
        self._resume(tid, number)

    def _out_of_copy(self, tid: int) -> None:
        """Have a thread be where it would be without us, before it leaves or a handler runs."""
        threads = self._threads
        threads.fetch(tid)
        pc = threads.values[self._pc]
        place = self._traps.place_of(pc)
        if place != pc:
            threads.move(tid, place)
            trap = self._traps.at.get(place)
            if trap is not None and trap.entry is not None:  # that call has been told
                self._interrupted.leave(tid, place, threads.values[self._sp])

    def _event(self, tid: int, wait_status: int) -> None:
        threads = self._threads
        if not os.WIFSTOPPED(wait_status):
            self._ended(tid, wait_status)
            return
        task = threads.tasks.get(tid)
        if task is None:
            task = self._newcomer(tid)
            if task is None:
                return
        number, event = os.WSTOPSIG(wait_status), wait_status >> 16
        if event == ptrace.EVENT_EXEC:
            self._executed(tid, task)
        elif event in _FORKS:
            child = ptrace.event_message(tid)
            if child not in threads.tasks and child not in self._early:
                self._expected.add(child)
            self._early.discard(child)
            task.is_forking = event == ptrace.EVENT_VFORK
            self._resume_out(tid)
        elif event == ptrace.EVENT_VFORK_DONE:
            task.is_forking = False
            self._has_own_memory(ptrace.event_message(tid))
            self._resume_out(tid)
        elif event == ptrace.EVENT_STOP:
            if number in _GROUP_STOPS and not self._is_leaving:
                ptrace.listen(tid)
            else:
                self._resume_out(tid)
        elif event:
            self._resume(tid, 0)
        else:
            self._signalled(tid, number)

    def _resume_out(self, tid: int) -> None:
        """Let a thread go on from an event; when we leave, out of any copy."""
        if self._is_leaving:
            self._out_of_copy(tid)
            if self._machine.bits == 64:
                _mend(tid)
        self._resume(tid, 0)

    def _newcomer(self, tid: int) -> NativeTask | None:
        """Take a thread that was not known; None for a child that has been let go of."""
        threads = self._threads
        if tid in self._expected:
            self._expected.discard(tid)
        else:
            self._early.add(tid)
        try:
            facts = status.read_status(tid)
        except NoSuchProcess:
            return None  # killed meanwhile
        pid = int(facts.get("Tgid", "0"))
        known = {task.pid for task in threads.tasks.values()} | {threads.pid}
        if pid in known:
            task = threads.tasks[tid] = NativeTask(tid, pid, is_child=pid != threads.pid)
            return task
        self._say(IN_CHILDREN)
        self._on_fork(pid, threads.pid)
        try:
            descriptor = os.open(f"/proc/{pid}/mem", os.O_RDWR | os.O_CLOEXEC)
            try:
                is_shared = self._traps.is_shared(descriptor)
                if is_shared is False:
                    self._traps.clean(descriptor)
            finally:
                os.close(descriptor)
        except OSError:
            is_shared = False  # killed meanwhile: it has no memory any more
        if is_shared is not False:
            return self._in_our_memory(tid, pid)
        ptrace.detach(tid)
        return None

    def _in_our_memory(self, tid: int, pid: int) -> NativeTask | None:
        """Take a child that has our memory until it executes something; None: it is let go of.

        Who executes a program that is set-user-id gains no privileges while it is traced, unless
        its tracer has them. So the child of somebody else's user is let go of at once, and nobody
        stops at a trap until it has a memory of its own.
        """
        threads = self._threads
        if self._may_trace_all:
            task = threads.tasks[tid] = NativeTask(tid, pid, is_child=True)
            return task
        self._traps.lift()
        self._lifted.add(pid)
        self._say(WHILE_STARTING)
        ptrace.detach(tid)
        return None

    def _has_own_memory(self, child: int) -> None:
        """Have threads stop at traps again when no child is left that could run into one."""
        if child not in self._lifted:
            return
        self._lifted.discard(child)
        if not self._lifted and not self._is_leaving:
            self._traps.put_again()
            self._hooks.look_at_list()

    def _executed(self, tid: int, task: NativeTask) -> None:
        """Let go of who runs another program by now, in memory of its own."""
        threads = self._threads
        for other in [each for each in threads.tasks.values() if each.pid == task.pid]:
            del threads.tasks[other.tid]
        if not task.is_child:
            self._traps.at.clear()
            self.executed = status.program_path(tid) or "another program"
            self.is_over = True
        try:
            ptrace.detach(tid)
        except ProcessLookupError:
            pass  # killed

    def _ended(self, tid: int, wait_status: int) -> None:
        self._expected.discard(tid)
        self._early.discard(tid)
        self._threads.tasks.pop(tid, None)
        self._calls.forget(tid)
        self._interrupted.forget(tid)
        if tid == self._threads.pid:
            self.exit_status = wait_status

    # ---- calls ----

    def _at_site(self, tid: int, task: NativeTask, trap: Trap, site: NativeSite) -> None:
        """Take note of a call, and send its thread on to the function."""
        threads, memory = self._threads, self._memory
        values, size, descriptor = threads.values, self._size, memory.descriptor
        target = int.from_bytes(os.pread(descriptor, size, site.slot), "little")
        if site.is_call:
            return_addr = trap.addr + self._machine.site_size
            if not self._machine.push(values, return_addr, memory):
                target = trap.addr  # it makes the fault itself
                self._traps.remove(trap)
        else:
            return_addr = int.from_bytes(memory.read(values[self._sp], size), "little")
        self._calls.called(tid, task, site.armed, return_addr)
        if site.is_call:
            values[self._pc] = target
            threads.store(tid)
        else:
            threads.move(tid, target)

    def _at_entry(self, tid: int, task: NativeTask, trap: Trap) -> None:
        """Take note of a call at the first instruction of its function."""
        entry, sp = trap.entry, self._threads.values[self._sp]
        assert isinstance(entry, EntryPoint)
        if not self._interrupted.comes_back(tid, trap.addr, sp):
            word = self._memory.read(sp, self._size)
            self._calls.called(tid, task, entry, int.from_bytes(word, "little"))

    def _say(self, remark: str) -> None:
        if remark not in self.remarks:
            self.remarks.append(remark)


def _mend(tid: int) -> None:
    """Have a system call made again that our stop has ended with EINTR.

    A thread that ran when it was asked to stop had not waited there yet.
    """
    from soscope.entry.isa import arch

    registers = arch.get_registers(tid)
    if arch.is_interrupted(registers):
        arch.restart(registers)
        arch.set_registers(tid, registers)
