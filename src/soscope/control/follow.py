# SPDX-License-Identifier: Apache-2.0
"""How the agent gets into each executed program: its descriptors and its control block.

The first program inherits the descriptors. Programs that it executes get theirs by a path in
/proc or a pidfd. If the target cannot reach soscope's files (another process namespace), the
files are made in the target and shared the other way round.
"""

from __future__ import annotations

import _socket
import os

from soscope.control.program import Program, Task
from soscope.entry import ptrace
from soscope.entry.agent import install
from soscope.entry.agent.install import Blob, Files
from soscope.entry.agent.put_in import PutIn
from soscope.entry.stop.moments import (
    ASK,
    GONE,
    MOST,
    NONE,
    REFUSED,
    STOPPED,
    TRAP,
    WORDS,
    Rests,
    Stopped,
    mended,
    rings,
)
from soscope.entry.stop.tracee import Tracee
from soscope.errors import SoscopeError
from soscope.proc.status import Refused
from soscope.wire.block import ControlBlock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias


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
# when that process has looked at it or has ended (`entry/stop/moments.py`).


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
        """Resume all threads that are stopped for the asking process, and serve no more."""
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
