# SPDX-License-Identifier: Apache-2.0
"""qemu's user-mode emulator: its start, its tracing, and threads that enter its stub."""

from __future__ import annotations

import ctypes
import os
import select
import shutil
import socket
import tempfile
import time
from errno import ENOTSUP

from soscope.binfmt.source import ByteSource
from soscope.entry import ptrace
from soscope.entry.isa import arch
from soscope.entry.ptrace import libc
from soscope.entry.remote.packets import PacketStream
from soscope.errors import LaunchError, RemoteError
from soscope.model.arch import Arch
from soscope.model.record import Record
from soscope.proc import maps
from soscope.proc.memory import ProcessMemory
from soscope.proc.status import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


# qemu's user-mode emulator, and how it is started with its stub waiting.

_SOON = 0.002  # seconds between two attempts to connect
_LONGEST = 20.0


def emulator_of(arch: Arch, given: str | None) -> str:
    """Return the path of the emulator for programs of `arch`. `given` is the user's option.

    Raises LaunchError if there is none.
    """
    name = f"qemu-{arch.emulator}"
    wanted = given or name
    path = shutil.which(wanted)
    if not path and not given:
        path = shutil.which(f"{name}-static")
    if not path:
        raise LaunchError(
            f"{wanted}, which runs programs of {arch.name}, is not installed",
            hint="Debian's package is called qemu-user; --qemu PATH names another one",
            slug="no-qemu",
        )
    return path


# The stub reads so many bytes at once, and reads acknowledgements behind them one by one:
# gdb_handlesig() and gdb_get_char() of gdbstub.c.
PIECE = 256


class Socket:
    """A path for the stub's socket that other users cannot reach."""

    __slots__ = ("_folder", "path")

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="soscope-")
        self.path = os.path.join(self._folder, "stub")

    def words(self, emulator: str, sysroot: str, program: str, command: list[str]) -> list[str]:
        """Return the command that runs `program` with the words of `command`, and then waits."""
        return [emulator, "-g", self.path, "-L", sysroot, "-0", command[0], program, *command[1:]]

    def connect(self, ended: Callable[[], str]) -> socket.socket:
        """Connect to the stub as soon as it is there.

        `ended` returns how the emulator has ended, "" while it runs. Raises RemoteError if the
        stub never comes.
        """
        end = time.monotonic() + _LONGEST
        while True:
            connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connected.connect(self.path)
            except OSError as error:
                connected.close()
                how = ended()
                if how or time.monotonic() >= end:
                    behind = f", and has ended with {how}" if how else ""
                    raise RemoteError(
                        f"the emulator has not opened its stub{behind}", slug="remote-gone"
                    ) from error
                time.sleep(_SOON)
                continue
            self.close()
            return connected

    def close(self) -> None:
        """Remove the path. May be called twice."""
        shutil.rmtree(self._folder, ignore_errors=True)


# Sleep until a child or a traced thread has an event, or a descriptor is readable.


class ChildNews:
    """Gets SIGCHLD, which must be blocked. Other code may take the signal first."""

    __slots__ = ("_descriptor",)

    def __init__(self) -> None:
        mask = (ctypes.c_uint64 * 16)(1 << signal.SIGCHLD - 1)  # sigset_t has 1024 bits
        self._descriptor = int(libc.signalfd(-1, mask, os.O_NONBLOCK | os.O_CLOEXEC))
        if self._descriptor < 0:
            raise ptrace.failure()

    def wait(self, seconds: float, descriptor: int | None = None) -> None:
        """Sleep for `seconds` at most, until SIGCHLD comes or a descriptor is readable."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        if descriptor is not None:
            poll.register(descriptor, select.POLLIN)
        if any(each == self._descriptor for each, _ in poll.poll(seconds * 1000)):
            try:
                os.read(self._descriptor, 4096)
            except BlockingIOError:
                pass  # it was taken elsewhere

    def close(self) -> None:
        """Close the descriptor. May be called twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


# Begin to trace an emulator whose only thread waits in its stub, if that is possible.

_ATTEMPTS = 50
_ATTEMPT = 0.002  # seconds
_PAGE = 4096


def entry_of_code(memory: ByteSource, code: list[tuple[int, int]]) -> int:
    """Return the address at which an emulator enters translated code, before all of that code.

    `code` are the executable mappings without a file. Raises OSError if it is not found.
    """
    for start, _ in code:
        at = memory.read(start, _PAGE).find(arch.EMULATOR_ENTRY)
        if at >= 0:
            return start + at
    raise OSError(ENOTSUP, "the emulator is of an unknown kind")


