# SPDX-License-Identifier: Apache-2.0
"""Trace a process that runs already: the agent goes in while all its threads stand still.

Everything that can be known is read before they do: where the loader keeps its locks, which
agent lies there already, where the new one will go. The process belongs to somebody else: its
signals, its children and its end are not ours, and it goes on when we are gone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from soscope.control import takeout, turns
from soscope.control.child import Signals
from soscope.control.events import Events
from soscope.control.exitstatus import ExitStatus
from soscope.control.follow import AgentSource, MakeBlock
from soscope.control.guard import guarded
from soscope.control.program import Program
from soscope.control.supervise import OWN_SIGNALS
from soscope.errors import AttachError, NoSuchProcess, SoscopeError
from soscope.process import arch_x86_64 as arch
from soscope.process import reasons, status
from soscope.process.agent import handover
from soscope.process.agent.blob import Blob
from soscope.process.agent.install import Install, Undo
from soscope.process.agent.resident import Resident
from soscope.process.agent.undo import Taken
from soscope.process.agent.visit import Executed, Visit
from soscope.process.reasons import Refused
from soscope.process.signals import signal
from soscope.process.stop.borrowed import Borrowed
from soscope.process.stop.tracee import Faulted, Gone, Tracee
from soscope.wire import layout
from soscope.wire.block import ControlBlock

_AREA = 64 << 10  # bytes of memory for calls in the process
_PROT_READ_WRITE, _MAP_PRIVATE_ANONYMOUS = 3, 0x22
_TRIES = 3  # a process may execute another program while it is looked at
_PAUSE = 0.05
_LOOK = 0.1  # seconds between looks at whether the process still runs its program
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)

# Reasons in full, by the words of process.reasons.
_SAID = {
    reasons.STATIC: "it is statically linked, so its calls go through no slots",
    reasons.SETUID: "it gained privileges when it started",
    reasons.FOREIGN: "it is made for another architecture",
    reasons.SECCOMP: "its seccomp filter may forbid what the agent needs",
    reasons.BY_LOADER: "its loader was started as the program (ld.so PROGRAM)",
    reasons.UNKNOWN_LOADER: "its loader is of an unknown kind",
}

Tick = Callable[[], float | None]


def attach(
    pid: int,
    make_block: MakeBlock,
    *,
    follow: bool = False,
    events: Events | None = None,
    agent: str | None = None,
) -> Attached:
    """Put the agent into process `pid` and return when it is hooked and running.

    `make_block(path, descriptor)` makes the control block, as for `launch`; with `follow` it
    lets forked children record, too, and they are announced. Raises
    NoSuchProcess, NotPermitted, AttachError (with the reason; the process is as it was),
    AgentError where there is no agent, and what `make_block` raises. `Attached.run` has to
    be called next, from this thread.
    """
    signals = Signals()
    signals.block(OWN_SIGNALS)
    try:
        for _ in range(_TRIES):
            try:
                attachment = _Attachment(pid, make_block, agent)
                return attachment.run(events or Events(), signals, follow=follow)
            except Executed as executed:
                refused: Refused = executed
            except Refused as other:
                refused = other
                break
        raise AttachError(f"cannot trace process {pid}: {in_full(refused.reason)}") from refused
    except BaseException:
        signals.restore()
        raise


def in_full(reason: str) -> str:
    """Return the reason of a refusal as a sentence."""
    return _SAID.get(reason, reason)


class _Attachment:
    """One try to put the agent into a process."""

    def __init__(self, pid: int, make_block: MakeBlock, agent: str | None) -> None:
        self.pid = pid
        self.agents = AgentSource(None, make_block)
        self.made: list[int] = []  # the shared file, where it had to be made in the process
        self.visit = Visit(pid)
        try:
            self.visit.check_seccomp()
            self.program = Program(0, pid, self.visit.path, 0)
            self.blob = self.agents.blob = Blob.build(agent)
            self.old = self._resident(self.blob)
            self.program.block = make_block(self.visit.path, None)
            self.blob.fill()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.visit.close()
        self.agents.close()

    def _resident(self, blob: Blob) -> Resident | None:
        """Return the agent of ours that lies there and can be started again, None without one.

        Raises Refused where a living soscope owns one. What a dead one has left is undone.
        """
        ours = None
        for one in self.visit.agents:
            owner = one.owner
            if owner:
                raise Refused(f"soscope {owner} traces it already")
            if one.is_hooked:
                if not one.is_known:
                    raise Refused("another version of soscope has left its hooks in it")
                takeout.take_out(self.visit, one)
            if one.is_known and one.build_id == blob.build_id:
                ours = one
        return ours

    def run(self, events: Events, signals: Signals, *, follow: bool) -> Attached:
        program, visit = self.program, self.visit
        old = program.block
        assert old is not None
        try:
            made = guarded(lambda: self._go_in(follow=follow), self.made)
            if self.made:
                program.block = ControlBlock(self.made[0])
                program.block.own()
                old.close()
        except BaseException:
            if program.block is not None:
                program.block.close()
            self.close()
            raise
        base, hooks_loader, visit.threads.longest, marks, waiting = made
        program.marks += marks
        if not hooks_loader:
            program.note = "images that it loads later are not seen: unknown loader"
        if waiting:
            program.note = f"{waiting} of its images are not hooked: its loader was busy"
        agent = Resident(visit.memory, base)
        visit.agents = [*(one for one in visit.agents if one.base != base), agent]
        visit.threads.lend(*agent.lendable)
        program.time_ns = time.time_ns()
        target = Attached(visit, program, self.agents, signals, events, follow=follow)
        events.on_process("start", self.pid, None, program, program.time_ns)
        return target

    def _go_in(self, *, follow: bool) -> tuple[int, bool, int, list[tuple[str, int]], int]:
        """Do all that the process stands still for.

        Returns where the agent lies, whether the loader calls it, the longest stop in ns,
        the steps, and how many images were not hooked.
        """
        visit = self.visit
        visit.tries = 0
        visit.stop(clear_of_loader=True)
        try:
            install = self._put_in()
        except Gone as error:
            raise NoSuchProcess(f"process {self.pid} has ended") from error
        finally:
            visit.threads.resume()
        agent = Resident(visit.memory, install.base)
        waiting = turns.hook(visit, agent, self.blob)
        if follow:
            turns.hook_children(self.pid, agent.base, self.blob)
        self._mark("hooked")
        longest = visit.threads.longest
        return install.base, install.hooks_loader, longest, self.program.marks, waiting

    def _put_in(self) -> Install:
        """Make the calls in the place of one thread; afterwards it is as it was."""
        undo: Undo = []
        try:
            with Borrowed(self.visit.threads.worker()) as tracee:
                try:
                    return self._install(tracee, undo)
                except (Refused, OSError, Faulted):
                    for step in reversed(undo):
                        step()
                    raise
        except OSError as error:
            raise Refused(f"its memory: {error.strerror or error}") from error
        except Faulted as error:
            raise Refused(f"a call in it: {error}") from error

    def _install(self, tracee: Tracee, undo: Undo) -> Install:
        install = Install(tracee, self.visit.facts, self._mark, layout.START_TURNS)
        install.find_syscall()
        if self.old is not None:
            self._start_again(install, self.old)
            return install
        area = tracee.syscall(
            arch.NR_MMAP, 0, _AREA, _PROT_READ_WRITE, _MAP_PRIVATE_ANONYMOUS, -1, 0
        )
        if area < 0:
            raise Refused(f"no memory in it: {os.strerror(-area)}")
        tracee.area = area + _AREA

        def unmap() -> None:
            tracee.syscall(arch.NR_MUNMAP, area, _AREA)

        undo.append(unmap)

        def bring(there: Tracee) -> tuple[int, int, int]:
            try:
                numbers, block = self.agents.bring(there, self.program, self.program.block)
            except Refused:  # it may open none of ours: another user, or namespace
                numbers, block = self.agents.bring_copies(there, self.program)
                self.made.append(os.dup(block.fd))
            return *numbers, block.size

        install.run(self.blob, bring, undo)
        undo.clear()
        unmap()
        self._lend(install)
        return install

    def _start_again(self, install: Install, old: Resident) -> None:
        tracee = install.tracee
        old.look()
        tracee.area = old.stack
        block = self.program.block
        assert block is not None
        number = handover.fetch(tracee, block.fd)
        if number < 0:
            number, ours = handover.create(tracee)
            block = self.agents.new_block(self.program, ours)
            self.made.append(os.dup(block.fd))
        if self.visit.is_clear():
            install.flags |= layout.START_UNMAP
        install.base = old.base
        install.run_again(old.base, self.blob, (number, block.size))
        self._lend(install)

    def _lend(self, install: Install) -> None:
        self.visit.threads.lend(*Resident(self.visit.memory, install.base).lendable)

    def _mark(self, step: str) -> None:
        self.program.marks.append((step, time.perf_counter_ns()))


class Attached:
    """A process that the agent was put into; the counterpart of `Target`.

    `exit` stays None: how it ends is for its parent to know. `has_ended` says that it has.
    `taken` says what came of taking the agent out, None before, and where the process ended.
    """

    def __init__(
        self,
        visit: Visit,
        program: Program,
        agents: AgentSource,
        signals: Signals,
        events: Events,
        *,
        follow: bool,
    ) -> None:
        self.pid = program.pid
        self._events = events
        self._follow = follow
        self._children: set[int] = set()
        self.programs = [program]
        self.exit: ExitStatus | None = None
        self.has_ended = False
        self.taken: Taken | None = None
        self.failure: str | None = None
        self._visit = visit
        self._agents = agents
        self._signals = signals
        self._stop = False
        self._next_look = 0.0
        self._closed = False

    @property
    def longest_stop(self) -> int:
        """The longest time that a thread of the process was stopped, in ns."""
        return self._visit.threads.longest

    def stop(self) -> None:
        """Let `run` return soon."""
        self._stop = True

    def run(self, tick: Tick | None = None) -> None:
        """Move data until somebody stops us, or the process ends; then take the agent out.

        `tick` is called again and again, last when nothing is hooked any more.
        """
        try:
            while not self._stop and not self._look():
                pause = tick() if tick is not None else None
                self._sleep(_PAUSE if pause is None else pause)
        finally:
            self.close()
        if tick is not None:
            tick()

    def close(self) -> None:
        """Take the agent out and let go of the process. May be called twice."""
        if self._closed:
            return
        self._closed = True
        try:
            self._take_out()
        finally:
            self._visit.close()
            self._agents.close()
            self._signals.restore()

    def _take_out(self) -> None:
        if self._look(now=True):
            return
        agent = self._visit.agents[-1]
        try:
            self.taken = takeout.take_out(self._visit, agent)
            self._take_out_of_children(agent)
        except (Executed, NoSuchProcess):
            self.has_ended = True
        except (Refused, SoscopeError, OSError) as error:
            self.failure = str(error)

    def _take_out_of_children(self, agent: Resident) -> None:
        """Take out what forked children have inherited; one that resists is left as it is."""
        for child in status.descendants(self.pid):
            try:
                visit = Visit(child)
            except (Refused, SoscopeError):
                continue
            try:
                for one in visit.agents:
                    if one.base == agent.base and one.is_hooked and one.is_known:
                        takeout.take_out(visit, one)
            except (Refused, SoscopeError, OSError):
                continue
            finally:
                visit.close()

    def _look_at_children(self) -> None:
        """Take note of children that were forked, and of those that have ended."""
        program, now = self.programs[0], time.time_ns()
        known, living = self._children, status.descendants(self.pid)
        for child, parent in living.items():
            if child not in known and status.program_path(child) == program.path:
                known.add(child)
                self._events.on_process("fork", child, parent, program, now)
        for child in known.difference(living):
            known.discard(child)
            self._events.on_exit(child, None, None, now)

    def _sleep(self, seconds: float) -> None:
        received = signal.sigtimedwait(OWN_SIGNALS, max(seconds, 0.0))
        while received is not None:
            if received.si_signo in _STOPPING:
                self._stop = True
            elif received.si_signo == signal.SIGTSTP:
                self._suspend()
            received = signal.sigtimedwait(OWN_SIGNALS, 0)

    def _suspend(self) -> None:
        """Stop as Ctrl-Z wants it; the process goes on, and drops what finds no room."""
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTSTP,))
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTSTP,))

    def _look(self, *, now: bool = False) -> bool:
        """Say whether the process has ended, or runs another program."""
        time_now = time.monotonic()
        if self.has_ended or (time_now < self._next_look and not now):
            return self.has_ended
        self._next_look = time_now + _LOOK
        if self._follow and not now:
            self._look_at_children()
        try:
            status.living_thread(self.pid)
        except SoscopeError:
            self.has_ended = True
        if not self.has_ended and not self._visit.is_there:
            self.has_ended = True
        return self.has_ended
