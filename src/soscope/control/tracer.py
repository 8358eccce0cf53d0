# SPDX-License-Identifier: Apache-2.0
"""Handle every ptrace stop of every thread under observation.

Each wait status is handled on its own. Nothing here waits for one thread, because that thread may
itself wait for another one.
"""

from __future__ import annotations

import _socket  # 0.2 ms; socket takes 7
import os
import time

from soscope.control import command
from soscope.control.command import ExitStatus, may_gain_privileges, text_in
from soscope.control.outcome import END, START, STOPS
from soscope.control.program import Program, SessionEvents, Task, TaskMoment
from soscope.entry import ptrace
from soscope.entry.agent import install
from soscope.entry.agent import put_in as rival
from soscope.entry.agent.install import Blob, Files
from soscope.entry.agent.put_in import PutIn
from soscope.entry.tracee import (
    ASK,
    GONE,
    MOST,
    NONE,
    REFUSED,
    STOPPED,
    TRAP,
    WORDS,
    Faulted,
    Gone,
    Rests,
    Stopped,
    Tracee,
    mended,
    rings,
)
from soscope.errors import SoscopeError
from soscope.proc import status
from soscope.proc.status import Refused, comm, signal
from soscope.wire import layout
from soscope.wire.block import ControlBlock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias


# How the agent gets into each executed program: its descriptors and its control block.
#
# The first program inherits the descriptors. Programs that it executes get theirs by a path in
# /proc or a pidfd. If the target cannot reach soscope's files (another process namespace), the
# files are made in the target and shared the other way round.

# A function that gets the path of a program, the descriptors of empty shared files that the block
# has to use (mostly None), and the process that executes the program. The process is 0 if there is
# none yet, and then the limits of this process apply. It returns the program's control block.
MakeBlock: TypeAlias = "Callable[[str, tuple[int, ...] | None, int], ControlBlock]"


_FILES = 3  # files of a block at most: its own, its plan, its page of execs


