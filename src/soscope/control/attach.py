# SPDX-License-Identifier: Apache-2.0
"""Trace a running process: the agent is inserted while all its threads are stopped.

Everything that can be known is read before the stop: where the loader keeps its locks, whether an
agent is already in the process, and where the new one will go. soscope did not start the process.
Its signals, its children and its end are not soscope's business, and it goes on when soscope
ends.
"""

from __future__ import annotations

import os
import time

from soscope.control import takeout, turns
from soscope.control.attached import Attached
from soscope.control.events import SessionEvents
from soscope.control.filtered import check_filters
from soscope.control.follow import AgentSource, MakeBlock
from soscope.control.program import Program
from soscope.control.shield import is_abandoned, shielded
from soscope.control.signals import Signals
from soscope.control.tracer import tell_inner_pid
from soscope.entry.agent.install import Blob, Files, Install, StartFault, Undo
from soscope.entry.agent.resident import Resident, Taken
from soscope.entry.agent.visit import Executed, Visit
from soscope.entry.isa import arch
from soscope.entry.stop.tracee import Borrowed, Faulted, Gone, Tracee
from soscope.errors import AttachError, NoSuchProcess
from soscope.proc import status
from soscope.proc.status import Refused, comm, in_full
from soscope.wire import layout
from soscope.wire.block import ControlBlock, Execs
from soscope.wire.sharedfile import PlanFile

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing is slow to import
    from collections.abc import Callable
    from typing import TypeAlias, TypeVar

    Result = TypeVar("Result")

_AREA = 64 << 10  # bytes of memory for remote calls in the process
_PROT_READ_WRITE, _MAP_PRIVATE_ANONYMOUS = 3, 0x22
_LETTING_GO = 5.0  # seconds; undoing what a start has changed takes less than 1 ms
_TRIES = 3  # a process may execute another program during a try


def attach(
    pid: int,
    make_block: MakeBlock,
    *,
    follow: bool = False,
    events: SessionEvents | None = None,
    agent: str | None = None,
) -> Attached:
    """Put the agent into process `pid` and return when its calls are hooked and it runs again.

    `make_block(path, descriptor, pid)` makes the control block, as for `launch`. With `follow` it
    also makes one for each program that the process and its children execute. The caller must
    call `Attached.close` at the end, in this thread.

    Raises NoSuchProcess, NotPermitted, AttachError with the reason, AgentError if there is no
    agent, and what `make_block` raises. After an AttachError the process is unchanged.
    """
    signals = Signals()
    signals.block()
    try:
        return insisted(
            lambda: Attachment(pid, make_block, agent).run(
                events or SessionEvents(), signals, follow=follow
            ),
            f"cannot trace process {pid}",
        )
    except BaseException:
        signals.restore()
        raise


def insisted(attempt: Callable[[], Result], failure: str) -> Result:
    """Return the result of `attempt`, and repeat it if the process executes another program.

    Raises AttachError with `failure` and the reason if the attempt is refused.
    """
    for _ in range(_TRIES):
        try:
            return attempt()
        except Executed as executed:
            refused: Refused = executed
        except Refused as other:
            refused = other
            break
    raise AttachError(f"{failure}: {in_full(refused.reason)}") from refused


Between: TypeAlias = "Callable[[Visit, Resident, Blob], None]"