def seize_in_stub(tid: int, options: int) -> int:
    """Trace the thread and leave it stopped. Return its descriptor of the stub's socket.

    It waits for soscope in a system call, which is repeated when it goes on, so it has to stop at
    that instruction. Raises OSError if the processor's breakpoints do not work, or if it may not
    be traced. The thread then goes on untraced.
    """
    ptrace.seize(tid, options)
    try:
        return _check_breakpoints(tid)
    except OSError:
        try:
            ptrace.detach(tid)
        except ProcessLookupError:
            pass  # the process was killed
        raise


def _check_breakpoints(tid: int) -> int:
    for _ in range(_ATTEMPTS):
        registers = _interrupted(tid)
        if arch.waits(registers):
            break
        ptrace.resume(tid)
        time.sleep(_ATTEMPT)
    call = registers.pc - len(arch.SYSCALL)
    arch.stop_at(tid, call)
    ptrace.resume(tid)
    has_stopped = _stops_soon(tid)
    registers = arch.get_registers(tid) if has_stopped else _interrupted(tid)
    arch.stop_at(tid)
    if not has_stopped or registers.pc != call:
        raise OSError(ENOTSUP, "the processor's breakpoints do not work")
    return arch.arguments(registers)[0]


def _interrupted(tid: int) -> arch.Registers:
    ptrace.interrupt(tid)
    os.waitid(os.P_PID, tid, os.WEXITED | os.WSTOPPED | os.WNOWAIT | ptrace.WALL)
    registers = arch.get_registers(tid)  # fails if it has ended; its status then remains
    os.waitpid(tid, ptrace.WALL)
    return registers


def _stops_soon(tid: int) -> bool:
    for _ in range(_ATTEMPTS):
        waited, wait_status = os.waitpid(tid, ptrace.WALL | os.WNOHANG)
        if waited:
            return os.WIFSTOPPED(wait_status) and os.WSTOPSIG(wait_status) == signal.SIGTRAP
        time.sleep(_ATTEMPT)
    return False


# Serialize stops: threads of an emulated program enter the emulator's stub one by one.
#
#     runs ─ is about to stop ─► waits ─ its turn ─► in the stub ─► translated code: runs
#
# The stub reports the thread that has stopped, and knows no other thread until that one goes on. If
# a second thread stops meanwhile, it takes the first one's place, and both stops are lost. No
# thread has to be kept from running to prevent that. Before an emulator looks for a thread's signal
# and reports it to the stub, it blocks all signals of the host. So each thread has a hardware
# breakpoint at that system call. The breakpoint costs nothing elsewhere, and children do not
# inherit it. A thread that is about to look for its signal waits there, where it holds no lock of
# the emulator, until the thread before it enters translated code again, which is a second
# breakpoint. By then the emulator has thrown away all translated code, as it does after each stop.
# No other thread may end during that, and none does, because ending threads come to that system
# call, too.
#
# Each thread goes through the list of the stub's breakpoints without a lock. So while a breakpoint
# is set or removed, threads may only run in translated code (`pause`).

_OPTIONS = (
    ptrace.O_TRACESYSGOOD
    | ptrace.O_TRACECLONE
    | ptrace.O_TRACEFORK
    | ptrace.O_TRACEVFORK
    | ptrace.O_TRACEEXEC
    | ptrace.O_EXITKILL
)
_STOP_SIGNALS = frozenset((signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU))
_SYSCALL_STOP = signal.SIGTRAP | ptrace.AT_SYSCALL
_CALL = len(arch.SYSCALL)

# All signals except two that all C libraries use themselves, and one that musl uses.
_FULL = ~(0b111 << 31) & 0xFFFF_FFFF_FFFF_FFFF

_LONGEST_PAUSE = 1.0  # seconds
_TURN = 0.001  # seconds between checks which threads run
_DOUBT = 0.002  # seconds until a check whether a thread has left the stub
_STRONG_DOUBT = 0.05  # seconds until it is stopped for that check
_SLEEP = 0.02  # seconds at most, as our SIGCHLD may be taken elsewhere

_RUNS, _WAITS, _STANDS, _STOPPED = range(4)
_NO_CALL = -1, 0  # of a thread that has ended


class _Thread(Record):
    """One thread. If `is_asked` is set, a stop of it was requested.

    If `is_new` is set, it has no breakpoint yet. `since` is the time at which it was last resumed
    after a stop in the emulator's own code.
    """

    tid: int
    is_new: bool
    state: int = _RUNS
    is_asked: bool = False
    since: float = 0.0