class AgentSource:
    """The agent for programs: the blob, and a new control block for each of them.

    `inherited` are the descriptor numbers of (blob, control block, plan) in the first program,
    and the number of the file of executed programs if the block has one. It is None if no
    descriptor was free.
    """

    __slots__ = ("_make_block", "blob", "inherited")

    def __init__(self, blob: Blob | None, make_block: MakeBlock) -> None:
        self.blob = blob
        self._make_block = make_block
        self.inherited: tuple[int, ...] | None = None

    def put_into(self, program: Program, put_in: PutIn) -> None:
        """Put the agent into a program that has just been loaded, and set its block.

        Raises Refused, with everything undone, and Gone.
        """
        if self.blob is None:
            raise Refused("no agent")
        block = program.block
        if block is not None and block.when_loaded is not None:
            block.when_loaded(program.pid)

        def bring(tracee: Tracee) -> tuple[Files, int, int]:
            nonlocal block
            program.path = put_in.path or program.path
            files, block = self.bring(tracee, program, block)
            return files, block.target_size, block.plan.size

        try:
            put_in.finish(self.blob, bring)
        finally:
            program.block = block  # the caller closes it after a failure
        if not put_in.hooks_loader:
            program.note = "images that it loads later are not seen: unknown loader"

    def bring(
        self, tracee: Tracee, program: Program, block: ControlBlock | None
    ) -> tuple[Files, ControlBlock]:
        """Return the agent's files, by descriptor in the target, and the block. Raises Refused."""
        assert self.blob is not None
        if block is not None and self.inherited is not None:
            return Files(*self.inherited), block
        blob_there = install.fetch(tracee, self.blob.fd)
        if blob_there >= 0:
            block = block or self.new_block(program, None)
            try:
                return self.bring_block(tracee, block, blob_there), block
            except Refused:
                install.close(tracee, blob_there)
                raise
        if block is not None:
            raise Refused(f"no descriptor for the agent: {os.strerror(-blob_there)}")
        return self.bring_copies(tracee, program)

    def bring_block(self, tracee: Tracee, block: ControlBlock, blob_there: int = -1) -> Files:
        """Bring the files of a block into the target. Raises Refused, with nothing left there."""
        there: list[int] = []
        for descriptor in block.descriptors:
            number = install.fetch(tracee, descriptor)
            if number < 0:
                for other in there:
                    install.close(tracee, other)
                raise Refused(f"no descriptor for the agent: {os.strerror(-number)}")
            there.append(number)
        return Files(blob_there, *there)

    def bring_copies(self, tracee: Tracee, program: Program) -> tuple[Files, ControlBlock]:
        """Make the files in the target and take them, if it can reach none of soscope's files.

        Returns what `bring` returns. Raises Refused.
        """
        assert self.blob is not None
        blob_there, ours = install.create(tracee)
        made = [os.fstat(ours).st_ino]
        try:
            install.copy_file(self.blob.fd, self.blob.size, ours)
        except OSError as error:
            raise Refused(f"no shared memory with the process: {error.strerror}") from error
        finally:
            os.close(ours)
        files, block = self.make_there(tracee, program)
        files.blob, files.made = blob_there, (*made, *files.made)
        return files, block

    def make_there(self, tracee: Tracee, program: Program) -> tuple[Files, ControlBlock]:
        """Make a control block and its plan in the target, without a blob. Raises Refused.

        The process that waits for this one maps the plan before it is sealed, so that soscope can
        write to it.
        """
        there: list[int] = []
        ours: list[int] = []
        try:
            for _ in range(_FILES):
                number, descriptor = install.create(tracee)
                there.append(number)
                ours.append(descriptor)
        except Refused:
            for descriptor in ours:
                os.close(descriptor)
            for number in there:
                install.close(tracee, number)
            raise
        made = [os.fstat(descriptor).st_ino for descriptor in ours]
        block = self.new_block(program, tuple(ours))
        count = len(block.descriptors)
        for number in there[count:]:
            install.close(tracee, number)
        try:
            from soscope.control.shield import give  # imported late: programs seldom need it

            give(block.descriptors)
            block.plan.seal()
        except OSError as error:
            raise Refused(f"no shared memory with the process: {error.strerror}") from error
        return Files(-1, *there[:count], made=tuple(made[:count])), block

    def new_block(self, program: Program, descriptors: tuple[int, ...] | None) -> ControlBlock:
        """Make the control block of a program. Raises Refused."""
        try:
            return self._make_block(program.path, descriptors, program.pid)
        except SoscopeError as error:
            raise Refused(str(error)) from error

    def close(self) -> None:
        """Close the blob."""
        if self.blob is not None:
            self.blob.close()
            self.blob = None


# Stop traced threads for another process of soscope, which is not their tracer.
#
# The tracer stops a thread, reports its registers to the asking process, and lets the thread go on
# when that process has looked at it or has ended (`entry/tracee.py`).


