# SPDX-License-Identifier: Apache-2.0
"""Trace running processes: insert the agent while all threads are stopped, or detach."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from soscope.control import takeout
from soscope.control.command import ExitStatus, last_program_of
from soscope.control.program import Observation, Program, SessionEvents
from soscope.control.shield import check_filters, is_abandoned, shielded
from soscope.control.signals import ENDING, OWN_SIGNALS, Signals, end_is_wanted
from soscope.control.tracer import AgentSource, MakeBlock, tell_inner_pid
from soscope.entry.agent.changes import CodeChanges, MethodChanges
from soscope.entry.agent.install import Blob, Files, Install, StartFault, Undo
from soscope.entry.agent.resident import Resident, Taken
from soscope.entry.agent.visit import Executed, Visit
from soscope.entry.isa import arch
from soscope.entry.tracee import Borrowed, Faulted, Gone, Tracee
from soscope.errors import AgentError, AttachError, NoSuchProcess, NotPermitted, SoscopeError
from soscope.proc import status
from soscope.proc.status import Refused, comm, heeded, in_full, signal
from soscope.wire import layout
from soscope.wire.block import ControlBlock, Execs
from soscope.wire.sharedfile import PlanFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from typing import TypeAlias, TypeVar

    from soscope.control.helper import Following

    Result = TypeVar("Result")


# Let an agent hook the images that were loaded before it, a few milliseconds at a time.
#
# The process runs in between, so none of its threads is stopped for long, however much there is to
# hook. Images that are loaded meanwhile are hooked by the agent itself, once the program is hooked.

_TURN = 6_000_000  # ns of hooking in one turn
_BETWEEN = 0.002  # seconds that the process runs between turns, at least
_LIMIT = 20.0  # seconds for a turn
_TRIES_CODE = 100  # stops at which no thread may be at code to be changed


def hook(visit: Visit, agent: Resident, blob: Blob) -> tuple[int, str]:
    """Let `agent` hook all images. Return how many were not hooked, and why.

    If the number is 0 and there is a reason, all are hooked, but some of their code is not
    changed. Raises NoSuchProcess, NotPermitted, Executed, and Refused with everything undone.
    """
    waiting = 1
    code = CodeChanges(visit, agent)
    methods = MethodChanges(visit, agent)
    tries, left = _TRIES_CODE, 0
    while (waiting or (code.waiting and tries)) and not is_abandoned():
        time.sleep(_BETWEEN)
        visit.tries = 0
        try:
            methods.prepare()
            visit.stop(clear_of_loader=True)
            methods.look()
            if waiting:
                waiting = _turn(visit, agent, blob)
            else:
                tries -= 1
            code.apply()
            if not tries:
                left = code.give_up()
        except Executed:
            raise
        except (Refused, NotPermitted) as error:
            agent.look()
            reason = error.reason if isinstance(error, Refused) else error.message
            return agent.fields["waiting"], reason
        except Gone as error:
            raise NoSuchProcess(f"process {visit.pid} has ended") from error
        except (Faulted, OSError) as error:
            visit.threads.resume()
            takeout.take_out_here(visit, agent)
            raise Refused(f"hooking: {error}") from error
        finally:
            visit.threads.resume()
    said = []
    if left:
        said.append(f"entries left, to the middle of which signal handlers return: {left}")
    if code.refused:
        said.append(f"entries left, as code cannot be written: {code.refused}")
    if methods.are_left:
        said.append(
            "Python's method tables left, as a thread may be working out a function's hash for long"
            " (a program that soscope starts shows them)"
        )
    return 0, "; ".join(said)


def hook_children(pid: int, base: int, blob: Blob) -> None:
    """Let the agents in children that were forked meanwhile hook all images.

    Each child has a copy of the agent. A child in which that fails goes on with the hooks that it
    had when it was forked.
    """
    for child in status.descendants(pid):
        try:
            visit = Visit(child)
        except (Refused, SoscopeError):
            continue  # the child keeps the hooks that it has
        try:
            for agent in visit.agents:
                if agent.base == base and agent.is_known and agent.fields["waiting"]:
                    visit.threads.lend(*agent.lendable)
                    hook(visit, agent, blob)
        except (Refused, SoscopeError, OSError):
            continue  # the child keeps the hooks that it has
        finally:
            visit.close()


def _turn(visit: Visit, agent: Resident, blob: Blob) -> int:
    with Borrowed(visit.worker()) as tracee:
        tracee.settle(agent.stack)
        return tracee.call(
            agent.base + blob.hook, _TURN, agent.stack - 8, agent.base + blob.trap, limit=_LIMIT
        )


# A traced process that soscope did not start: the base of all engines for it.


class Visited:
    """One process that soscope did not start.

    `has_ended` is set when it has ended. `executed` is the path of the program that it has
    executed and that is not followed, or None. `taken` is the result of taking out what was put
    into it. It is None before that, if nothing was put in, and if the process ended. `failure`
    tells why that failed. `beside` are processes of the same trace, which are detached
    separately.
    """

    _following: Following | None = None  # traces it and its children, if anything does

    def __init__(self, program: Program, signals: Signals, events: SessionEvents) -> None:
        self.pid = program.pid
        self._first = program
        self.has_ended = False
        self.executed: str | None = None
        self.taken: Taken | None = None
        self.failure: str | None = None
        self.beside: set[int] = set()
        self._events = events
        self._signals = signals
        self._stop = False
        self._end_forced = False  # not by Ctrl-C alone, which the reader of our output got, too
        self._is_interrupted = False
        self._closed = False

    def stop(self) -> None:
        """Make the loop end soon."""
        self._stop = True

    @property
    def is_stopped(self) -> bool:
        """Return whether the loop should end."""
        return self._stop

    @property
    def is_closed(self) -> bool:
        """Return whether soscope has detached from the process."""
        return self._closed

    # ---- parts of the loop ----

    def wait(self, seconds: float) -> None:
        """Wait for some seconds, or until a signal comes, and handle the signals."""
        received = signal.sigtimedwait(OWN_SIGNALS, max(seconds, 0.0))
        while received is not None:
            if received.si_signo in heeded(ENDING):
                self._end_forced = self._stop or received.si_code <= 0
                self._stop = self._is_interrupted = True
            elif received.si_signo == signal.SIGTSTP:
                self._suspend()
            else:
                self._events.on_own_signal(received.si_signo)
            received = signal.sigtimedwait(OWN_SIGNALS, 0)

    def _suspend(self) -> None:
        """Stop soscope for Ctrl-Z. The process goes on, and drops calls that find no room."""
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTSTP,))
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTSTP,))

    def attend(self) -> bool:
        """Handle signals while the tick waits for a reader of its output.

        Return False if the tick should not wait any longer.
        """
        if self._following is not None:
            self._following.poll()
        self.wait(0)
        return not self._end_forced

    @property
    def is_asked_to_end(self) -> bool:
        """Return whether a signal asks soscope to end, so that it waits for no reader any more."""
        return self._end_forced

    @property
    def is_interrupted(self) -> bool:
        """Whether a signal has ended the observation. The process goes on."""
        return self._is_interrupted

    @property
    def programs(self) -> list[Program]:
        """The programs under observation. The first is the one that was running at the attach."""
        followed = self._following.programs if self._following is not None else []
        return [self._first, *followed]

    @property
    def exit(self) -> ExitStatus | None:
        """The exit status, or None. Without a tracer only the parent of the process can know it."""
        return self._following.exit if self._following is not None else None

    def hear(self) -> bool:
        """Take the events of its processes. Return whether all events have been reported."""
        return self._following is None or self._following.hear()

    # ---- what each kind of process overrides ----

    @property
    def longest_stop(self) -> int:
        """The longest time that a thread of the process was stopped, in ns."""
        return 0

    @property
    def remarks(self) -> list[str]:
        """Remarks on what soscope could not see of the process."""
        return []

    @property
    def lacking(self) -> list[str]:
        """Lines that tell what could not be observed, as a child of soscope was killed."""
        return []

    def note_exec(self, name: int) -> None:
        """Note that the process is about to execute a program.

        `name` is the address of the path or name in its call, 0 if it has none.
        """

    def is_over(self) -> bool:
        """Return whether the process has ended, or runs another program that is not followed."""
        raise NotImplementedError

    def close(self) -> None:
        """Undo all changes to the process and detach from it. May be called twice."""
        raise NotImplementedError


# A process that the agent was put into while it ran: watch it, then take the agent out again.
#
# soscope did not start the process. Without `-f` soscope does not trace it once the agent is in, so
# its signals, its children and its end are not seen. With `-f` a helper process of soscope traces
# it (see `helper`) until the agent has to be taken out of everything that the process has executed.

_HELPER_KILLED = (
    "the part of soscope that follows its children was killed: "
    "what is executed from there on is not seen"
)
_ANOTHER = "another program"
_LOOK = 0.1  # seconds between checks that the process still runs its program


class Attached(Visited):
    """A process that the agent was put into."""

    def __init__(
        self,
        visit: Visit,
        program: Program,
        agents: AgentSource,
        signals: Signals,
        events: SessionEvents,
    ) -> None:
        super().__init__(program, signals, events)
        self._visit = visit
        self._agents = agents
        self._next_look = 0.0
        self._announced = ""

    def follow(self, before: dict[int, int]) -> None:
        """Put the agent into what the process and its children execute from now on.

        `before` are the descendants that the process had before the agent was inserted. They are
        not touched. Raises AttachError, with the agent taken out.
        """
        from soscope.control.helper import Following, Helper

        def live(link: socket) -> None:
            Helper(self._first, self._agents, link, self._visit, self._events.asker).run(before)

        try:
            self._following = Following(self._first, self._events, live)
        except BaseException:
            self.close()
            raise

    @property
    def longest_stop(self) -> int:
        """The longest time that a thread of the process was stopped, in ns."""
        return self._visit.threads.longest

    # ---- parts of the loop ----

    def is_over(self) -> bool:
        """Return whether the process has ended, and with `follow` its children, too."""
        if self._following is None:
            return self._look()
        self._following.poll()
        return self._following.is_over

    @property
    def remarks(self) -> list[str]:
        """Remarks on what soscope could not see of the process."""
        return self.lacking

    @property
    def lacking(self) -> list[str]:
        """A line if the helper was killed: the children were not followed to the end."""
        if self._following is None or not self._following.was_killed:
            return []
        return [f"process {self.pid}: {_HELPER_KILLED}"]

    def _look(self, *, now: bool = False) -> bool:
        """Return whether the process has ended or runs another program."""
        time_now = time.monotonic()
        if self.has_ended or (time_now < self._next_look and not now):
            return self.has_ended
        self._next_look = time_now + _LOOK
        try:
            status.living_thread(self.pid)
            if self._visit.is_there:
                return False
            if status.has_memory(self.pid):
                self.executed = status.program_path(self.pid) or _ANOTHER
        except SoscopeError:
            pass  # the parent has waited for the process
        self.has_ended = True
        if self.executed is None and self._following is None:
            self.executed = self._executed_last()
        return True

    def _executed_last(self) -> str | None:
        """Return the path or name of the last program that an ended process executed, or None.

        None means that it ended as the program that it ran at the attach. A program that the
        agent did not see being executed is known by its process name, as long as the parent has
        not waited for the process.
        """
        block = self._first.block
        if block is None:
            return None
        if block.executing:
            return self._announced or _ANOTHER
        name = comm(self.pid) if status.has_ended(self.pid) else ""
        is_renamed = bool(block.agent_flags & layout.AGENT_RENAMED)
        return (
            last_program_of(name, self._first, may_be_renamed=is_renamed)
            if self._first.name
            else None
        )

    def note_exec(self, name: int) -> None:
        """Record the program about to be executed: it may end before the next look."""
        from soscope.control.command import text_in  # imported late: few processes do so

        self._announced = text_in(self.pid, name) if name else ""

    # ---- the end ----

    def close(self) -> None:
        """Take the agent out and detach from the process. May be called twice."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._following is not None:
                self._following.stop()
            self._take_out()
            self._take_out_of_others()
        finally:
            self._visit.close()
            self._agents.close()
            self._signals.restore()

    def _take_out(self) -> None:
        if self._look(now=True):
            if self._following is not None and self.executed is not None:
                self._take_out_of_next()
            return
        try:
            self.taken = takeout.take_out(self._visit, self._visit.agents[-1])
        except (Executed, NoSuchProcess):
            self.has_ended = True
        except (Refused, SoscopeError, OSError) as error:
            self.failure = str(error)

    def _take_out_of_next(self) -> None:
        """Take the agent out of the program that the process has executed since."""
        self.executed = None
        self.has_ended = False
        try:
            self.taken = _take_out_ours(self.pid)
        except NoSuchProcess:
            self.has_ended = True
        except (Refused, SoscopeError, OSError) as error:
            self.failure = str(error)

    def _take_out_of_others(self) -> None:
        """Take the agent out of children. A child in which that fails is left unchanged."""
        others = set(status.descendants(self.pid))
        if self._following is not None:
            others |= self._following.pids
        for pid in others - {self.pid} - self.beside:
            try:
                _take_out_ours(pid)
            except (Refused, SoscopeError, OSError):
                continue  # a child in which that fails is left unchanged


