# SPDX-License-Identifier: Apache-2.0
"""Threads that run are stopped for a moment, one by one: by us, or by whoever traces them."""

from __future__ import annotations

import _socket
import fcntl
import os
import select
from struct import Struct

from soscope.entry import ptrace
from soscope.entry.isa import arch
from soscope.proc.memory import ProcessMemory
from soscope.proc.status import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


# Let threads make the rest of a system call that soscope's stop has interrupted.
#
# The program gets the result of the whole call: the part that was done when the stop ended the
# call, and the rest.

NONE, TRAP = 0, 5  # no signal; SIGTRAP, as in a stop by soscope
_AT_SYSCALL = TRAP | ptrace.AT_SYSCALL


class Stopped:
    """A stopped thread, with a pending `signal`."""

    __slots__ = ("registers", "signal", "tid")

    def __init__(self, tid: int, signal: int, registers: arch.Registers) -> None:
        self.tid = tid
        self.signal = signal
        self.registers = registers


class _Rest:
    """A call whose rest is being made: the program's registers after it, the result so far."""

    __slots__ = ("has_begun", "registers", "result")

    def __init__(self, registers: arch.Registers) -> None:
        self.registers = registers
        self.result = registers.result
        self.has_begun = False


class Rests:
    """The threads that make the rest of a call. `tids` lists them."""

    __slots__ = ("_is_closing", "_let_go", "_rests")

    def __init__(self, let_go: Callable[[int, int], object]) -> None:
        """Prepare. `let_go` resumes a thread with a signal, as it was before the stop request.

        The threads must be traced with PTRACE_O_TRACESYSGOOD.
        """
        self._let_go = let_go
        self._rests: dict[int, _Rest] = {}
        self._is_closing = False

    @property
    def tids(self) -> list[int]:
        """The threads that make the rest of a call."""
        return list(self._rests)

    def __contains__(self, tid: int) -> bool:
        """Return whether a thread makes the rest of a call."""
        return tid in self._rests

    def release(self, stopped: Stopped) -> None:
        """Release a thread as soon as it has made the rest of its call."""
        registers = stopped.registers.copy()
        if not stopped.signal and arch.set_rest(registers) and _is_syscall(stopped):
            try:
                arch.set_registers(stopped.tid, registers)
                self._rests[stopped.tid] = _Rest(stopped.registers)
                ptrace.resume_to_syscall(stopped.tid)
            except OSError:
                self.forget(stopped.tid)  # it was killed
            return
        self._let_go(stopped.tid, stopped.signal)

    def forget(self, tid: int) -> None:
        """Drop a thread that has ended."""
        self._rests.pop(tid, None)

    def take(self, tid: int, how: int) -> None:
        """Handle a wait status of a thread that makes the rest of a call."""
        rest = self._rests[tid]
        if not os.WIFSTOPPED(how):
            del self._rests[tid]
            return
        signal = os.WSTOPSIG(how)
        try:
            if signal == _AT_SYSCALL and rest.has_begun:
                del self._rests[tid]
                arch.join(rest.registers, rest.result, arch.get_registers(tid).result)
                arch.set_registers(tid, rest.registers)
                self._let_go(tid, NONE)
            elif signal == _AT_SYSCALL:
                rest.has_begun = True
                ptrace.resume_to_syscall(tid)
            elif rest.has_begun:
                ptrace.resume_to_syscall(tid, NONE if how >> 16 else signal)
            elif self._is_closing or not how >> 16:
                # A handler will run before the rest has begun, so the part is the result.
                del self._rests[tid]
                arch.set_registers(tid, rest.registers)
                self._let_go(tid, NONE if how >> 16 else signal)
            elif signal == TRAP:
                ptrace.resume_to_syscall(tid)
            else:
                ptrace.listen(tid)
        except OSError:
            self.forget(tid)  # it was killed

    def close(self) -> None:
        """Release all threads, with the results that they have by now."""
        self._is_closing = True
        for tid in self._rests:
            try:
                ptrace.interrupt(tid)  # the call returns the larger part done by then
            except OSError:
                continue  # the process or thread has ended
        while self._rests:
            tid = next(iter(self._rests))
            try:
                _, how = os.waitpid(tid, ptrace.WALL)
            except ChildProcessError:
                self.forget(tid)  # the thread's end was reaped elsewhere
            else:
                self.take(tid, how)


