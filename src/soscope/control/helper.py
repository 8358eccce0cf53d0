# SPDX-License-Identifier: Apache-2.0
"""The helper: a child of soscope that traces a running program for `trace -p PID -f`.

Only a tracer learns of forks and execs, and each new program stays stopped until the agent is in
it. A tracer must not be killed then, because the program would run into a breakpoint. So a child
process traces, which users do not know and so do not kill, and it reports the events to soscope.
When soscope has ended, the helper undoes what it has begun, detaches from all processes and ends.

    soscope ── STOP, or the end of the socket ──► helper
    soscope ◄── one message for each event, with the control block of a new program ── helper

A message whose note lists many functions is longer than a packet of the socket may be. So a
message is sent in pieces, each with a first byte that tells whether another piece follows.
"""

from __future__ import annotations

import _socket  # 0.2 ms; socket takes 7
import fcntl
import marshal
import os
import time

from soscope.control.command import ExitStatus
from soscope.control.program import Program, SessionEvents, Task
from soscope.control.tracer import AgentSource, Tracer, tell_inner_pid
from soscope.entry import ptrace
from soscope.entry.agent.visit import Visit
from soscope.entry.stopping import Reaper
from soscope.errors import AttachError
from soscope.proc import status
from soscope.proc.status import signal
from soscope.wire.block import ControlBlock
from soscope.wire.sharedfile import PlanFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any


STOP = b"stop"
PROCESS, SIGNAL, EXIT, OVER = "process", "signal", "exit", "over"
INNER_PID = "inner pid"
MISSED = "it was executed before it could be followed"

LAST, MORE = b"\0", b"\1"  # first byte of a piece
PIECE = 1 << 15  # bytes of a piece, well below the limit of a socket's packet

_PAUSE = 0.25  # seconds between checks for changes without an event
_LAST = 2.0  # seconds that soscope may take to receive the last packets
_TURN = 0.02  # seconds of events between checks for soscope's STOP
_LETTING_GO = 0.2  # seconds that an old tracer may take to detach
_WAIT = ptrace.WALL | os.WNOHANG
_WAKING = (signal.SIGCHLD, signal.SIGIO)


class Packets(SessionEvents):
    """Sends every event to soscope, without ever waiting for soscope.

    `keeps_blocks` is set if the sender itself writes into the control blocks of new programs,
    too.
    """

    def __init__(
        self, link: _socket.socket, asker: _socket.socket | None, *, keeps_blocks: bool = False
    ) -> None:
        self.asker = asker
        self._keeps_blocks = keeps_blocks
        self._link = link
        self._waiting: list[tuple[bytes, list[int]]] = []
        self._plans: dict[int, PlanFile] = {}  # plans of programs, through which soscope writes

    def on_inner_pid(self, pid: int, inner: int) -> None:
        """Send the number of a process in its own pid namespace, before the process can end."""
        self.send((INNER_PID, pid, inner))

    def on_process(
        self, event: str, pid: int, parent: int | None, program: Program, time_ns: int
    ) -> None:
        """Send a fork or an exec. The block of a new program belongs to soscope from here on."""
        files: list[int] = []
        place = 0
        block = program.block
        if event != "fork" and block is not None:
            files = [os.dup(block.fd), os.dup(block.plan.fd)]
            place = block.plan.addr
            if not self._keeps_blocks:
                self._plans[program.index] = block.plan
                block.plan.users += 1
                block.close()
                program.block = None
        about = (program.index, program.pid, program.path, program.reason, program.note)
        how = (program.arch, program.engine)
        self.send((PROCESS, event, pid, parent, about, how, time_ns, place), files)

    def forget_all_but(self, programs: set[int]) -> None:
        """Close the plans of programs that no process runs any more."""
        for index in self._plans.keys() - programs:
            self._plans.pop(index).close()

    def on_signal(self, pid: int, tid: int, signal: int, time_ns: int) -> None:
        """Send a signal."""
        self.send((SIGNAL, pid, tid, signal, time_ns))

    def on_exit(self, pid: int, status: int | None, signal: int | None, time_ns: int) -> None:
        """Send the end of a process."""
        self.send((EXIT, pid, status, signal, time_ns))

    def send(self, packet: tuple[Any, ...], files: Sequence[int] = ()) -> None:
        """Send a packet now, or as soon as there is room for it."""
        data = marshal.dumps(packet)
        while len(data) > PIECE:
            self._waiting.append((MORE + data[:PIECE], []))
            data = data[PIECE:]
        self._waiting.append((LAST + data, [*files]))
        self.flush()

    def flush(self) -> bool:
        """Send the waiting packets. Return whether all were sent."""
        while self._waiting:
            data, files = self._waiting[0]
            rights = []
            if files:
                numbers = b"".join(file.to_bytes(4, "little") for file in files)
                rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, numbers)]
            try:
                self._link.sendmsg([data], rights, _socket.MSG_DONTWAIT | _socket.MSG_NOSIGNAL)
            except BlockingIOError:
                return False
            except OSError:
                pass  # soscope has ended, so no process reads this
            del self._waiting[0]
            for file in files:
                os.close(file)
        return True