class StopSerializer:
    """Serializes the stops of one emulator's threads. All calls come from one thread.

    `ended` are threads that have ended, for the engine to drop them. `is_ending` is set while the
    program ends, when stops of its threads are not reported any more.
    """

    def __init__(self, pid: int, tid: int, on_child: Callable[[int], object]) -> None:
        """Begin with `tid`, the only thread of the program, which is in the stub.

        `on_child` is called for each process that is made, before that has run. Raises OSError if
        the emulator may not be traced, or if the processor's breakpoints do not work.
        """
        if tid != pid:
            raise OSError(ENOTSUP, "the program's first thread is not its main thread")
        self._pid = pid
        self._on_child = on_child
        self._memory = ProcessMemory(pid)
        self._code = [
            (each.start, each.end) for each in maps.read(pid) if "x" in each.flags and not each.path
        ]
        first = _Thread(tid, is_new=False)
        self._threads = {tid: first}
        self._queue: list[_Thread] = []  # waiting for their turn, next one first
        self._inside: _Thread | None = first
        self._statuses: list[tuple[int, int]] = []
        self._call = 0  # address of the sigprocmask instruction
        self._is_pausing = self._is_stepping = self._is_shut = False
        self.is_ending = False
        self._is_served = True
        self._since = self._looked = 0.0
        self.ended: list[int] = []
        self._news = ChildNews()
        try:
            self._entry = entry_of_code(self._memory, self._code)
            self._socket = seize_in_stub(tid, _OPTIONS)
        except OSError:
            self.close()
            raise
        self._go(first)

    @property
    def is_gone(self) -> bool:
        """Return whether no thread is traced any more."""
        return not self._threads and not self._statuses

    def close(self) -> None:
        """Close the memory and the signal descriptor. Threads stay unchanged.

        It may be called twice.
        """
        self._memory.close()
        self._news.close()

    def take_status(self) -> tuple[int, int] | None:
        """Return a wait status of the whole process: its end, or a group stop. None without one."""
        self._pump()
        return self._statuses.pop(0) if self._statuses else None

    # ---- the stub ----

    def receive(self, packets: PacketStream, timeout: float | None) -> bytes | None:
        """Return the next packet, and serve threads meanwhile (see `PacketStream.receive`)."""
        end = None if timeout is None else time.monotonic() + timeout
        due = time.monotonic() + _SLEEP
        while True:
            packet = packets.receive(0)
            if packet is not None or packets.is_over:
                return packet
            self._pump()
            if time.monotonic() >= due:
                due = time.monotonic() + _SLEEP
                if any(self._ends(each) for each in self._threads.values()):
                    self.end(packets)
                    return None
            left = _SLEEP if end is None else min(end - time.monotonic(), _SLEEP)
            if left <= 0:
                return None
            if self._queue and not self._is_served:
                self._look_inside()
                left = min(left, _DOUBT)
            self._news.wait(left, packets.fileno())

    def has_stopped(self) -> None:
        """Note that the stub reported the stop of its thread. Others wait until it goes on."""
        self._is_served = True

    def goes_on(self, *, is_step: bool) -> None:
        """Note that the thread goes on. With `is_step` it stops again after one instruction."""
        self._is_served = False
        self._is_stepping = is_step
        self._since = self._looked = time.monotonic()

    def shut(self) -> None:
        """Refuse further threads, because the thread in the stub is about to end the program."""
        self._is_shut = True

    def end(self, packets: PacketStream) -> None:
        """Let a thread end the program that has not waited for its turn.

        It reports to the stub's client, too, and waits for an answer, as the thread in the stub
        may do. That one would take the answer, so it is stopped. A pause ends, because the thread
        that ends the program may be stopped by it.
        """
        if self._is_shut or self.is_ending:
            return
        self.is_ending = True
        self.unpause()
        due = time.monotonic() + _LONGEST_PAUSE
        while (inside := self._inside) is not None and inside.state == _RUNS:
            if time.monotonic() >= due:
                break
            if not inside.is_asked:
                inside.is_asked = True
                _try(ptrace.interrupt, inside.tid)
            self._news.wait(_TURN)
            self._pump()
        packets.confirm()
        packets.close()

    def _ends(self, thread: _Thread) -> bool:
        """Return whether a thread outside of the stub waits for the stub's client."""
        if thread is self._inside or thread.state != _RUNS:
            return False
        return self._call_of(thread) == (arch.RECVFROM, self._socket)

    def pause(self) -> None:
        """Keep all threads except the one in the stub from running in the emulator's own code.

        A thread that waits in a system call is not touched. If the program is ending, nothing is
        done.
        """
        if self.is_ending:
            return
        self._is_pausing = True
        end = time.monotonic() + _LONGEST_PAUSE
        while True:
            self._pump()
            running = [
                each
                for each in self._threads.values()
                if each.state == _RUNS
                and each is not self._inside
                and (each.is_asked or not self._is_blocked(each))
            ]
            now = time.monotonic()
            if not running or now >= end:
                break
            for thread in running:
                # Not at once, because it needs some time to get to another place.
                if not thread.is_asked and now >= thread.since + _TURN:
                    thread.is_asked = True
                    _try(ptrace.interrupt, thread.tid)
            self._news.wait(_TURN)

    def unpause(self) -> None:
        """Undo `pause`. May be called twice."""
        if self._is_pausing:
            self._is_pausing = False
            for thread in self._threads.values():
                if thread.state == _STANDS:
                    self._go(thread)

    def _is_blocked(self, thread: _Thread) -> bool:
        """Return whether a thread waits in a system call, which a stop might interrupt."""
        return self._call_of(thread) is not None

    def _call_of(self, thread: _Thread) -> tuple[int, int] | None:
        """Return the system call that a thread waits in and its first argument, None if it runs."""
        try:
            with open(f"/proc/{self._pid}/task/{thread.tid}/syscall", "rb") as file:
                words = file.read().split(None, 2)
            if words[0] == b"running":
                return None
            return int(words[0]), int(words[1], 16)
        except (OSError, IndexError):
            return _NO_CALL

    def _look_inside(self) -> None:
        """Check whether the thread for which others wait has left the stub or never enters it.

        A thread never enters it in pause(2), for example, where it waits for a signal with all
        signals blocked.
        """
        inside, now = self._inside, time.monotonic()
        if inside is None:
            self._admit()
        elif now >= self._looked + _DOUBT and not (self._is_stepping or self._is_shut):
            self._looked = now
            call = self._call_of(inside)
            if call == _NO_CALL and inside.tid == self._pid:
                # The kernel reports the first thread's end only after the ends of all others.
                inside.is_asked = False
                self.ended.append(inside.tid)
                self._inside = None
                self._admit()
                return
            waits = call is not None and call[0] in arch.FOR_SIGNALS
            if waits or (call is None and now >= self._since + _STRONG_DOUBT):
                self._since = now
                inside.is_asked = True
                _try(ptrace.interrupt, inside.tid)

    # ---- wait statuses ----

    def _pump(self) -> None:
        """Handle the pending wait statuses."""
        while self._threads:
            try:
                ready = os.waitid(
                    os.P_ALL, 0, os.WEXITED | os.WSTOPPED | os.WNOWAIT | os.WNOHANG | ptrace.WALL
                )
            except ChildProcessError:
                ready = None
            if ready is None:
                return
            thread = self._threads.get(ready.si_pid)
            candidates = list(self._threads.values()) if thread is None else [thread]
            if not any(self._poll(each) for each in candidates):
                return  # the status belongs to another child

    def _poll(self, thread: _Thread) -> bool:
        try:
            waited, wait_status = os.waitpid(thread.tid, ptrace.WALL | os.WNOHANG)
        except ChildProcessError:
            self._forget(thread)  # another thread has called execve
            return True
        if waited:
            self._take(thread, wait_status)
        return bool(waited)

    def _take(self, thread: _Thread, wait_status: int) -> None:
        if not os.WIFSTOPPED(wait_status):
            self._forget(thread)
            if thread.tid == self._pid:
                self._statuses.append((thread.tid, wait_status))
            return
        event, number = wait_status >> 16, os.WSTOPSIG(wait_status)
        try:
            self._stopped(thread, event, number)
        except ProcessLookupError:
            pass  # killed; its next wait status reports that

    def _stopped(self, thread: _Thread, event: int, number: int) -> None:
        if event == ptrace.EVENT_STOP and number in _STOP_SIGNALS:
            thread.state = _STOPPED
            if thread.tid == self._pid:
                self._statuses.append((thread.tid, number << 8 | 0x7F))
            ptrace.listen(thread.tid)
        elif event == ptrace.EVENT_STOP:
            self._stands(thread)
        elif event == ptrace.EVENT_EXEC:
            self._threads.clear()
            self._queue.clear()
            ptrace.detach(thread.tid)
        elif event:
            if event in (ptrace.EVENT_CLONE, ptrace.EVENT_FORK, ptrace.EVENT_VFORK):
                tid = ptrace.event_message(thread.tid)
                if os.path.exists(f"/proc/{self._pid}/task/{tid}"):
                    self._threads[tid] = _Thread(tid, is_new=True)
                else:
                    self._let_child_go(tid)
            self._go(thread)
        elif number == _SYSCALL_STOP:
            self._find_call(thread)
        elif number == signal.SIGTRAP and self._call:
            registers = arch.get_registers(thread.tid)
            if registers.pc == self._call:
                self._changes_signals(thread, registers)
            elif registers.pc == self._entry:
                self._enters_code(thread)
            else:
                self._go(thread, number)
        else:
            self._go(thread, number)

    def _let_child_go(self, pid: int) -> None:
        """Detach from a new process after its memory was restored."""
        waited = os.waitpid(pid, ptrace.WALL)[1]
        if os.WIFSTOPPED(waited):
            self._on_child(pid)
            _try(ptrace.detach, pid)

    def _stands(self, thread: _Thread) -> None:
        """Handle the stop of a thread that was requested, or the first stop of a new thread."""
        was_asked, was_new = thread.is_asked, thread.is_new
        thread.is_asked = thread.is_new = False
        if was_new:
            arch.stop_at(thread.tid, self._call)
        registers = arch.get_registers(thread.tid)
        if arch.is_interrupted(registers):
            arch.restart(registers)
            arch.set_registers(thread.tid, registers)
        is_in_code = any(start <= registers.pc < end for start, end in self._code)
        if thread is self._inside and self.is_ending and not is_in_code and arch.waits(registers):
            thread.state = _STANDS
        elif thread is self._inside:
            is_behind = is_in_code or arch.waits_for_signal(registers)
            if was_asked and is_behind and (self.is_ending or not self._is_served):
                self._inside = None
                arch.stop_at(thread.tid, self._call)
            self._go(thread)
            self._admit()
        elif not self._is_pausing:
            self._go(thread)
        elif was_new or is_in_code or arch.waits(registers):
            thread.state = _STANDS
        else:
            arch.stop_at(thread.tid, self._call, self._entry)
            thread.since = time.monotonic()
            self._go(thread)

    def _changes_signals(self, thread: _Thread, registers: arch.Registers) -> None:
        """Handle a stop at the signal mask call. A thread that blocks all signals has to wait."""
        if self._blocks_all(registers):
            thread.state = _WAITS
            self._queue.append(thread)
            self._admit()
        else:
            self._go(thread)

    def _enters_code(self, thread: _Thread) -> None:
        """Handle the stop of a thread that is about to run translated code."""
        is_kept = self._is_stepping or self._is_shut
        if thread is self._inside and is_kept and not self.is_ending:
            self._go(thread)  # the thread comes here again
            return
        arch.stop_at(thread.tid, self._call)
        if thread is self._inside:
            self._inside = None
        elif self._is_pausing:
            thread.state = _STANDS
            return
        self._go(thread)
        self._admit()

    def _blocks_all(self, registers: arch.Registers) -> bool:
        how, at = arch.arguments(registers)[:2]
        if how != signal.SIG_SETMASK or not at:
            return False
        mask = int.from_bytes(self._memory.read(at, 8), "little")
        return mask & _FULL == _FULL

    def _admit(self) -> None:
        """Admit the next thread, if no thread is in the stub."""
        if self._inside is None and self._queue and not self.is_ending:
            thread = self._inside = self._queue.pop(0)
            self._since = self._looked = time.monotonic()
            _try(lambda tid: arch.stop_at(tid, self._entry), thread.tid)
            self._go(thread)

    def _go(self, thread: _Thread, number: int = 0) -> None:
        thread.state = _RUNS
        go = ptrace.resume if self._call else ptrace.resume_to_syscall
        try:
            go(thread.tid, number)
        except ProcessLookupError:
            pass  # killed; its wait status reports that

    def _forget(self, thread: _Thread) -> None:
        if self._threads.pop(thread.tid, None) is None:
            return
        self.ended.append(thread.tid)
        if thread in self._queue:
            self._queue.remove(thread)
        if thread is self._inside:
            self._inside = None
            if not self._is_shut:
                self._is_served = self._is_stepping = False
                self._admit()

    def _find_call(self, thread: _Thread) -> None:
        """Check whether a thread's system call is the one that changes its signal mask.

        The first thread makes it after the stub, before there is any other thread.
        """
        registers = arch.get_registers(thread.tid)
        is_it = arch.is_entering(registers, arch.SIGPROCMASK)
        if is_it and arch.arguments(registers)[0] == signal.SIG_SETMASK:
            self._call = registers.pc - _CALL
            arch.stop_at(thread.tid, self._entry)
        self._go(thread)


def _try(request: Callable[[int], object], tid: int) -> None:
    try:
        request(tid)
    except ProcessLookupError:
        pass  # killed; its wait status reports that