def _take_out_ours(pid: int) -> Taken:
    """Take out of a process each agent that this soscope, or a soscope that has ended, owns.

    An agent that a child has inherited has no owner once it was taken out of the parent. Raises
    Refused, SoscopeError and OSError.
    """
    total = Taken()
    visit = Visit(pid)
    try:
        for resident in visit.agents:
            if resident.owner in (0, os.getpid()) and resident.is_hooked and resident.is_known:
                taken = takeout.take_out(visit, resident)
                total.restored += taken.restored
                total.left += taken.left
                total.returns += taken.returns
                total.kept += taken.kept
    finally:
        visit.close()
    return total


# Trace a running process: the agent is inserted while all its threads are stopped.
#
# Everything that can be known is read before the stop: where the loader keeps its locks, whether an
# agent is already in the process, and where the new one will go. soscope did not start the process.
# Its signals, its children and its end are not soscope's business, and it goes on when soscope
# ends.

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
                raise Refused(f"its agent says that soscope {owner} traces it already")
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
        waiting, reason = hook(visit, agent, self.blob)
        if follow:
            hook_children(self.pid, agent.base, self.blob)
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
        tracee.settle(area + _AREA)

        def unmap() -> None:
            tracee.settle(Resident(self.visit.memory, install.base).stack if install.base else 0)
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
        tracee.settle(old.stack)
        files, block = self._bring(tracee)
        install.base = old.base
        install.run_again(old.base, self.blob, files, [block.target_size, block.plan.size])
        self._lend(install)

    def _lend(self, install: Install) -> None:
        self.visit.threads.lend(*Resident(self.visit.memory, install.base).lendable)

    def _mark(self, step: str) -> None:
        self.program.marks.append((step, time.perf_counter_ns()))