class Attachment:
    """One attempt to put the agent into a process.

    `old` is an agent of this soscope build that is already in the process, or None. `between` is
    called when the agent has been started and has hooked nothing yet. The process runs meanwhile.
    """

    def __init__(
        self,
        pid: int,
        make_block: MakeBlock,
        agent: str | None = None,
        *,
        look: Callable[[Visit, Resident | None], None] = lambda _visit, _old: None,
        between: Between = lambda _visit, _agent, _blob: None,
    ) -> None:
        """Examine the process, and call `look` with `old` before `make_block` is called."""
        self.pid = pid
        self._between = between
        self.agents = AgentSource(None, make_block)
        self.made: ControlBlock | None = None  # if it had to be made in the process
        self.visit = Visit(pid)
        try:
            check_filters(self.visit)
            self.program = Program(0, pid, self.visit.path, 0)
            self.blob = self.agents.blob = Blob.build(agent)
            self.old = self._resident(self.blob)
            self.lying = [resident.life for resident in self.visit.agents]
            look(self.visit, self.old)
            self.program.block = make_block(self.visit.path, None, pid)
            self.blob.fill()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close files and free memory of soscope. What is in the process stays."""
        self.visit.close()
        self.agents.close()

    def _resident(self, blob: Blob) -> Resident | None:
        """Return the agent in the process that can be started again, or None if there is none.

        What a dead soscope has left in the process is undone. Raises Refused if a living soscope
        owns an agent in the process.
        """
        ours = None
        for resident in self.visit.agents:
            owner = resident.owner
            if owner:
                raise Refused(f"it says that soscope {owner} traces it already")
            if resident.is_hooked:
                if not resident.is_known:
                    raise Refused("another version of soscope has left its hooks in it")
                takeout.take_out(self.visit, resident)
            if resident.is_known and resident.build_id == blob.build_id:
                ours = resident
        if ours is not None:
            facts = self.visit.facts
            facts.look_at_function(self.visit.memory)  # the removed agent may have changed it
            facts.saved = ours.loader_before(facts.function, facts.saved)
        return ours

    def go_in(
        self, events: SessionEvents, *, follow: bool = False
    ) -> tuple[Resident, bool, list[tuple[str, int]], int, str]:
        """Insert the agent, in a child process of soscope that a SIGKILL to soscope does not reach.

        Returns the agent, whether the loader calls the agent, the steps with their times, how
        many images were not hooked, and why. Raises what `attach` raises, with everything closed.
        """
        program, visit = self.program, self.visit
        old = program.block
        assert old is not None
        try:
            made = shielded(
                lambda: self._go_in(follow=follow), self._take, lambda: events.on_wait(self.pid)
            )
            if self.made is not None:
                program.block, self.made = self.made, None
                program.block.take_over()
                old.close()
            agent = Resident(visit.memory, made[0])
            if agent.fields:  # else the process has ended or has executed a program
                visit.threads.lend(*agent.lendable)
        except BaseException:
            if program.block is not None:
                program.block.close()
            if self.made is not None:
                self.made.close()
            self.close()
            raise
        _, hooks_loader, visit.threads.longest, marks, waiting, reason = made
        return agent, hooks_loader, marks, waiting, reason

    def _take(self, files: list[int]) -> None:
        """Map the control block that was made in the process, and its plan while it is unsealed."""
        block, plan, *execs = files
        self.made = ControlBlock(block, PlanFile(plan))
        self.made.execs = Execs(execs[0]) if execs else None

    def run(self, events: SessionEvents, signals: Signals, *, follow: bool) -> Attached:
        """Insert the agent and return the attached process."""
        program, visit = self.program, self.visit
        before = status.descendants(self.pid) if follow else {}
        agent, hooks_loader, marks, waiting, reason = self.go_in(events, follow=follow)
        program.marks += marks
        if not hooks_loader:
            program.note = "images that it loads later are not seen: unknown loader"
        if waiting:
            program.note = f"{waiting} of its images are not hooked: {in_full(reason)}"
        elif reason:
            program.note = reason
        others = [resident for resident in visit.agents if resident.base != agent.base]
        visit.agents = [*others, agent]
        program.time_ns = time.time_ns()
        program.name = comm(self.pid)
        target = Attached(visit, program, self.agents, signals, events)
        tell_inner_pid(events, self.pid)
        events.on_process("start", self.pid, None, program, program.time_ns)
        if follow:
            target.follow(before)
        return target

    def _go_in(self, *, follow: bool) -> tuple[int, bool, int, list[tuple[str, int]], int, str]:
        """Do all the work for which the process is stopped.

        Returns the agent's address, whether the loader calls the agent, the longest stop in ns,
        the steps with their times, how many images were not hooked, and why.
        """
        try:
            return self._stop_and_hook(follow=follow)
        except Gone as error:
            raise NoSuchProcess(f"process {self.pid} has ended") from error
        except OSError:
            self.visit.check_same()  # the process has ended or executed another program
            raise

    def _stop_and_hook(
        self, *, follow: bool
    ) -> tuple[int, bool, int, list[tuple[str, int]], int, str]:
        visit = self.visit
        visit.tries = 0
        visit.stop(clear_of_loader=True)
        try:
            if is_abandoned():
                raise Refused("soscope has ended")
            visit.check_agents(self.lying)
            install = self._put_in()
        finally:
            visit.threads.resume()
        agent = Resident(visit.memory, install.base)
        self._between(visit, agent, self.blob)
        waiting, reason = turns.hook(visit, agent, self.blob)
        if follow:
            turns.hook_children(self.pid, agent.base, self.blob)
        self._mark("hooked")
        longest = visit.threads.longest
        return install.base, install.hooks_loader, longest, self.program.marks, waiting, reason

    def _put_in(self) -> Install:
        """Make the calls in a borrowed thread, which afterwards has its old registers again."""
        undo: Undo = []
        try:
            with Borrowed(self.visit.worker()) as tracee:
                try:
                    return self._install(tracee, undo)
                except (Refused, OSError, Faulted) as error:
                    if isinstance(error, StartFault):
                        self._take_back(error.base)
                    for step in reversed(undo):
                        step()
                    raise
        except OSError as error:
            raise Refused(f"its memory: {error.strerror or error}") from error
        except Faulted as error:
            raise Refused(f"a call in it: {error}") from error

    def _take_back(self, base: int) -> None:
        """Undo the changes of an agent whose start failed.

        The agent's code stays mapped, because addresses of it that the agent has handed out may
        still be used.
        """
        agent = Resident(self.visit.memory, base)
        if not agent.is_known:
            return  # the agent has changed nothing yet
        agent.take_back(Taken(), _LETTING_GO)
        agent.quiet()
        agent.let_unwinders_go(Taken())
        agent.done()

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

        def bring(there: Tracee) -> tuple[Files, int, int]:
            files, block = self._bring(there)
            return files, block.target_size, block.plan.size

        install.run(self.blob, bring, undo)
        undo.clear()
        unmap()
        self._lend(install)
        return install

    def _bring(self, there: Tracee) -> tuple[Files, ControlBlock]:
        """Return the agent's files, by descriptor in the target, and the block. Raises Refused."""
        try:
            return self.agents.bring(there, self.program, self.program.block)
        except Refused:  # the process may not open soscope's files
            return self.agents.bring_copies(there, self.program)

    def _start_again(self, install: Install, old: Resident) -> None:
        tracee = install.tracee
        old.look()
        tracee.area = old.stack
        files, block = self._bring(tracee)
        install.base = old.base
        install.run_again(old.base, self.blob, files, [block.target_size, block.plan.size])
        self._lend(install)

    def _lend(self, install: Install) -> None:
        self.visit.threads.lend(*Resident(self.visit.memory, install.base).lendable)

    def _mark(self, step: str) -> None:
        self.program.marks.append((step, time.perf_counter_ns()))
