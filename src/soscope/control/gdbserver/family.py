# SPDX-License-Identifier: Apache-2.0
"""The processes that a stub holds: the first one and, if followed, its descendants.

    fork    The child has a copy of the memory with soscope's changes. The child gets its own
            engine, or the changes are undone and the child is detached.
    vfork   The child runs in its parent's memory. The parent's thread waits at its event until
            the child is done, because the kernel could not stop it before. Or all changes are
            undone until then.
    exec    The new program gets a control block of its own, or its observation is over.

A stop of one thread stops all processes.
"""

from __future__ import annotations

import time

from soscope.control.command import ExitStatus
from soscope.control.gdbserver.engine import GdbserverCompany, GdbserverEngine
from soscope.control.gdbserver.guard import SIGINT, SIGTRAP, Guard
from soscope.control.gdbserver.run import GdbserverMemory, GdbserverProgram, GdbserverRuns
from soscope.control.program import Program, SessionEvents
from soscope.control.qemu.engine import EXECUTED, IN_CHILDREN, NEVER, serve
from soscope.control.qemu.memory import RemoteSpace
from soscope.entry.remote import packets
from soscope.entry.remote.packets import RemoteStop, process_of, tid_of
from soscope.errors import RemoteError, SoscopeError
from soscope.proc import status

BESIDE_CHILDREN = "calls made while a child ran in the program's memory (vfork) were not seen"
GONE = "the stub is gone: calls of children from there on were not seen"
_ANSWER = 10.0  # seconds
_MOST_FAILURES = 8  # stops in a row of threads whose registers cannot be read


