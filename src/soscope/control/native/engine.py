# SPDX-License-Identifier: Apache-2.0
"""All processes that one tracer traces: threads, children, and executed programs.

    a fork ─► the child's copy of all traps is its own, or is undone (without `follows`)
    a vfork ─► the child runs in its parent's memory, with its parent's traps
    an exec ─► another program with a control block of its own, or detached

A child is handled at its parent's fork event: then its creator is known, and both are stopped.
"""

from __future__ import annotations

import os
import time

from soscope.binfmt.elf.image import ElfImage
from soscope.control.breakpoints.watch import EntryPoint, EntryPoints, NoSlots
from soscope.control.command import ExitStatus
from soscope.control.native.images import NativeHooks, NativeSite, NativeSites
from soscope.control.native.process import (
    STATIC,
    NativeCalls,
    NativeCompany,
    NativeProgram,
    NativeRun,
    busy_copies,
)
from soscope.control.program import Program
from soscope.entry import ptrace
from soscope.entry.breakpoint import Points
from soscope.entry.native.threads import NativeTask, NativeThreads, Waiting
from soscope.entry.native.traps import NativeMemory, Trap, Traps
from soscope.errors import AttachError, NoSuchProcess, SoscopeError
from soscope.proc import status
from soscope.proc.status import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias


# The breakpoint engine of one native process: it handles each stop of the threads.
#
#     a call site ─► a call          a return address ─► a return
#     the loader's event ─► images
#
# Each thread stops on its own and goes on at once, while the other threads run. `family` handles
# threads and processes that come and go.

LOADER = object()  # the site at which the loader reports that images come or go

NOT_DISPLACED = "{:,} calls whose return was not seen: what they return to must stay in place"
UNKNOWN_LOADER = "images that it loads later are not seen: unknown loader"


class NativeEngine:
    """The engine of one process, with its `calls`.

    `lifted` are untraced children that share its memory. `company` takes remarks for the user.
    """

    def __init__(
        self,
        memory: NativeMemory,
        run: NativeRun,
        company: NativeCompany,
        traps: Traps | None = None,
    ) -> None:
        """Prepare the engine. `traps` are the traps that a forked child has already."""
        self.pid = memory.pid
        self.run = run
        self.lifted: set[int] = set()
        self._memory = memory
        self._company = company
        machine = self._machine = run.native.machine
        self._threads = NativeThreads(memory.pid, machine, company.tasks)
        self._traps = traps or Traps(memory, machine)
        self.calls = NativeCalls(
            self._threads,
            memory,
            self._traps,
            run,
            self.lifted,
            follows=company.follows,
        )
        self._hooks: NativeHooks | None = None
        self._sites = NativeSites(memory, self._traps)
        self._starts = Points(self._put_start, self._traps.take_entry)
        self._entries = EntryPoints(run.inside, machine.convention, self._starts)
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
            run,
            Points(_nothing, _nothing),  # `Traps` keeps the loader's and those at returns
            self._sites if run.sees_slots else NoSlots(),
            self.calls.errno,
            self._entries,
            self._company.say,
            dynamic=dynamic,
            brk=brk,
        )
        return hooks

    def _put_start(self, addr: int) -> None:
        """Put a trap at the first instruction of a function."""
        entry = self._entries.at_point(addr)
        assert entry is not None
        if self._traps.put_entry(addr, entry, busy_copies(self._threads)) is None:
            self._entries.left.append(entry.slot.symbol)

    def forked(self, memory: NativeMemory, creator: int, tid: int) -> NativeEngine:
        """Return the engine of a child whose memory is a copy of this process's.

        Thread `creator` has made it, and `tid` is its first thread. Raises OSError if it has
        ended.
        """
        child = NativeEngine(memory, self.run, self._company, self._traps.copy_for(memory))
        child._sites = self._sites.copy_for(memory, child._traps)
        child._starts.know(self._starts)
        child._entries = self._entries.forked(child._starts)
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
            self.calls.returned(task.pid, tid, trap.addr, values[self._sp])
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
            self._company.signalled(task.pid, tid, number)
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
                self.calls.interrupted.leave(tid, place, threads.values[self._sp])

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
        if not self.calls.interrupted.comes_back(tid, trap.addr, sp):
            return_addr = self._machine.return_addr(self._threads.values, self._memory)
            self.calls.called(tid, task, entry, return_addr)