class StopServer:
    """Serves one asking process, whose messages raise SIGCHLD in this process.

    `resume` lets a stopped thread go on, with a signal. Only the tracing thread may use this.
    """

    def __init__(
        self, asker: _socket.socket, tasks: dict[int, Task], resume: Callable[[int, int], object]
    ) -> None:
        """Prepare to serve. `tasks` maps the numbers of the traced threads to them."""
        self._link = asker
        self._tasks = tasks
        self._resume = resume
        self._rests = Rests(resume)
        self._asked: set[int] = set()
        self._held: dict[int, Stopped] = {}
        self._is_open = True
        asker.setblocking(False)
        rings(asker)

    def serve(self) -> bool:
        """Handle the requests of the asking process. Return whether there were any."""
        if not self._is_open:
            return False
        for tid in [tid for tid in self._asked if tid not in self._tasks]:
            self._answer(GONE, tid)  # the thread's process executes another program
        has_served = False
        while (packet := self._packet()) is not None:
            has_served = True
            if not packet:
                self._leave()
                break
            what, tid = WORDS.unpack(packet)
            if what == ASK:
                self._ask(tid)
            elif (stopped := self._held.pop(tid, None)) is not None:
                self._rests.release(stopped)
        return has_served

    def take(self, task: Task, how: int) -> bool:
        """Take a wait status of a thread. Return True if it concerned a requested stop.

        `task.stopped` is then the signal of a group stop that the thread is in, or 0.
        """
        tid = task.tid
        self._held.pop(tid, None)
        if tid in self._rests:
            if os.WIFSTOPPED(how) and how >> 16 == ptrace.EVENT_STOP:
                task.stopped = 0 if os.WSTOPSIG(how) == TRAP else os.WSTOPSIG(how)
            self._rests.take(tid, how)
            return os.WIFSTOPPED(how)
        if tid not in self._asked:
            return False
        is_ours = os.WIFSTOPPED(how) and (how >> 16, os.WSTOPSIG(how)) == (ptrace.EVENT_STOP, TRAP)
        if not is_ours or task.put_in is not None or task.stopped:
            self._answer(GONE, tid)
            return False
        try:
            stopped = Stopped(tid, NONE, mended(tid))
        except OSError:
            self._answer(GONE, tid)
            return True  # it was killed
        self._held[tid] = stopped
        if not self._answer(STOPPED, tid, bytes(stopped.registers)):
            self._rests.release(self._held.pop(tid))
        return True

    def close(self) -> None:
        """Resume all threads that are stopped for the asking process, and stop serving it."""
        self._is_open = False
        self._leave()
        self._rests.close()

    def _leave(self) -> None:
        self._is_open = False
        self._asked.clear()
        while self._held:
            self._rests.release(self._held.popitem()[1])

    def _ask(self, tid: int) -> None:
        task = self._tasks.get(tid)
        self._asked.add(tid)
        if task is None or task.put_in is not None or task.stopped or tid in self._rests:
            self._answer(GONE, tid)  # the thread is new or must not be disturbed
        elif not task.is_seized:
            self._answer(REFUSED, tid)
        else:
            try:
                ptrace.interrupt(tid)
            except OSError:
                self._answer(GONE, tid)  # the process or thread has ended

    def _answer(self, what: int, tid: int, registers: bytes = b"") -> bool:
        self._asked.discard(tid)
        try:
            self._link.send(WORDS.pack(what, tid) + registers, _socket.MSG_NOSIGNAL)
        except OSError:
            return False  # the asker has ended or reads nothing
        return True

    def _packet(self) -> bytes | None:
        try:
            return self._link.recv(MOST)
        except BlockingIOError:
            return None  # no further request
        except OSError:
            return b""  # the process or thread has ended


# Do not trace programs that need ptrace themselves: a process can have only one tracer.

LEAKS_FOLLOWED = (
    "neither its signals nor its children are seen, because its leak check needs ptrace itself: "
    "ASAN_OPTIONS=detect_leaks=0 (LSAN_OPTIONS for -fsanitize=leak) has it followed"
)
LEAKS = "its signals are not shown, because its leak check needs ptrace itself"
TRACES_FOLLOWED = (
    "it cannot trace what it starts, because -f does, and there can be only one tracer"
)
TRACES = "its signals are not shown, because it uses ptrace itself"


def leaves(program: Program, put_in: PutIn, *, follow: bool) -> bool:
    """Return whether a program must not be traced, and note the consequences in the program.

    A program with a leak check is never traced, because a failing leak check changes its exit
    status. Many programs import ptrace and hardly ever call it. They are traced if the user asked
    to follow children.
    """
    try:
        need = put_in.rival()
    except OSError:
        return False  # the process was killed
    if need is None:
        return False
    if need == rival.CHECKS_LEAKS:
        _note(program, LEAKS_FOLLOWED if follow else LEAKS)
        if program.block is not None:
            program.block.flags &= ~layout.FLAG_FOLLOW  # children of the program record nothing
        return True
    _note(program, TRACES_FOLLOWED if follow else TRACES)
    return not follow