# Several running processes in one trace, with one loop for all of them.
#
# Each process has its own agent, its own control block and, with `-f`, its own helper. A process
# that cannot be traced, or that ends, does not disturb the others.

_PAUSE = 0.05

Tick = Callable[[], float | None]


class Attachments(Observation):
    """Several processes that the agent was put into: the counterpart of `Target`.

    `targets` are the processes that are or were traced, in the order in which the user listed
    them. `failures` has the errors of the other processes.
    """

    def __init__(self, events: SessionEvents) -> None:
        self.targets: list[Visited] = []
        self.failures: list[SoscopeError] = []
        self._events = events
        self._signals = Signals()

    def attach(
        self,
        pids: Sequence[int],
        make_block: MakeBlock,
        *,
        follow: bool = False,
        between: Callable[[], object] = lambda: None,
        by_sites: Callable[[int], Visited | None] = lambda _: None,
    ) -> None:
        """Put the agent into each of the processes, and call `between` after each of them.

        `by_sites` returns a process that is traced without an agent, or None if the agent traces
        it. The caller must call `run` next, in this thread.

        Raises what `attach` raises if that concerns all processes, or the only one. No process is
        traced then.
        """
        self._signals.block()  # the signals stay blocked until all processes are over
        try:
            for pid in dict.fromkeys(pids):
                try:
                    target = by_sites(pid) or attach(
                        pid, make_block, follow=follow, events=self._events
                    )
                except AgentError:
                    raise  # the next process would have no agent either
                except SoscopeError as error:
                    self.failures.append(error)
                    if end_is_wanted():
                        break
                    continue
                for other in self.targets:
                    other.beside.add(pid)
                    target.beside.add(other.pid)
                self.targets.append(target)
                between()
                if end_is_wanted():
                    break  # the agents inserted so far are taken out again
            if not self.targets:
                raise self.failures[0]
        except BaseException:
            self.close()
            self.leave()
            raise

    def note_exec(self, pid: int, name: int) -> None:
        """Record the program that a process is about to execute (see `Visited`)."""
        for target in self.targets:
            if target.pid == pid:
                target.note_exec(name)

    @property
    def programs(self) -> list[Program]:
        """The programs under observation. The first ones were running at the time of the attach."""
        return [
            *(target.programs[0] for target in self.targets),
            *(program for target in self.targets for program in target.programs[1:]),
        ]

    @property
    def exit(self) -> ExitStatus | None:
        """The exit status, if there is a single process and its status is known, else None."""
        return self.targets[0].exit if len(self.targets) == 1 else None

    def stop(self) -> None:
        """Make `run` return soon."""
        self.targets[0].stop()

    def run(self, tick: Tick | None = None) -> None:
        """Move data until `stop` is called or all processes have ended, then take the agents out.

        With `follow`, the loop also waits for the children to end. `tick` is called repeatedly,
        for the last time when nothing is hooked any more.
        """
        first = self.targets[0]  # the first one takes soscope's signals for all
        try:
            while not first.is_stopped and self._are_there():
                pause = tick() if tick is not None else None
                first.wait(_PAUSE if pause is None else pause)
        finally:
            self.close()
        if tick is not None:
            tick()

    def _are_there(self) -> bool:
        """Detach from processes that have ended. Return whether any process is left."""
        left = False
        for target in self.targets:
            if target.is_over():
                self._let_go(target)
            else:
                left = True
        return left

    def _let_go(self, target: Visited) -> None:
        if target.is_closed:
            return
        target.close()
        if target.has_ended and target.exit is None:
            self._events.on_exit(target.pid, None, None, time.time_ns())

    def hear(self) -> bool:
        """Take the events of the processes. Return whether all events have been reported."""
        return all(target.hear() for target in self.targets)

    def attend(self) -> bool:
        """Handle signals while the tick waits for a reader of its output.

        Return False if the tick should not wait any longer.
        """
        return not self.targets or self.targets[0].attend()

    @property
    def is_asked_to_end(self) -> bool:
        """Return whether a signal asks soscope to end, so that it waits for no reader any more."""
        return bool(self.targets) and self.targets[0].is_asked_to_end

    @property
    def is_interrupted(self) -> bool:
        """Whether a signal has ended the observation. The processes go on."""
        return bool(self.targets) and self.targets[0].is_interrupted

    def close(self) -> None:
        """Take the agents out and detach from all processes. May be called twice.

        Signals that are sent to soscope from here on stay pending until `leave`.
        """
        with ExitStack() as ends:  # if one raises an error, the others are still detached
            ends.callback(self._signals.drop)  # signals that ended the trace are handled
            for target in reversed(self.targets):
                ends.callback(self._let_go, target)

    def remarks(self) -> list[str]:
        """Return remarks on what soscope could not see of the processes."""
        return [remark for target in self.targets for remark in target.remarks]

    def lacking(self) -> list[str]:
        """Return lines that tell what could not be observed, as a child of soscope was killed."""
        return [line for target in self.targets for line in target.lacking]