class GdbserverFamily(GdbserverCompany):
    """All processes of the stub. `exit` is the exit status of the first one, None before its end.

    `is_over` is set if no more stops will come, and `is_left` if that is because the processes
    were detached. `takes_interrupt` is set while a stop that soscope has requested is due.
    `programs` are the programs that were executed.
    """

    def __init__(
        self,
        runs: GdbserverRuns,
        program: Program,
        events: SessionEvents,
        guard: Guard | None,
        *,
        follows: bool,
    ) -> None:
        """Begin with the process of `program`. The caller must call `begin` next.

        `guard` detaches all processes if soscope is killed.
        """
        self.exit: ExitStatus | None = None
        super().__init__(events, follows=follows)
        self.is_over = self.is_left = False
        self.takes_interrupt = False
        self.programs = [program]
        self.stub = runs.stub
        self.engines: dict[int, GdbserverEngine] = {}  # by the number of the process
        self.first: GdbserverEngine
        self.first_pid = 0
        self._runs = runs
        self._guard = guard
        # children in their parents' memory: (the parent's waiting thread, the child's thread)
        self._sharing: dict[int, tuple[str, str]] = {}
        self._failures = 0

    def begin(self, engine: GdbserverEngine) -> None:
        """Set the engine of the first process."""
        self.first, self.first_pid = engine, engine.pid
        self.engines[engine.pid] = engine

    # ---- the loop ----

    def work(self, seconds: float) -> None:
        """Handle stops for `seconds`."""
        _, is_silent = serve(self.stub, self._handle_timed, lambda: self.is_over, seconds)
        if is_silent and self.stub.is_over:
            if self.exit is not None and not self.is_over:
                self.say(GONE)
            self.is_over = True

    def _handle_timed(self, stop: RemoteStop) -> None:
        begun = time.monotonic_ns()
        self.handle(stop)
        engine = self.engine_of(stop.thread) if stop.kind == packets.SIGNAL else None
        if engine is not None:
            engine.stood(time.monotonic_ns() - begun)

    def handle(self, stop: RemoteStop) -> None:
        """Handle a stop of any process."""
        if stop.kind != packets.SIGNAL:
            self._ended(stop)
            return
        engine = self.engine_of(stop.thread)
        facts = stop.facts
        if engine is None:
            self.stub.resume()  # of a process that was detached
        elif "exec" in facts:
            self._executed(engine, stop)
        elif "fork" in facts:
            self._forked(engine, stop, facts["fork"])
        elif "vfork" in facts:
            self._vforked(engine, stop, facts["vfork"])
        elif "vforkdone" in facts:
            if not self.follows:
                engine.put_down()
            self.stub.resume()
        elif self.takes_interrupt and stop.number == SIGINT:
            self.takes_interrupt = False  # soscope's own; all stay stopped
        else:
            self._stopped(engine, stop)

    def engine_of(self, thread: str) -> GdbserverEngine | None:
        """Return the engine of a thread's memory, None for a detached process."""
        return self.engines.get(process_of(thread))

    def _stopped(self, engine: GdbserverEngine, stop: RemoteStop) -> None:
        try:
            engine.take(stop)
            self._failures = 0
        except RemoteError:
            # A thread that was killed at its stop answers nothing. Its end is reported when it
            # goes on.
            if self.stub.is_over or not self.follows or self._failures == _MOST_FAILURES:
                raise
            self._failures += 1
            self.stub.forget_registers()
            self.stub.resume()
        self.is_left |= engine.is_left
        self.is_over |= engine is self.first and engine.is_left

    def remarks(self) -> list[str]:
        """Return remarks, at the end, on what was not seen."""
        return self.first.remarks()

    # ---- new processes ----

    def _forked(self, engine: GdbserverEngine, stop: RemoteStop, child: str) -> None:
        stub, pid = self.stub, process_of(child)
        self._tell_guard(stop, pid)
        stub.choose(child)
        if self.follows:
            self.engines[pid] = engine.forked(child, stop.tid)
            self.forked(pid, process_of(stop.thread), engine.run)
        else:
            self.say(IN_CHILDREN)
            engine.clean_copy()
            self._release(pid)
        stub.choose(stop.thread)
        stub.resume()

    def _vforked(self, engine: GdbserverEngine, stop: RemoteStop, child: str) -> None:
        stub, pid = self.stub, process_of(child)
        self._tell_guard(stop, pid)
        if self.follows:
            engine.share(child, stop.thread)
            self.engines[pid] = engine
            self._sharing[pid] = stop.thread, child
            stub.waiting.add(stop.thread)
            self.forked(pid, process_of(stop.thread), engine.run)
        else:
            self.say(BESIDE_CHILDREN)
            engine.lift_for(child)
            self._release(pid)
            stub.choose(stop.thread)
        stub.resume()

    def _tell_guard(self, stop: RemoteStop, pid: int) -> None:
        if self._guard is not None:
            self._guard.forked(process_of(stop.thread), pid)

    def _release(self, pid: int) -> None:
        self.stub.release(pid)
        if self._guard is not None:
            self._guard.gone(pid)

    # ---- executed programs ----

    def _executed(self, engine: GdbserverEngine, stop: RemoteStop) -> None:
        """Begin to see the calls of a program that a process has just executed."""
        stub = self.stub
        if not self.follows:
            self.say(EXECUTED)
            stub.detach()
            self.is_over = self.is_left = True
            return
        pid = process_of(stop.thread)
        del self.engines[pid]
        self._part(engine, pid)
        stub.choose(stop.thread)
        program = Program(len(self.programs), pid, "", time.time_ns())
        self.programs.append(program)
        end = self._begin(program)
        self.events.on_process("exec", pid, None, program, program.time_ns)
        if end is not None:
            self._ended(end)
            return
        if pid not in self.engines:
            stub.choose(stop.thread)
            self._release(pid)
            self.is_over = not self.engines
        if not self.is_over:
            stub.resume()

    def _begin(self, program: Program) -> RemoteStop | None:
        """Make an engine for a program that a process has executed, if its calls can be seen.

        Return the stop with which the process has ended meanwhile, None if it has not ended.
        """
        settings, stub = self._runs.settings, self.stub
        try:
            space = RemoteSpace(stub, None, settings.sysroot)
            program.path = space.files.program or ""
            traced = GdbserverProgram(space)
            program.path = traced.path
            program.reason = self._unseen(traced)
            if program.reason is not None:
                return None
            end = self._run_to_entry(traced)
            if end is not None:
                return end
            memory = GdbserverMemory(stub, traced.coding)
            run = self._runs.begin(program, traced, space, memory)
            engine = GdbserverEngine(stub, memory, run, self)
            engine.go_on_from(self.first)
            self.engines[program.pid] = engine
        except (SoscopeError, OSError) as error:
            if stub.is_over:
                raise
            program.reason = str(error)
            program.close_block()
        return None

    def _unseen(self, traced: GdbserverProgram) -> str | None:
        """Return why the calls of a program are not seen, None if they are."""
        if traced.loader is None:
            return status.STATIC
        first = self.first.run.traced.arch
        if traced.arch is not first:
            return f"it is for {traced.arch.name}, and the stub's first program for {first.name}"
        return None

    def _run_to_entry(self, traced: GdbserverProgram) -> RemoteStop | None:
        """Let a process leave the system call that has executed a program.

        It is at its first instruction already, but the result of execve would be put into a
        register at the next step. Return the stop with which the process has ended instead, or
        None.
        """
        stub, convention = self.stub, traced.convention
        entry = stub.get(convention.pc)
        stub.insert(entry, convention.breakpoint)
        stub.resume_alone()
        while True:
            stop = stub.wait(_ANSWER)
            if stop is None:
                raise RemoteError("the program did not come to its first instruction")
            if stop.kind != packets.SIGNAL:
                return stop
            if stop.number == SIGTRAP and stub.get(convention.pc) == entry:
                stub.remove(entry, convention.breakpoint)
                return None
            number = packets.linux_signal(stop.number)
            self.signalled(process_of(stop.thread), stop.tid, number)
            stub.resume_alone(stop.number)

    # ---- ends ----

    def _ended(self, stop: RemoteStop) -> None:
        pid = self.first_pid
        if self.follows:
            pid = int(stop.facts.get("process", "0"), 16)
        if stop.kind == packets.EXITED:
            how = ExitStatus(stop.number, None)
        else:
            how = ExitStatus(None, packets.linux_signal(stop.number))
        engine = self.engines.pop(pid, None)
        if engine is not None:
            self._part(engine, pid)
            self.ended(pid or self.programs[0].pid, how)
        if pid == self.first_pid:
            self.exit = how
            if not self.first.has_started:
                self.say(NEVER)
        if not self.engines:
            self.is_over = True
        else:
            self.stub.resume()

    def _part(self, engine: GdbserverEngine, pid: int) -> None:
        """Note that a process does not have its memory any more."""
        engine.run.recorder.leave_process(pid)
        if self._guard is not None:
            self._guard.gone(pid)
        parent, thread = self._sharing.pop(pid, ("", ""))
        self.stub.waiting.discard(parent)
        sharing = [each for each, other in self.engines.items() if other is engine]
        if not sharing:
            engine.leave()
            return
        if pid == engine.pid:
            _, home = self._sharing[sharing[0]]
            engine.move(home)
        else:
            self.stub.choose(engine.home)
        engine.forget_thread(tid_of(thread))
        if len(sharing) == 1:
            engine.stop_sharing()