def mended(tid: int) -> arch.Registers:
    """Return the registers of a thread, and restart a call that the stop has ended.

    Raises OSError if the thread was killed.
    """
    registers = arch.get_registers(tid)
    if arch.is_interrupted(registers):
        arch.restart(registers)
        arch.set_registers(tid, registers)
    return registers


def _is_syscall(stopped: Stopped) -> bool:
    """Return whether a thread is just behind a system call instruction, which can be repeated."""
    try:
        memory = ProcessMemory(stopped.tid)
    except OSError:
        return False  # unread code is not run again
    try:
        size = len(arch.SYSCALL)
        return memory.read(stopped.registers.pc - size, size) == arch.SYSCALL
    finally:
        memory.close()


# Stop running threads briefly, one by one, and detach from them again.
#
# Between two such stops a thread has no tracer, so its signals are not affected. A signal that
# comes during a stop is delivered at the detach. A thread that waits must not be asked to stop,
# because a stop ends system calls. A thread that has begun a call since it was checked, or that is
# in the middle of one, repeats its call, or the rest of it (`moments.py`).

_WAIT = ptrace.WALL | os.WNOHANG


class Moments:
    """Asks threads to stop, and reports when they have. For use by one thread of soscope.

    `asked` are the threads that have been asked and have not stopped yet. SIGCHLD must be
    blocked.
    """

    __slots__ = ("_rests", "asked")

    def __init__(self) -> None:
        self.asked: set[int] = set()
        self._rests = Rests(_detach)

    @property
    def is_idle(self) -> bool:
        """Return whether no thread is traced. A traced thread's end waits until it is noticed."""
        return not self.asked and not self._rests.tids

    def ask(self, tid: int) -> bool:
        """Ask a thread to stop. Return False if it is still making the rest of a call.

        Raises OSError if it has ended, may not be traced, or has another tracer.
        """
        if tid in self._rests or tid in self.asked:
            return False
        ptrace.seize(tid, ptrace.O_TRACESYSGOOD)
        self.asked.add(tid)
        try:
            ptrace.interrupt(tid)
        except ProcessLookupError:
            pass  # the thread ends, which is reported later
        return True

    @staticmethod
    def wait(seconds: float, other: _socket.socket) -> bool:
        """Wait until a thread may have stopped, or `other` is readable. Return False for neither.

        Data at `other` must raise SIGCHLD (see `served`).
        """
        del other
        return signal.sigtimedwait((signal.SIGCHLD,), seconds) is not None

    def next(self) -> Stopped | None:
        """Return a thread that has stopped, or None. It has to be released soon.

        Threads that have ended instead, or that a signal has stopped for longer, are not
        returned.
        """
        for tid in self._rests.tids:
            how = self._wait(tid)
            if how is not None:
                self._rests.take(tid, how)
        for tid in list(self.asked):
            how = self._wait(tid)
            if how is None:
                continue
            self.asked.discard(tid)
            if not os.WIFSTOPPED(how):
                continue
            number = os.WSTOPSIG(how)
            is_event = how >> 16 == ptrace.EVENT_STOP
            if is_event and number != TRAP:
                _detach(tid)  # the thread stays in the group stop
                continue
            try:
                return Stopped(tid, NONE if is_event else number, mended(tid))
            except OSError:
                continue  # it was killed
        return None

    @staticmethod
    def refused() -> list[int]:
        """Return asked threads that may not be stopped: none, because `ask` raises the error."""
        return []

    def release(self, stopped: Stopped) -> None:
        """Resume a thread, and detach from it as soon as it has made the rest of its call."""
        self._rests.release(stopped)

    def close(self) -> None:
        """Detach from all threads, but first from those that make the rest of a call.

        Threads that have only been asked go on when this process ends.
        """
        self._rests.close()

    def _wait(self, tid: int) -> int | None:
        """Return the wait status of a thread that has stopped or ended, else None."""
        try:
            waited, how = os.waitpid(tid, _WAIT)
        except ChildProcessError:  # the thread's end was reaped elsewhere
            self.asked.discard(tid)
            self._rests.forget(tid)
            return None
        return how if waited else None