def _note(program: Program, text: str) -> None:
    program.note = f"{program.note}; {text}" if program.note else text


# If a thread vanishes during a stop (SIGKILL), requests fail with ESRCH. That is no error, because
# the next wait status reports the thread's end.

STOP_SIGNALS = frozenset((signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU))
_FOLLOW = ptrace.O_TRACEFORK | ptrace.O_TRACEVFORK | ptrace.O_TRACECLONE
_LET_GO, _LET_GO_PAUSE = 1.0, 0.001  # seconds
_NEW_THREAD = (ptrace.EVENT_FORK, ptrace.EVENT_VFORK, ptrace.EVENT_CLONE)

Request: TypeAlias = "Callable[[int], None]"


class Tracer:
    """The threads under observation and the programs that they run.

    `exit` is set when the first process has ended, and `is_ready` when it runs its own code or
    never will. `job_stop` is the signal that stopped the first process, 0 if none. `options` are
    the ptrace options of each thread. `executes` is the name of the program that the first
    process was about to execute, or "".
    """

    def __init__(
        self,
        pid: int,
        program: Program,
        agents: AgentSource,
        events: SessionEvents,
        *,
        follow: bool,
        stay: bool,
        threads: bool = False,
        ends: bool = False,
    ) -> None:
        self.pid = pid
        self.programs = [program]
        self.tasks = {pid: Task(pid, pid, program, is_seized=False)}
        self.exit: ExitStatus | None = None
        self.is_ready = False
        self.job_stop = 0
        self.executes = ""
        self._early: set[int] = set()  # threads seen before their creator's event
        self._alone: dict[int, int] = {}  # detached programs: pid -> start time
        self._agents = agents
        self._events = events
        self._follow = follow
        self._stay = stay or follow or threads or ends
        self.options = ptrace.O_TRACEEXEC | (_FOLLOW if follow else 0)
        self.options |= ptrace.O_TRACECLONE if threads else 0
        self.options |= ptrace.O_TRACEEXIT if ends else 0
        self._stops: StopServer | None = None
        if events.asker is not None:
            self.options |= ptrace.O_TRACESYSGOOD
            self._stops = StopServer(events.asker, self.tasks, self._let_one_go_on)

    # ---- the first process ----

    def seize_first(self) -> None:
        """Trace the first process, which has not executed its command yet.

        If soscope is killed before the program runs, the process is killed, too: it has done
        nothing of its own yet, and would run into soscope's breakpoint. Raises OSError if tracing
        is not allowed.
        """
        ptrace.seize(self.pid, self.options | ptrace.O_EXITKILL)
        self.tasks[self.pid].is_seized = True

    def await_exec(self, pid: int, name: int) -> None:
        """Trace the first process, which is about to execute another program in its place.

        `name` is the address of the file's name, 0 if there is no name. The process goes on
        untraced if another process traces it, or if the program may gain privileges, which it
        would lose under a tracer. The program is then listed without being observed.
        """
        task = self.tasks.get(pid)
        if task is None or pid != self.pid or task.is_seized:
            return
        self.executes = text_in(pid, name)
        if not status.may_trace_setuid() and may_gain_privileges(pid, self.executes):
            return
        try:
            ptrace.seize(pid, self.options)
        except OSError:
            return
        task.is_seized = True

    def start_untraced(self) -> None:
        """Note that the first process has executed its command and is not traced."""
        self.tasks[self.pid].has_executed = True
        self.programs[0].time_ns = time.time_ns()
        self._announce(self.tasks[self.pid])

    # ---- wait statuses ----

    def serve(self) -> bool:
        """Handle requests for brief stops of threads. Return whether there were any."""
        return self._stops is not None and self._stops.serve()

    def tell_news(self, tid: int) -> None:
        """Report that a thread is about to be reaped. `handle` is called afterwards."""
        self._events.on_news(tid)

    def handle(self, tid: int, wait_status: int) -> None:
        """Handle a wait status of thread `tid` and let the thread go on, if it can."""
        begun = time.monotonic_ns()
        task = self.tasks.get(tid) or self._adopt(tid)
        begins, is_traced = task.put_in is not None, task.is_seized
        before = None
        if begins or wait_status >> 16 == ptrace.EVENT_EXEC:
            before = TaskMoment.of(tid)
        try:
            if self._stops is not None and self._stops.take(task, wait_status):
                self._note_stop(task, task.stopped)
            elif os.WIFSTOPPED(wait_status):
                self._stopped(task, wait_status)
            else:
                self._ended(task, wait_status)
        except Gone as gone:
            self._ended(task, gone.status)
        if is_traced and os.WIFSTOPPED(wait_status):
            what = START if begins or task.put_in is not None else STOPS
            if wait_status >> 16 == ptrace.EVENT_EXIT:
                what = END
            stood = time.monotonic_ns() - begun if before is None else _stood(task, begun, before)
            self._events.on_stood(what, stood)

    def _stopped(self, task: Task, wait_status: int) -> None:
        number, event = os.WSTOPSIG(wait_status), wait_status >> 16
        if not task.is_seized:
            self._note_stop(task, number)
        elif event == ptrace.EVENT_STOP:
            if number in STOP_SIGNALS:
                self._note_stop(task, number)
                self._request(ptrace.listen, task)
            else:
                self._note_stop(task, 0)
                self._go_on(task)
        elif event == ptrace.EVENT_EXEC:
            self._executed(task)
        elif event in _NEW_THREAD:
            self._forked(task, event)
            self.resume(task)
        elif event == ptrace.EVENT_EXIT:
            self._ending(task)
            self.resume(task)
        elif event:
            self.resume(task)
        elif number == signal.SIGTRAP and task.put_in is not None and self._loading(task):
            pass  # soscope's own breakpoint, which the target never sees
        else:
            self._events.on_signal(task.pid, task.tid, number, time.time_ns())
            self.resume(task, number)

    def _ending(self, task: Task) -> None:
        """Report that a process is about to end. Other threads of it may end earlier."""
        program = task.program
        if task.tid == task.pid and program is not None and program.block is not None:
            self._events.on_ending(task.pid, program)

    def keeps_signal(self, number: int) -> bool:
        """Return whether a signal was meant for soscope itself, which has handled it now."""
        return self._events.on_own_signal(number)

    def _note_stop(self, task: Task, number: int) -> None:
        task.stopped = number
        if task.tid == self.pid:
            self.job_stop = number

    def resume(self, task: Task, number: int = 0) -> None:
        """Resume a stopped thread, with a signal."""
        try:
            ptrace.resume(task.tid, number)
        except ProcessLookupError:
            # The thread was killed, or a thread that soscope does not trace has called execve and
            # taken its number, so that the stopped thread is no tracee any more.
            if number in STOP_SIGNALS and _is_stopped(task.tid):
                task.is_seized = False
                self._note_stop(task, number)

    def _let_one_go_on(self, tid: int, number: int) -> None:
        """Resume a thread that was stopped for an asking process."""
        task = self.tasks.get(tid)
        if task is not None:
            if number:
                self._events.on_signal(task.pid, tid, number, time.time_ns())
            self.resume(task, number)

    def _go_on(self, task: Task) -> None:
        """Resume a process that has stopped without a signal: one made by clone(2) directly."""
        if self._follow or task.pid == self.pid:
            self.resume(task)
        else:
            self.detach(task)  # with `threads` its creation is reported like a thread's

    @staticmethod
    def _request(request: Request, task: Task) -> None:
        try:
            request(task.tid)
        except ProcessLookupError:
            pass  # the process was killed

    def _ended(self, task: Task, wait_status: int) -> None:
        self.tasks.pop(task.tid, None)
        how = ExitStatus.of_wait(wait_status)
        if not task.has_executed and how.signal is not None:  # killed before its exec
            self.programs[0].time_ns = time.time_ns()
            task.has_executed = True
            self._refuse(task, status.ENDED)
            self._announce(task)
        elif task.put_in is not None:
            self._refuse(task, status.ENDED)
            self._announce(task)
        if task.tid != task.pid:
            return
        if task.tid == self.pid:
            self._check_preloaded()
            self.exit = how
            self.job_stop = 0
            self.is_ready = True
        if task.has_executed or task.tid != self.pid:
            self._events.on_exit(task.pid, how.status, how.signal, time.time_ns())

    def _check_preloaded(self) -> None:
        """Note that an agent which the loader should have started has not started."""
        program = self.programs[0]
        block = program.block
        if program.preloaded and block is not None and block.state == layout.STATE_NEW:
            program.block = None
            program.note = None
            program.reason = f"{program.preloaded}; {command.PRELOAD_NOT_STARTED}"

    # ---- new threads and processes ----

    def _forked(self, task: Task, event: int) -> None:
        try:
            tid = ptrace.event_message(task.tid)
        except ProcessLookupError:
            return
        # The first stop of the new thread, and even its end, may have come before this event.
        if tid in self._early or tid in self.tasks:
            self._early.discard(tid)
            return
        pid = tid
        if event == ptrace.EVENT_CLONE:
            pid = _process_of(tid)
        self._add(tid, pid, task.pid, task.program)

    def _adopt(self, tid: int) -> Task:
        """Make the task of a thread whose creator's event has not come yet."""
        self._early.add(tid)
        try:
            fields = status.read_status(tid)
            pid, parent = int(fields["Tgid"]), int(fields["PPid"])
        except (SoscopeError, KeyError, ValueError):
            pid, parent = tid, 0
        creator = self.tasks.get(pid) or self.tasks.get(parent)
        return self._add(tid, pid, parent, creator.program if creator else None)

    def _add(self, tid: int, pid: int, parent: int, program: Program | None) -> Task:
        task = self.tasks[tid] = Task(tid, pid, program, is_seized=True)
        task.has_executed = True
        if tid == pid and program is not None and self._follow:
            tell_inner_pid(self._events, pid)
            self._events.on_process("fork", pid, parent, program, time.time_ns())
        return task

    # ---- new programs ----

    def _executed(self, task: Task) -> None:
        """Handle an exec stop. All other threads of the process are gone."""
        for other in [other for other in self.tasks.values() if other.pid == task.tid]:
            if other is not task:
                del self.tasks[other.tid]
        task.pid = task.tid
        path = status.program_path(task.tid)
        is_first = not task.has_executed
        task.has_executed = True
        if is_first and task.program is not None:
            program = task.program
            program.path = path or program.path
            program.time_ns = time.time_ns()
        else:
            program = Program(len(self.programs), task.tid, path, time.time_ns())
            self.programs.append(program)
            task.program = program
            if self._agents.blob is None:  # the first program needed none
                program.reason = status.NOT_FOLLOWED
        if program.reason is not None:
            self._announce(task)
            self._let_go_on(task, program.reason)
            return
        try:
            self._begin(task, is_first)
        except Refused as refused:
            is_robbed = (
                refused.reason == status.SETUID and not is_first and not status.may_trace_setuid()
            )
            put_in = task.put_in
            self._refuse(task, status.SETUID_LOST if is_robbed else refused.reason)
            self._announce(task)
            self._let_go_on(task, refused.reason, put_in)
        else:
            self.resume(task)

    def note_exec(self, task: Task, path: str, reason: str) -> None:
        """Note a program that gets no agent."""
        program = Program(len(self.programs), task.pid, path, time.time_ns())
        program.reason = reason
        self.programs.append(program)
        task.program = program
        self._announce(task)

    def _begin(self, task: Task, is_first: bool) -> None:
        try:
            tracee = Tracee(task.tid)
        except OSError as error:
            raise Refused(f"its memory: {error.strerror}") from error
        put_in = task.put_in = PutIn(tracee)
        if not is_first:
            self._request(self._kill_with_us, task)
        try:
            put_in.begin(is_our_child=is_first)
        except (Refused, OSError, SoscopeError) as error:
            inherited = self._agents.inherited
            if is_first and inherited is not None:
                try:
                    put_in.close_inherited(inherited)
                except (OSError, Faulted):
                    pass  # three open descriptors are all that remains
            if isinstance(error, Refused):
                raise
            raise Refused(str(error)) from error

    def _loading(self, task: Task) -> bool:
        """Handle a SIGTRAP of a program that is being loaded. Return whether soscope caused it."""
        put_in, program = task.put_in, task.program
        assert put_in is not None
        assert program is not None
        try:
            is_last = put_in.on_trap()
        except OSError as error:  # most likely killed; else no breakpoint is left
            self._refuse(task, f"its memory: {error.strerror or error}")
            is_last = None
        if is_last is None:
            return False
        if not is_last:
            self.resume(task)
            return True
        try:
            self._agents.put_into(program, put_in)
        except Refused as refused:
            self._refuse(task, refused.reason)
        program.marks = put_in.marks
        is_left = self._stay and leaves(program, put_in, follow=self._follow)
        put_in.tracee.close()
        task.put_in = None
        self._announce(task)
        if is_left:
            self._leave_alone(task)
        else:
            self._let_go_on(task, program.reason, put_in)
        return True

    def _leave_alone(self, task: Task) -> None:
        """Detach from a program that has the agent. `take_ends` notices its end."""
        self.detach(task)
        if task.tid != self.pid:
            try:
                self._alone[task.tid] = status.read_stat(task.tid).start
            except SoscopeError:
                self._alone[task.tid] = 0  # the process or thread has ended
            self.tasks[task.tid] = task

    def take_ends(self) -> None:
        """Note the ends of programs that have the agent and are not traced.

        Only their parents can know their exit status.
        """
        for pid, start in list(self._alone.items()):
            try:
                if status.read_stat(pid).start == start and not status.has_ended(pid):
                    continue
            except SoscopeError:
                pass  # the parent has reaped the process
            del self._alone[pid]
            self.tasks.pop(pid, None)
            self._events.on_exit(pid, None, None, time.time_ns())

    def _refuse(self, task: Task, reason: str) -> None:
        """Note that a program has no agent, and close its block."""
        if task.program is not None:
            task.program.reason = reason
            task.program.close_block()
        if task.put_in is not None:
            task.put_in.tracee.close()
            task.put_in = None

    def _let_go_on(self, task: Task, reason: str | None, put_in: PutIn | None = None) -> None:
        """Let a program run that has the agent or will not get it.

        If it was stopped by SIGSTOP while the agent was inserted, it stops now. A set-user-id
        program is not traced, because it must not be observed.
        """
        if self._stay and reason != status.SETUID:
            self._request(self._live_without_us, task)
            if put_in is not None and put_in.tracee.was_stopped:
                self._request(ptrace.interrupt, task)
            self.resume(task)
        else:
            self.detach(task)

    def detach(self, task: Task, number: int = 0) -> None:
        """Detach from a stopped thread, which goes on with a signal."""
        task.is_seized = False
        try:
            ptrace.detach(task.tid, number)
        except ProcessLookupError:
            pass  # the process was killed
        if task.tid != self.pid:
            self.tasks.pop(task.tid, None)

    def _live_without_us(self, tid: int) -> None:
        ptrace.set_options(tid, self.options)

    def _kill_with_us(self, tid: int) -> None:
        ptrace.set_options(tid, self.options | ptrace.O_EXITKILL)

    def _announce(self, task: Task) -> None:
        program = task.program
        if program is None:
            return
        program.name = comm(task.tid)
        event = "start" if program.index == 0 else "exec"
        if task.tid == self.pid:
            self.is_ready = True
        if event == "start":
            tell_inner_pid(self._events, task.pid)
        self._events.on_process(event, task.pid, None, program, program.time_ns)

    # ---- detaching ----

    def let_go(self) -> None:
        """Detach from all threads, which run on.

        A parent in vfork stops only when its child has executed a program, so all threads are
        waited for together. The kernel detaches from threads that do not stop within a second,
        when this process ends.
        """
        if self._stops is not None:
            self._stops.close()
        waiting = [task.tid for task in self.tasks.values() if task.is_seized]
        for tid in waiting:
            try:
                ptrace.interrupt(tid)
            except OSError:
                pass  # killed; its wait status reports that
        end = time.monotonic() + _LET_GO
        while waiting and time.monotonic() < end:
            for tid in waiting:
                try:
                    waited, wait_status = os.waitpid(tid, ptrace.WALL | os.WNOHANG)
                except ChildProcessError:
                    self.tasks.pop(tid, None)
                    continue
                if waited:
                    self._release(self.tasks.get(tid) or self._adopt(tid), wait_status)
            waiting = [task.tid for task in self.tasks.values() if task.is_seized]
            if waiting:
                time.sleep(_LET_GO_PAUSE)

    def _release(self, task: Task, wait_status: int) -> None:
        """Detach from a thread at the stop that this wait status reports."""
        if not os.WIFSTOPPED(wait_status):
            self._ended(task, wait_status)
            return
        event = wait_status >> 16
        number = 0 if event else os.WSTOPSIG(wait_status)
        if event in _NEW_THREAD:
            self._forked(task, event)  # the new thread stops by itself
        elif event == ptrace.EVENT_EXEC:
            self.note_exec(task, status.program_path(task.tid), status.LET_GO)
        try:
            if task.put_in is not None:
                if event == ptrace.EVENT_STOP and task.put_in.is_at_breakpoint:
                    ptrace.resume(task.tid)  # a SIGTRAP is pending and must be caught
                    return
                task.put_in.abandon()
                self._refuse(task, status.LET_GO)
                number = 0 if number == signal.SIGTRAP else number
            self.detach(task, number)
        except Gone as gone:
            self._ended(task, gone.status)
        except OSError:
            self.detach(task, number)


def tell_inner_pid(events: SessionEvents, pid: int) -> None:
    """Report a process's number in its own pid namespace, if it differs from ours."""
    inner = status.inner_pid(pid)
    if inner != pid:
        events.on_inner_pid(pid, inner)


def _stood(task: Task, begun: int, before: TaskMoment) -> int:
    """Return for how many ns a thread stood still, whose stop we have handled since `begun`.

    The thread had stopped before we came to see it. After we had let it go on, it may have run, or
    waited for a processor, while we had none.
    """
    after, went_on = TaskMoment.of(task.tid), task.went_on
    task.went_on = after if task.put_in is not None else None
    unseen = 0
    if went_on is not None:
        unseen, begun = before.stood_since(went_on), before.at_ns
    if after is None:
        return unseen + time.monotonic_ns() - begun
    went = after.ran - before.ran + after.queued - before.queued
    return unseen + max(after.at_ns - begun - went, 0)


def _process_of(tid: int) -> int:
    try:
        return int(status.read_status(tid)["Tgid"])
    except (SoscopeError, KeyError, ValueError):
        return tid


def _is_stopped(pid: int) -> bool:
    try:
        return status.read_stat(pid).state == "T"
    except SoscopeError:
        return False