class Helper:
    """The main loop of the helper: trace a process and its children until soscope sends STOP."""

    def __init__(
        self,
        program: Program,
        agents: AgentSource,
        link: _socket.socket,
        visit: Visit,
        asker: _socket.socket | None,
    ) -> None:
        self._pid = pid = program.pid
        self._link = link
        self._visit = visit
        self._packets = Packets(link, asker)
        self._tracer = Tracer(pid, program, agents, self._packets, follow=True, stay=True)
        self._tracer.tasks.clear()
        self._others: set[int] = set()

    def run(self, before: dict[int, int]) -> None:
        """Trace to the end. `before` are the descendants that existed before the insertion.

        Raises OSError if the process may not be traced. No process is traced then.
        """
        signal.pthread_sigmask(signal.SIG_BLOCK, _WAKING)
        fcntl.fcntl(self._link, fcntl.F_SETOWN, os.getpid())
        flags = fcntl.fcntl(self._link, fcntl.F_GETFL)
        fcntl.fcntl(self._link, fcntl.F_SETFL, flags | os.O_ASYNC)
        try:
            self._seize_all(before)
            self._packets.send((OVER, False))  # tells soscope that tracing has begun
            while not self._is_over():
                if not self._take_events():
                    signal.sigtimedwait(_WAKING, _PAUSE)
        finally:
            self._tracer.let_go()
        self._packets.send((OVER, True))
        end = time.monotonic() + _LAST
        while not self._packets.flush() and time.monotonic() < end:
            time.sleep(_PAUSE / 10)

    # ---- processes that run already ----

    def _seize_all(self, before: dict[int, int]) -> None:
        """Trace the process, and its children that were forked meanwhile.

        If a thread calls execve while some of the process's threads are not traced yet, the
        execve waits for the end of the traced ones, and this process would wait for the execve.
        So a `Reaper` waits for the threads as they end. A process's first thread is released by
        the execve itself.
        """
        reaper = Reaper(self._others)
        try:
            self._seize(self._pid)
            self._seize_missed(before)
        finally:
            reaper.end()

    def _seize(self, pid: int) -> None:
        """Trace all threads of a process, without stopping them."""
        tasks = self._tracer.tasks
        end = time.monotonic() + _LETTING_GO
        while new := [tid for tid in _threads(pid) if tid not in tasks]:
            for tid in new:
                try:
                    ptrace.seize(tid, self._tracer.options)
                except ProcessLookupError:
                    continue  # the process or thread has ended meanwhile
                except PermissionError:
                    # The kernel may have attached a new thread to us already, because we trace its
                    # creator.
                    if not _is_ours(tid):
                        if status.state_of(tid) in status.ENDED_STATES:
                            continue
                        if time.monotonic() > end:
                            raise
                        time.sleep(_PAUSE / 100)  # a tracer that ends detaches from it
                        continue
                if tid != pid:
                    self._others.add(tid)
                task = tasks[tid] = Task(tid, pid, self._tracer.programs[0], is_seized=True)
                task.has_executed = True

    def _seize_missed(self, before: dict[int, int]) -> None:
        """Trace children that were forked after the agent was inserted and before tracing began."""
        program = self._tracer.programs[0]
        for child, parent in status.descendants(self._pid).items():
            is_new = child not in before and child not in self._tracer.tasks
            if is_new and status.program_file(child) == self._visit.file:
                try:
                    self._seize(child)
                except PermissionError:
                    continue  # traced by others, or not permitted: it runs unseen
                tell_inner_pid(self._packets, child)
                self._packets.on_process("fork", child, parent, program, time.time_ns())
        task = self._tracer.tasks.get(self._pid)
        path = status.program_path(self._pid)
        if task is not None and path and not self._visit.is_there:
            self._tracer.note_exec(task, path, MISSED)

    # ---- the loop ----

    def _is_over(self) -> bool:
        try:
            if self._link.recv(len(STOP), _socket.MSG_DONTWAIT) in (STOP, b""):
                return True
        except BlockingIOError:
            pass  # no message: go on
        except OSError:
            return True
        self._tracer.take_ends()
        self._packets.flush()
        tasks = self._tracer.tasks
        self._packets.forget_all_but(
            {task.program.index for task in tasks.values() if task.program is not None}
        )
        for tid, task in list(tasks.items()):
            # The end of a thread is not reported if its process executes another program
            # meanwhile.
            if not os.path.exists(f"/proc/{task.pid}/task/{tid}"):
                del tasks[tid]
        return not tasks

    def _take_events(self) -> bool:
        """Handle pending wait statuses for a moment. Return whether there was one."""
        end = time.monotonic() + _TURN
        has_handled = self._tracer.serve()
        while time.monotonic() < end:
            try:
                tid, wait_status = os.waitpid(-1, _WAIT)
            except ChildProcessError:
                break  # no process is left to wait for
            if not tid:
                break
            has_handled = True
            self._tracer.handle(tid, wait_status)
        return has_handled