def _nothing(_addr: int) -> None:
    """Put or remove no breakpoint."""


def _mend(tid: int) -> None:
    """Restart a system call that soscope's stop has ended with EINTR.

    A thread that was running when it was asked to stop was not waiting in the call yet.
    """
    from soscope.entry.isa import arch

    registers = arch.get_registers(tid)
    if arch.is_interrupted(registers):
        arch.restart(registers)
        arch.set_registers(tid, registers)


_TRAPPED = signal.SIGTRAP << 8 | 0x7F  # the wait status of a breakpoint
_GROUP_STOPS = (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
_FORKS = (ptrace.EVENT_FORK, ptrace.EVENT_VFORK, ptrace.EVENT_CLONE)
_LEAVING = 3.0  # seconds to wait for threads that the kernel does not stop
_UNCLAIMED = 1.0  # seconds for which a child stays stopped until its parent's event
_LOOKS = 10  # looks at least, as stops between them may have delayed the event
_PAUSE = 0.0005
_WAIT = ptrace.WALL | os.WNOHANG

IN_CHILDREN = "calls of forked children were not seen: -f follows them"
WHILE_STARTING = "calls of other threads were not seen while a child had the same memory"
UNCLAIMED = "calls of {:,} children were not seen: their parents were killed as they made them"

MakeRun: TypeAlias = "Callable[[NativeProgram, Program], NativeRun]"


class _Held:
    """A child that stays stopped until its parent's event. `looks` counts the checks for it."""

    __slots__ = ("looks", "pid", "since", "wait_status")

    def __init__(self, pid: int, wait_status: int) -> None:
        self.pid = pid
        self.wait_status = wait_status
        self.since = time.monotonic()
        self.looks = 0


class NativeFamily:
    """One process and, if the `company` follows children, its descendants.

    `executed` is the path of a program that the process has executed and that is not followed.
    `is_over` is set if no thread is traced any more.
    """

    def __init__(self, first: NativeEngine, company: NativeCompany, make_run: MakeRun) -> None:
        """Begin with the process of `first`. `make_run` makes the run of an executed program."""
        self.executed: str | None = None
        self.is_over = False
        self.stood_ns = 0  # time for which threads were stopped
        self._first = first
        self._company = company
        self._tasks = company.tasks
        self._make_run = make_run
        self._waiting = Waiting()
        self._engines = {first.pid: first}  # by the number of the process that owns the memory
        self._left: list[NativeEngine] = []  # engines without threads, kept while some are `_held`
        self._programs = 1
        self._expected: dict[int, NativeEngine] = {}  # reported by parents, not stopped yet
        self._early: set[int] = set()  # stopped, not reported by parents yet
        self._held: dict[int, _Held] = {}
        self._unclaimed = 0
        self._may_trace_all = status.may_trace_setuid()

    # ---- the loop ----

    def work(self, is_due: Callable[[], bool]) -> None:
        """Handle stops until `is_due` after a signal to us, or until no thread is traced."""
        wait, handle, now = self._waiting.wait, self._handle, time.monotonic_ns
        while True:
            tid, wait_status = wait()
            if tid > 0:
                begun = now()
                handle(tid, wait_status)
                self.stood_ns += now() - begun
                if not is_due():
                    continue
            elif tid < 0:
                self.is_over = True
            if self._held:
                self._look_at_held()
            return

    def let_go(self) -> None:
        """Undo all traps and make sure that no thread is at one.

        The end of this process then detaches all threads. A thread that sleeps in the kernel is
        not woken. However long it takes, no new child is left with a trap in its memory.
        """
        self._company.is_leaving = True
        for engine in self._engines.values():
            engine.undo()
        asked: set[int] = set()
        since = time.monotonic()
        while True:
            self._take_what_is_there()
            moving = [task for task in self._tasks.values() if self._is_moving(task)]
            if not moving and not self._expected and not self._held:
                for engine in self._engines.values():
                    engine.fill_caves()
                return
            # A thread that can run gets a processor some time, however busy the machine is.
            if self._is_stuck(moving) and time.monotonic() > since + _LEAVING:
                return  # the copies stay, as a thread may be in one
            for task in moving:
                if task.tid not in asked:
                    asked.add(task.tid)
                    try:
                        ptrace.interrupt(task.tid)
                    except OSError:
                        pass  # the thread has ended, as the next wait reports
            self._look_at_held()
            time.sleep(_PAUSE)

    def _is_stuck(self, moving: list[NativeTask]) -> bool:
        """Return whether only threads are waited for that the kernel does not stop (state D)."""
        for child in [each for each in self._expected if status.state_of(each) == "X"]:
            del self._expected[child]  # it was killed and reaped
        if self._expected or self._held:
            return False
        return all(status.state_of(task.tid) == "D" for task in moving)

    def _take_what_is_there(self) -> None:
        while True:
            try:
                tid, wait_status = os.waitpid(-1, _WAIT)
            except ChildProcessError:
                self._tasks.clear()
                self._expected.clear()
                self._held.clear()
                return
            if not tid:
                return
            self._handle(tid, wait_status)

    def _is_moving(self, task: NativeTask) -> bool:
        engine = self._engines.get(task.owner)
        return engine is not None and engine.is_moving(task)

    def _handle(self, tid: int, wait_status: int) -> None:
        try:
            task = self._tasks.get(tid)
            if task is None:
                task = self._newcomer(tid, wait_status)
                if task is None:
                    return
            engine = self._engines[task.owner]
            if wait_status == _TRAPPED:
                engine.trapped(tid, task)
            else:
                self._event(engine, tid, task, wait_status)
        except ProcessLookupError:
            pass  # killed; its end is reported next

    def _event(self, engine: NativeEngine, tid: int, task: NativeTask, wait_status: int) -> None:
        if not os.WIFSTOPPED(wait_status):
            self._ended(engine, tid, task, wait_status)
            return
        number, event = os.WSTOPSIG(wait_status), wait_status >> 16
        if event == ptrace.EVENT_EXEC:
            self._executed(engine, tid, task)
        elif event in _FORKS:
            task.is_forking = event == ptrace.EVENT_VFORK
            self._forked(engine, task, ptrace.event_message(tid))
            engine.resume_out(tid)
        elif event == ptrace.EVENT_VFORK_DONE:
            task.is_forking = False
            engine.has_own_memory(ptrace.event_message(tid))
            engine.resume_out(tid)
        elif event == ptrace.EVENT_STOP:
            if number in _GROUP_STOPS and not self._company.is_leaving:
                ptrace.listen(tid)
            else:
                engine.resume_out(tid)
        elif event:
            engine.resume(tid, 0)
        else:
            engine.signalled(tid, task, number)

    # ---- new threads and processes ----

    def _newcomer(self, tid: int, wait_status: int) -> NativeTask | None:
        """Take an unknown thread. Return None if it has to wait or was detached."""
        if not os.WIFSTOPPED(wait_status):
            self._expected.pop(tid, None)
            self._early.discard(tid)
            self._held.pop(tid, None)
            return None
        try:
            pid = int(status.read_status(tid).get("Tgid", "0"))
        except NoSuchProcess:
            return None  # the process was killed meanwhile
        engine = self._expected.pop(tid, None)
        task = self._thread_of(tid, pid)
        if task is not None:
            if engine is None:
                self._early.add(tid)
            return task
        if engine is None:
            if self._company.follows:
                self._held[tid] = _Held(pid, wait_status)
                return None
            self._early.add(tid)
            engine = self._first
        return self._child(engine, None, tid, pid)

    def _thread_of(self, tid: int, pid: int) -> NativeTask | None:
        """Take a thread of a known process. Return None if the process is not known."""
        owner = pid if pid in self._engines else None
        if owner is None:
            owner = next((task.owner for task in self._tasks.values() if task.pid == pid), None)
        if owner is None:
            return None
        task = self._tasks[tid] = NativeTask(tid, pid, owner)
        return task

    def _forked(self, engine: NativeEngine, creator: NativeTask, child: int) -> None:
        """Handle a new thread or process at the event of its creator, which is stopped."""
        held = self._held.pop(child, None)
        if held is not None:
            self._take(engine, creator, child, held.wait_status)
        elif child in self._early or child in self._tasks:
            self._early.discard(child)
        elif not self._company.follows or self._company.is_leaving:
            self._expected[child] = engine
        else:
            try:
                _, wait_status = os.waitpid(child, ptrace.WALL)  # the child stops before it runs
            except ChildProcessError:
                return  # the child was killed and reaped
            self._take(engine, creator, child, wait_status)

    def _take(self, engine: NativeEngine, creator: NativeTask, tid: int, wait_status: int) -> None:
        """Take a child or a thread at its first stop."""
        if not os.WIFSTOPPED(wait_status):
            return  # the child was killed before it ran
        try:
            pid = int(status.read_status(tid).get("Tgid", "0"))
        except NoSuchProcess:
            return  # the process was killed meanwhile
        task = self._thread_of(tid, pid) or self._child(engine, creator, tid, pid)
        if task is not None:
            self._handle(tid, wait_status)

    def _child(
        self, engine: NativeEngine, creator: NativeTask | None, tid: int, pid: int
    ) -> NativeTask | None:
        """Take a forked child, whose creator is known if children are followed.

        Return None if the child was detached.
        """
        company = self._company
        if not company.follows:
            company.say(IN_CHILDREN)
        parent = engine.pid if creator is None else creator.pid
        company.forked(pid, parent, engine.run)
        is_followed = company.follows and not company.is_leaving and creator is not None
        try:
            memory = NativeMemory(pid, engine.run.native.coding)
        except OSError:  # killed, so it has no memory
            if is_followed:
                return self._in_memory_of(engine, tid, pid)
            ptrace.detach(tid)
            return None
        is_kept = False
        try:
            is_shared = engine.has_memory_of(memory)
            if is_shared is not False:
                if is_followed:
                    assert creator is not None
                    engine.calls.inherit(engine.calls, creator.tid, tid)
                return self._in_memory_of(engine, tid, pid)
            if is_followed:
                assert creator is not None
                self._engines[pid] = engine.forked(memory, creator.tid, tid)
                is_kept = True
                return self._in_memory_of(self._engines[pid], tid, pid)
            engine.clean(memory)
        except OSError:
            if is_followed:  # the same as above
                return self._in_memory_of(engine, tid, pid)
        finally:
            if not is_kept:
                memory.close()
        ptrace.detach(tid)
        return None

    def _in_memory_of(self, engine: NativeEngine, tid: int, pid: int) -> NativeTask | None:
        """Take a child that shares this memory until it executes a program.

        Return None if the child was detached. A traced process gains no privileges when it
        executes a set-user-id program, unless its tracer has them. So if children are not
        followed and soscope lacks these rights, the child is detached at once, and all traps are
        out of memory until the child has its own memory.
        """
        if self._may_trace_all or self._company.follows:
            task = self._tasks[tid] = NativeTask(tid, pid, engine.pid)
            return task
        engine.lift_for(pid)
        self._company.say(WHILE_STARTING)
        ptrace.detach(tid)
        return None

    def _look_at_held(self) -> None:
        """Clean and detach children whose parents were killed before their fork event."""
        now = time.monotonic()
        for tid, held in list(self._held.items()):
            held.looks += 1
            if now - held.since < _UNCLAIMED or held.looks < _LOOKS:
                continue
            del self._held[tid]
            self._unclaimed += 1
            try:
                for engine in (*self._engines.values(), *self._left):
                    memory = NativeMemory(held.pid, engine.run.native.coding)
                    engine.clean(memory)
                    memory.close()
                ptrace.detach(tid)
            except OSError:
                continue  # the process was killed
        if not self._held:
            self._left.clear()

    # ---- executed programs ----

    def _executed(self, engine: NativeEngine, tid: int, task: NativeTask) -> None:
        """Handle a process that has executed another program, and so has new memory."""
        pid = task.pid
        for other in [each for each in self._tasks.values() if each.pid == pid]:
            del self._tasks[other.tid]
            engine.forget(other.tid)
        path = status.program_path(tid)
        if not self._company.follows or self._company.is_leaving:
            if not task.is_child and not self._company.follows:
                self.executed = path or "another program"
                self.is_over = True
            ptrace.detach(tid)
            return
        program = Program(self._programs, pid, path, time.time_ns())
        self._programs += 1
        self._leave_unused(engine)
        new = self._begin(program)
        self._company.events.on_process("exec", pid, None, program, program.time_ns)
        if new is None:
            ptrace.detach(tid)
            return
        self._tasks[tid] = NativeTask(tid, pid, pid)
        ptrace.resume(tid)

    def _begin(self, program: Program) -> NativeEngine | None:
        """Begin to see the calls of a program that a process has just executed.

        Return None if the process must be detached. `program` then has the reason.
        """
        pid = program.pid
        engine: NativeEngine | None = None
        try:
            native = NativeProgram(pid, is_ours=True)
            if native.gains_privileges:
                is_lost = not self._may_trace_all
                program.reason = status.SETUID_LOST if is_lost else status.SETUID
                return None
            memory = native.open_memory()
            engine = NativeEngine(memory, self._make_run(native, program), self._company)
            self._engines[pid] = engine
            engine.begin(*native.first_places(memory), before=self._first)
        except (SoscopeError, OSError) as error:
            program.reason = _reason(error)
            if engine is not None:
                engine.undo()
                engine.fill_caves()
            program.close_block()
        return engine

    # ---- ends ----

    def _ended(self, engine: NativeEngine, tid: int, task: NativeTask, wait_status: int) -> None:
        self._expected.pop(tid, None)
        self._early.discard(tid)
        self._tasks.pop(tid, None)
        engine.forget(tid)
        if tid == task.pid and (self._company.follows or not task.is_child):
            self._company.ended(tid, ExitStatus.of_wait(wait_status))
        self._leave_unused(engine)

    def _leave_unused(self, engine: NativeEngine) -> None:
        """Drop the engine of a process when no thread has its memory any more."""
        if any(task.owner == engine.pid for task in self._tasks.values()):
            return
        if self._engines.get(engine.pid) is engine:
            del self._engines[engine.pid]
        engine.leave()
        if self._held:
            self._left.append(engine)

    def remarks(self) -> list[str]:
        """Return remarks, at the end, on what was not seen."""
        unclaimed = [UNCLAIMED.format(self._unclaimed)] if self._unclaimed else []
        return [*self._company.said, *unclaimed, *self._first.unmatched()]


def _reason(error: SoscopeError | OSError) -> str:
    """Return why the calls of a program are not seen, worded as in reports."""
    if not isinstance(error, SoscopeError):
        return (error.strerror or str(error)).lower()
    if isinstance(error, AttachError) and str(error).endswith(STATIC):
        return status.STATIC
    return str(error).partition(": ")[2] or str(error)