def _detach(tid: int, number: int = NONE) -> None:
    try:
        ptrace.detach(tid, number)
    except OSError:
        pass  # it was killed


# Brief stops of threads by another process, which is their tracer.
#
#     sampler ── ASK a thread; RELEASE it ──► tracer
#     sampler ◄── STOPPED, with its registers; GONE: it does not stop; REFUSED ── tracer
#
# Each is one packet. The memory of a stopped thread can be read without being its tracer.

ASK, RELEASE = 1, 2
STOPPED, GONE, REFUSED = 3, 4, 5
WORDS = Struct("<II")  # message and thread; registers may follow
MOST = 1 << 12
_SETSIG = 10  # of fcntl(2); the module lacks the name


def rings(link: _socket.socket) -> None:
    """Make data on this link raise SIGCHLD in this process, like the stops of threads."""
    fcntl.fcntl(link, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(link, _SETSIG, signal.SIGCHLD)
    fcntl.fcntl(link, fcntl.F_SETFL, fcntl.fcntl(link, fcntl.F_GETFL) | os.O_ASYNC)


class ServedMoments:
    """The same as `Moments`, by a tracer at the other end of a packet socket."""

    __slots__ = ("_link", "_refused", "asked")

    def __init__(self, link: _socket.socket) -> None:
        link.setblocking(False)
        self._link = link
        self._refused: list[int] = []
        self.asked: set[int] = set()

    @property
    def is_idle(self) -> bool:
        """Return whether no answer is pending."""
        return not self.asked

    def ask(self, tid: int) -> bool:
        """Ask for a stop of a thread. Return False if that is not possible now."""
        if tid in self.asked or not self._say(ASK, tid):
            return False
        self.asked.add(tid)
        return True

    def wait(self, seconds: float, other: _socket.socket) -> bool:
        """Wait until a thread may have stopped, or `other` is readable, for at most `seconds`.

        Return False if neither has happened.
        """
        return bool(select.select([self._link, other], (), (), seconds)[0])

    def next(self) -> Stopped | None:
        """Return a thread that has stopped, or None. It has to be released soon."""
        while True:
            try:
                packet = self._link.recv(MOST)
            except BlockingIOError:
                return None  # no more data so far
            except OSError:
                packet = b""
            if len(packet) < WORDS.size:
                self.asked.clear()  # the tracer has ended, and will end this process
                return None
            what, tid = WORDS.unpack_from(packet)
            if tid not in self.asked:
                continue
            self.asked.discard(tid)
            if what == STOPPED:
                registers = arch.Registers.from_buffer_copy(packet, WORDS.size)
                return Stopped(tid, NONE, registers)
            if what == REFUSED:
                self._refused.append(tid)

    def refused(self) -> list[int]:
        """Return the threads, since the last call, that may not be stopped."""
        refused, self._refused = self._refused, []
        return refused

    def release(self, stopped: Stopped) -> None:
        """Resume a thread."""
        self._say(RELEASE, stopped.tid)

    def close(self) -> None:
        """Close the link. The tracer then releases all threads."""
        self._link.close()

    def _say(self, what: int, tid: int) -> bool:
        try:
            self._link.send(WORDS.pack(what, tid), _socket.MSG_NOSIGNAL)
        except OSError:
            return False  # the tracer has ended, or is far behind
        return True