def _threads(pid: int) -> list[int]:
    try:
        tids = map(int, os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return []
    return [tid for tid in tids if status.state_of(tid) not in "ZX"]


def _is_ours(tid: int) -> bool:
    try:
        return status.read_status(tid).get("TracerPid") == str(os.getpid())
    except OSError:
        return False


# Receive what soscope's helper reports about the programs that it follows (see `helper`).

_INT = 4  # bytes of a descriptor
_FILES = 2  # descriptors that come with one packet, at most
_END = 5.0  # seconds that the helper may take to detach
_PAUSE_FOLLOWING = 0.002
# soscope's ends of all links. A helper must not hold another helper's link, whose end tells that
# helper that soscope has ended.
_links: list[_socket.socket] = []


class Following:
    """The helper of one process, as soscope sees it.

    `programs` are those that were executed since the attach, and `pids` the living processes that
    were forked since. `exit` is the exit status of the first process, None before its end.
    `is_over` is set if no process is traced any more, and `was_killed` if the helper was killed.
    `most_to_begin` is the time in seconds in which the helper must have begun to trace.
    """

    most_to_begin = 5.0

    def __init__(
        self, program: Program, events: SessionEvents, live: Callable[[_socket.socket], object]
    ) -> None:
        """Fork the helper, which runs `live` with its end of the link and follows the process.

        Raises AttachError.
        """
        self.pid = program.pid
        self.programs: list[Program] = []
        self.pids: set[int] = set()
        self.exit: ExitStatus | None = None
        self.is_over = self.was_killed = False
        self._began = False
        self._is_polling = False
        self._pieces: list[bytes] = []
        self._known = {0: program}
        self._events = events
        try:
            self._link, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
            self._child = os.fork()
        except OSError as error:
            raise AttachError(f"cannot follow process {self.pid}: {error.strerror}") from error
        if not self._child:
            for link in (self._link, *_links):
                link.close()
            _be_the_helper(live, theirs)
        theirs.close()
        _links.append(self._link)
        self._await_begin()

    def _await_begin(self) -> None:
        end = time.monotonic() + self.most_to_begin
        while not self._began and not self.is_over and time.monotonic() < end:
            if not self.poll():
                time.sleep(_PAUSE_FOLLOWING)
        if not self._began:
            self.stop()
            raise self._not_begun()

    def _not_begun(self) -> AttachError:
        return AttachError(f"cannot follow process {self.pid}: it may not be traced")

    def hear(self) -> bool:
        """Take all reports of the helper. Return False if an outer call is taking them already."""
        if self._is_polling:
            return False
        self.poll()
        return True

    def poll(self) -> bool:
        """Take the reports of the helper. Return whether there were any."""
        if self._is_polling:
            return False
        self._is_polling = True
        try:
            return self._take_all()
        finally:
            self._is_polling = False

    def _take_all(self) -> bool:
        has_taken = False
        while not self.is_over:
            try:
                data, rights, _, _ = self._link.recvmsg(
                    len(LAST) + PIECE,
                    _socket.CMSG_SPACE(_FILES * _INT),
                    _socket.MSG_DONTWAIT | _socket.MSG_CMSG_CLOEXEC,
                )
            except BlockingIOError:
                return has_taken
            except ConnectionResetError:
                continue  # the helper ended before it read our message; its last reports come next
            except OSError:
                data, rights = b"", []
            if not data:
                self.is_over = self.was_killed = True
                return has_taken
            has_taken = True
            self._pieces.append(data[len(LAST) :])
            if data.startswith(MORE):
                continue
            files = [
                int.from_bytes(numbers[at : at + _INT], "little")
                for _, _, numbers in rights
                for at in range(0, len(numbers) - len(numbers) % _INT, _INT)
            ]
            whole = b"".join(self._pieces)
            self._pieces.clear()
            self._take(marshal.loads(whole), files)  # noqa: S302  our own child wrote it
        return has_taken

    def stop(self) -> None:
        """Make the helper detach from all processes, and wait until it has. May be called twice."""
        if not self._child:
            return
        try:
            self._link.send(STOP, _socket.MSG_DONTWAIT | _socket.MSG_NOSIGNAL)
        except OSError:
            pass  # the process or thread has ended
        end = time.monotonic() + _END
        while not self.is_over and time.monotonic() < end:
            if not self.poll():
                time.sleep(_PAUSE_FOLLOWING)
        _links.remove(self._link)
        self._link.close()  # that ends the helper if it still runs
        self.is_over = True
        child, self._child = self._child, 0
        end = time.monotonic() + _END
        try:
            while not os.waitpid(child, os.WNOHANG)[0] and time.monotonic() < end:
                time.sleep(_PAUSE_FOLLOWING)  # a helper held up by a stopped process ends later
        except ChildProcessError:
            pass  # another handler of SIGCHLD has waited for it

    # ---- packets ----

    def _take(self, packet: tuple[Any, ...], files: list[int]) -> None:
        kind, *rest = packet
        if kind == PROCESS:
            self._process(files, *rest)
        elif kind == INNER_PID:
            self._events.on_inner_pid(*rest)
        elif kind == SIGNAL:
            self._events.on_signal(*rest)
        elif kind == EXIT:
            self._ended(*rest)
        else:
            self._began = True
            self.is_over = bool(rest[0])

    def _process(
        self,
        files: list[int],
        event: str,
        pid: int,
        parent: int | None,
        about: tuple[int, int, str, str | None, str | None],
        how: tuple[str, str],
        time_ns: int,
        place: int,
    ) -> None:
        index, owner, path, reason, note = about
        program = self._known.get(index)
        if program is None:
            program = self._known[index] = Program(index, owner, path, time_ns)
            program.arch, program.engine = how
            self.programs.append(program)
        program.reason = program.reason or reason
        program.note = program.note or note
        if files:
            block, plan = files
            program.block = ControlBlock(block, PlanFile(plan, (self._child, place)))
            program.block.take_over()
        self.pids.add(pid)
        self._events.on_process(event, pid, parent, program, time_ns)

    def _ended(self, pid: int, code: int | None, number: int | None, time_ns: int) -> None:
        self.pids.discard(pid)
        if pid == self.pid:
            self.exit = ExitStatus(code, number)
        self._events.on_exit(pid, code, number, time_ns)


def _be_the_helper(live: Callable[[_socket.socket], object], link: _socket.socket) -> None:
    try:
        os.setpgid(0, 0)  # signals of a terminal are for soscope
        live(link)
    except BaseException:  # noqa: BLE001, S110  the end of the socket tells soscope
        pass
    finally:
        os._exit(0)
