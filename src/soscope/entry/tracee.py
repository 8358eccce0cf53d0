# SPDX-License-Identifier: Apache-2.0
"""Stop threads briefly, change their registers and memory, and resume them."""

from __future__ import annotations

import _socket  # 0.2 ms; socket takes 7
import errno
import fcntl
import os
import select
import time
from struct import Struct
from types import TracebackType

from soscope.entry import ptrace
from soscope.entry.isa import arch
from soscope.entry.ptrace import RemoteMemory
from soscope.proc import maps
from soscope.proc.memory import ProcessMemory
from soscope.proc.status import read_status, signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    _T = TypeVar("_T")


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


# Stop running threads briefly, one by one, and detach from them again. Between two such stops a
# thread has no tracer, so its signals are not affected. A signal that comes during a stop is
# delivered at the detach. A thread that waits must not be asked to stop, because a stop ends
# system calls. A thread that has begun a call since it was checked, or that is in the middle of
# one, repeats its call, or makes the rest of it: see above.

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
        """Detach from all threads, but first from threads that make the rest of a call.

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


# A stopped thread of another process: its registers, its memory, and calls in it.
#
# This module does not depend on what is called. A thread that dies meanwhile raises `Gone` with its
# wait status, which then belongs to the caller, because it cannot be read again.

# The time in which a tracer has looked at its tracee.
#
# A tracer that gets no processor, or whose machine pauses, has not really waited in that time.

_LONGEST = 0.05  # seconds between two looks that count at most


class LookingTime:
    """A clock that advances by at most 50 ms from one look to the next.

    >>> from soscope.entry.tracee import LookingTime
    >>> clock = LookingTime()
    >>> clock.now()
    0.0
    """

    __slots__ = ("_last", "_sum")

    def __init__(self) -> None:
        self._last: float | None = None
        self._sum = 0.0

    def now(self) -> float:
        """Return the seconds since the first look, without pauses between looks."""
        now = time.monotonic()
        if self._last is not None:
            self._sum += min(now - self._last, _LONGEST)
        self._last = now
        return self._sum


_STOP_SIGNALS = frozenset((signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU))
_FAULTS = frozenset((signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGSYS))
_LEFT = (signal.SIGTRAP, *_FAULTS)
# Signals without effect unless the program handles them, and room for what the kernel needs of one.
_IGNORED = (signal.SIGURG, signal.SIGWINCH, signal.SIGCHLD)
_MOST_FRAME = 4096 - 64  # bytes of a signal frame that fit in the memory for calls
_ABOVE_FRAME = 512  # bytes for strings and arguments above the frame
_BLOCKED = ~sum(1 << number - 1 for number in _LEFT) & 0xFFFF_FFFF_FFFF_FFFF
# Seconds between checks of a thread if its SIGCHLD was taken elsewhere, at first and later.
_SHORTEST, _SLICE = 0.0002, 0.02
_HOLD = 1.0  # seconds to stop a thread after an error


class Gone(Exception):  # noqa: N818  it is an event, not a mistake
    """The thread ended. `status` is its wait status."""

    def __init__(self, status: int) -> None:
        super().__init__(f"ended with wait status {status:#x}")
        self.status = status


class Faulted(Exception):  # noqa: N818  it is an event, not a mistake
    """Code that soscope let the thread run has faulted, or did not return (`signal` 0)."""

    def __init__(self, number: int, pc: int) -> None:
        super().__init__(f"signal {number} at {pc:#x}" if number else "it did not come back")
        self.signal = number
        self.pc = pc


class Tracee:
    """A seized and stopped thread, with the memory of its process.

    For the only thread of a new program, `tid` is its process id, too. `area` is the end of
    memory that was made for soscope there, 0 if the memory below the thread's stack has to be
    used. `frame` is the thread's own state, if calls are made so that the thread gets it back even
    if soscope is killed: a function or system call returns to code that calls rt_sigreturn(2) with
    a signal frame. `finishes_alone` is set while the thread must not be taken out of a function
    after an error of soscope's, because it may hold a lock. A stop of its process (SIGSTOP) is not
    waited for: `was_stopped` is set if there was one, and the thread stops when it is detached, or
    asked to stop (`ptrace.interrupt`).
    """

    def __init__(self, tid: int) -> None:
        """Open its memory.

        Raises OSError if that is not allowed.
        """
        self.tid = tid
        self.was_stopped = False
        self.memory = RemoteMemory(tid)
        self.syscall_addr = 0
        self.area = 0
        self.finishes_alone = False
        self.frame: arch.SignalFrame | None = None
        self._frame_at = self._restorer = 0
        self._has_run = self._is_blocked = self._is_in_syscall = False
        self._held: list[int] = []

    def close(self) -> None:
        """Close its memory. The thread is not changed."""
        self.memory.close()

    # ---- registers and signals ----

    def registers(self) -> arch.Registers:
        """Read the registers."""
        return self._ask(arch.get_registers)

    def set_registers(self, registers: arch.Registers) -> None:
        """Replace the registers."""
        self._ask(arch.set_registers, registers)

    def signal_mask(self) -> int:
        """Return the blocked signals."""
        return self._ask(ptrace.signal_mask)

    def set_signal_mask(self, mask: int) -> None:
        """Replace the blocked signals."""
        self._ask(ptrace.set_signal_mask, mask)

    def block_signals(self) -> None:
        """Block every signal except SIGTRAP and the signals of faults.

        If a fault signal is blocked, the kernel changes its handling when a fault raises it.
        """
        if not self._is_blocked:
            self.set_signal_mask(_BLOCKED)
        self._is_blocked = True

    def unblock_signals(self, mask: int) -> None:
        """Restore the blocked signals, and send those again that were held back."""
        self.set_signal_mask(mask)
        self._is_blocked = False
        while self._held:
            try:
                ptrace.send(self.tid, self._held.pop())
            except OSError:
                continue  # the process was killed

    def _ask(self, request: Callable[..., _T], *arguments: object) -> _T:
        """Make a request about the stopped thread. Raises Gone if it was killed."""
        try:
            return request(self.tid, *arguments)
        except ProcessLookupError:
            raise self._gone() from None

    def _gone(self) -> Gone:
        """Take the wait status of a thread that was killed.

        A thread that only stops is another one, which has taken its number by calling execve.
        """
        try:
            _, status = os.waitpid(self.tid, ptrace.WALL)
        except ChildProcessError:
            return Gone(signal.SIGKILL)  # reaped by the part that waits for all threads
        return Gone(status)

    # ---- running ----

    def run_to_trap(
        self,
        *,
        step: bool = False,
        limit: float | None = None,
        on_syscall: Callable[[], bool | None] | None = None,
        ending: tuple[int, int] = (0, 0),
    ) -> None:
        """Let the thread run until a SIGTRAP: a breakpoint, or the end of one step.

        All other signals must be blocked, except signals of faults, and fault signals that another
        process has sent are held back. The process that would end a SIGSTOP of the target may
        itself wait for soscope, so the thread goes on regardless of such a stop. `on_syscall` is
        called at the begin and the end of each system call, until it returns True, which ends the
        run. It needs PTRACE_O_TRACESYSGOOD. `ending` is a signal that ends the run like a SIGTRAP,
        with the code in which it does.

        Raises Gone, with PTRACE_O_TRACEEXEC also for an execve. Raises Faulted for a fault, or
        when `limit` seconds have passed. The thread is then stopped, and the signal not
        delivered. The thread is stopped after any other exception, too.
        """
        try:
            self._run(step, limit, on_syscall, ending)
        except (Gone, Faulted):
            raise
        except BaseException:
            self.hold()
            raise

    def _run(
        self,
        step: bool,
        limit: float | None,
        on_syscall: Callable[[], bool | None] | None,
        ending: tuple[int, int],
    ) -> None:
        end = None if limit is None else time.monotonic() + limit
        number, is_late = 0, False
        self._has_run, self._is_in_syscall = True, False
        while True:
            try:
                if step:
                    ptrace.step(self.tid, number)
                elif on_syscall is not None:
                    ptrace.resume_to_syscall(self.tid, number)
                else:
                    ptrace.resume(self.tid, number)
            except ProcessLookupError:
                raise self._gone() from None
            status = self._wait(end)
            if status is None:
                end, is_late = None, True
                status = self._interrupted()
            stop, event = os.WSTOPSIG(status), status >> 16
            if event == ptrace.EVENT_STOP:
                self.was_stopped |= stop in _STOP_SIGNALS
                if is_late or (end is not None and time.monotonic() > end):
                    raise Faulted(0, self.registers().pc)
                number = 0
            elif event == ptrace.EVENT_EXEC:
                raise Gone(status)
            elif event:
                number = 0
            elif stop == signal.SIGTRAP | ptrace.AT_SYSCALL and on_syscall is not None:
                number = 0
                if on_syscall():
                    self._is_in_syscall = True
                    return
            elif stop == signal.SIGTRAP:
                return
            elif stop == ending[0]:
                if arch.is_at_trap(self.registers(), ending[1]):
                    return
                self._held.append(stop)
                number = 0
            elif stop in _FAULTS:
                if not self._ask(ptrace.is_sent):
                    raise Faulted(stop, self.registers().pc)
                self._held.append(stop)
                number = 0
            else:
                number = stop

    def _wait(self, end: float | None) -> int | None:
        """Wait for a stop and return its status, or None when `end` is reached."""
        pause = _SHORTEST
        try:
            while True:
                options = ptrace.WALL | (0 if end is None else os.WNOHANG)
                pid, status = os.waitpid(self.tid, options)
                if pid:
                    break
                assert end is not None
                if time.monotonic() > end:
                    return None
                signal.sigtimedwait((signal.SIGCHLD,), pause)
                pause = min(2 * pause, _SLICE)
        except ChildProcessError:
            raise Gone(signal.SIGKILL) from None  # the same as in `_gone`
        if not os.WIFSTOPPED(status):
            raise Gone(status)
        return status

    def _interrupted(self) -> int:
        """Ask a running thread to stop. Return the status of its stop, which may be another one."""
        try:
            ptrace.interrupt(self.tid)
        except ProcessLookupError:
            # It has ended. The end of a first thread is not reported while there are other
            # threads.
            raise Gone(signal.SIGKILL) from None
        status = self._wait(None)
        assert status is not None
        return status

    def hold(self) -> None:
        """Make sure that the thread is stopped, after an error that may have come while it ran.

        Any system call may have failed, or its result may be lost, so the kernel is asked whether
        the thread is running. Raises OSError if it does not stop within a second.
        """
        end = time.monotonic() + _HOLD
        while not self._is_stopped():
            try:
                ptrace.interrupt(self.tid)
            except ProcessLookupError:
                raise Gone(signal.SIGKILL) from None
            time.sleep(_SHORTEST)
            if time.monotonic() > end:
                raise OSError(errno.ETIMEDOUT, f"thread {self.tid} does not stop")
        try:
            while os.waitpid(self.tid, ptrace.WALL | os.WNOHANG)[0]:
                pass  # a later detach waits for its own stop
        except OSError:
            pass  # the thread is stopped anyway

    def leave(self) -> None:
        """Lead a thread out of the system call or the signal at which it is stopped.

        It does not run. The new stop is one in which the kernel delivers no signal if soscope ends,
        and behind which it restarts the call that the thread's registers tell.
        """
        if not self._has_run:
            return
        try:
            ptrace.interrupt(self.tid)
            ptrace.resume(self.tid)
        except ProcessLookupError:
            raise self._gone() from None
        try:
            while (status := self._wait(None) or 0) >> 16 != ptrace.EVENT_STOP:
                if os.WSTOPSIG(status) in _FAULTS:
                    self._held.append(os.WSTOPSIG(status))
                ptrace.resume(self.tid)
            self.was_stopped |= os.WSTOPSIG(status) in _STOP_SIGNALS
        except OSError:
            self.hold()
        self._has_run = self._is_in_syscall = False

    def _is_stopped(self) -> bool:
        """Return whether the thread is stopped: registers of a running thread cannot be read."""
        try:
            arch.get_registers(self.tid)
        except ProcessLookupError:
            return False
        return True

    # ---- calls in the thread ----

    def find_syscall(self, places: list[tuple[int, int]]) -> bool:
        """Search (address, size) places for a syscall instruction. Return whether there is one.

        If there is one that a return follows, and code that calls rt_sigreturn, the thread gets its
        own state back behind a system call even if soscope is killed.
        """
        codes = [(addr, self.memory.read(addr, size)) for addr, size in places]
        returning = _find(codes, arch.SYSCALL_AND_RETURN)
        self._restorer = next(filter(None, (_find(codes, code) for code in arch.RESTORERS)), 0)
        if not returning or not self._restorer:
            self._restorer = 0
        self.syscall_addr = returning or _find(codes, arch.SYSCALL)
        return bool(self.syscall_addr)

    def settle(self, area: int, above: int = _ABOVE_FRAME) -> None:
        """Make calls in memory that ends at `area`, below `above` bytes for other data.

        With 0, no memory was made. The thread's stack has to be used, if it is the thread's own.
        """
        self.area = area
        self._frame_at = 0
        if self.frame is None or self.frame.size > _MOST_FRAME:
            return
        end = area - above if area else _own_stack(self.tid, self.frame)
        if not end:
            return
        at = (end - self.frame.size & -16) - 8
        try:
            self.memory.write(at, self.frame.at(at, self._restorer))
        except OSError:
            return  # no memory there, so nothing protects the next call
        self._frame_at = at

    def comes_back_alone(self, trap: int) -> bool:
        """Return whether a function that returns to `trap` gives the thread its own state back."""
        is_breakpoint = self.memory.read(trap, arch.BREAKPOINT_SIZE) == arch.BREAKPOINT
        return bool(self._frame_at) and not is_breakpoint

    def scratch(self, size: int) -> int:
        """Return the address of `size` unused bytes, 64-aligned, with more unused ones below."""
        if self.area:
            return (self.area - size) & -64
        return arch.scratch(self.registers(), size)

    def syscall(self, number: int, *arguments: int) -> int:
        """Make a system call in the thread. Return its result, -errno on failure.

        Afterwards the registers belong to the call, so the caller must keep the thread's own.
        """
        if self.frame is not None and not self._frame_at:
            self.settle(self.area)
        at = self._frame_at if self._restorer else 0
        if at:
            self._return_to(self._restorer)
        registers = self.registers()
        arch.set_syscall(registers, self.syscall_addr, number, arguments, at)
        self.set_registers(registers)
        self.block_signals()
        if self.frame is None:
            self.run_to_trap(step=True)
        else:
            ends = iter((False, True))  # the begin and the end of the call
            self.run_to_trap(on_syscall=lambda: next(ends))
        return self.registers().result

    def call(
        self,
        function: int,
        argument: int,
        stack: int,
        trap: int,
        *,
        limit: float | None = None,
        on_syscall: Callable[[], None] | None = None,
    ) -> int:
        """Let the thread call `function(argument)`, and return the result.

        `stack` is 8 below a multiple of 16. The function returns to `trap`, which is the agent's
        `sosc_trap` or a breakpoint instruction. The return address is written at `stack`, or lower
        where the thread's frame is. Raises Faulted if the function does not return there.
        """
        if self._frame_at:
            stack = self._frame_at
            self._return_to(trap)
            how = self._way_to_trap() if on_syscall is None else arch.TRAP_AT_SIGRETURN
        else:
            self.memory.write(stack, trap.to_bytes(8, "little"))
            how = arch.TRAP_AT_BREAKPOINT
        registers = self.registers()
        arch.set_call(registers, function, argument, stack)
        arch.set_trap(registers, how)
        self.set_registers(registers)
        self.block_signals()

        def on_each() -> bool:
            registers = self.registers()
            if arch.is_entering(registers, arch.SIGRETURN) and arch.is_at_trap(registers, trap):
                return True
            if on_syscall is not None:
                on_syscall()
            return False

        if how > 0:
            self.set_signal_mask(_BLOCKED & ~(1 << how - 1))
            self.run_to_trap(limit=limit, ending=(how, trap))
        else:
            watches = on_syscall is not None or how == arch.TRAP_AT_SIGRETURN
            self.run_to_trap(limit=limit, on_syscall=on_each if watches else None)
        registers = self.registers()
        if not arch.is_at_trap(registers, trap):
            raise Faulted(signal.SIGTRAP, registers.pc)
        result = arch.result_at_trap(registers, trap)
        if self._is_in_syscall:
            arch.leave_sigreturn(registers, trap)
            self.set_registers(registers)
        if how > 0:
            self.set_signal_mask(_BLOCKED)
        if how >= 0:
            self.leave()
        return result

    def _return_to(self, code: int) -> None:
        """Replace the code to which the next call returns, which calls rt_sigreturn."""
        self.memory.write(self._frame_at, code.to_bytes(8, "little"))

    def _way_to_trap(self) -> int:
        """Return how a function tells that it has returned: by a signal's number if possible.

        If soscope is killed, the signal is delivered, so the program must not handle it. A seccomp
        filter may forbid to send it. Then each system call of the function stops the thread.
        """
        fields = read_status(self.tid)
        if fields.get("Seccomp", "0") != "0":
            return arch.TRAP_AT_SIGRETURN
        caught = int(fields.get("SigCgt", "0"), 16)
        free = (each for each in _IGNORED if not caught >> each - 1 & 1)
        return next(free, arch.TRAP_AT_SIGRETURN)


def _own_stack(tid: int, frame: arch.SignalFrame) -> int:
    """Return the end of unused memory on a thread's own stack, 0 if it is on another stack.

    A thread that the C library has made has its thread pointer at the end of its stack. Below the
    stacks of coroutines there may be no room, not even for a signal handler.
    """
    sp, pointer = frame.registers.sp, frame.registers.thread_pointer
    for line in maps.text_of(tid).split(b"\n"):
        low, _, rest = line.partition(b"-")
        if rest and int(low, 16) <= sp < int(rest.partition(b" ")[0], 16):
            is_own = sp < pointer < int(rest.partition(b" ")[0], 16) or line.endswith(b"[stack]")
            end = sp - arch.RED_ZONE
            return end if is_own and end - frame.size - _MOST_FRAME > int(low, 16) else 0
    return 0


def _find(codes: list[tuple[int, bytes]], wanted: bytes) -> int:
    """Return the address of bytes in pieces of code, 0 if no piece has them."""
    for addr, code in codes:
        if (at := code.find(wanted)) >= 0:
            return addr + at
    return 0


# Restartable sequences (rseq(2)): code that the kernel aborts when it is interrupted.
#
# The kernel checks a thread's program counter when the thread goes on, and drops the sequence if
# the program counter is outside of it. A thread in which soscope makes calls is outside then. So
# the kernel's abort has to be done in the registers that the thread gets back.

_SEQUENCE_AT = 8  # offset in `struct rseq` of the address of `struct rseq_cs`
_SEQUENCE = Struct("<IIQQQ")  # version, flags, start_ip, post_commit_offset, abort_ip
_SIGNATURE_SIZE = 4  # bytes before abort_ip


def begin_anew(tracee: Tracee, registers: arch.Registers) -> None:
    """If a stopped thread is inside a sequence, set its saved registers to the abort address.

    Nothing is changed in the thread itself. The registers stay unchanged before Linux 5.13, and
    if the thread's sequence is invalid (the kernel would kill it for that).
    """
    try:
        area, signature = ptrace.rseq(tracee.tid)
        sequence = tracee.memory.word(area + _SEQUENCE_AT) if area else 0
    except OSError:
        return  # not supported; for a killed thread the next request fails
    if not sequence:
        return
    data = tracee.memory.read(sequence, _SEQUENCE.size)
    if len(data) < _SEQUENCE.size:
        return
    _, _, start, size, abort = _SEQUENCE.unpack(data)
    if not 0 <= registers.pc - start < size:
        return
    before = tracee.memory.read(abort - _SIGNATURE_SIZE, _SIGNATURE_SIZE)
    if int.from_bytes(before, "little") == signature:
        registers.pc = abort


# A stopped thread that makes calls for soscope, and has its old state afterwards.


class Borrowed:
    """`with Borrowed(tid) as tracee:` keeps the thread's registers and signal mask.

    The thread must be traced with PTRACE_O_TRACESYSGOOD. While it makes calls, all its signals are
    blocked, except signals of faults, and fault signals that processes
    have sent are held back. A stop of the process (SIGSTOP) is not waited for. If an error ends
    the work while the thread runs, the thread is stopped first, because it would not survive with
    soscope's register values. Raises OSError if its memory may not be opened, and Gone.
    """

    __slots__ = ("_mask", "_registers", "_tracee")

    def __init__(self, tid: int) -> None:
        self._tracee = Tracee(tid)
        try:
            self._registers = self._tracee.registers()
            begin_anew(self._tracee, self._registers)
            self._mask = self._tracee.signal_mask()
            self._tracee.frame = arch.SignalFrame(self._registers, self._mask, arch.Vectors.of(tid))
        except BaseException:
            self._tracee.close()
            raise

    def __enter__(self) -> Tracee:
        return self._tracee

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if isinstance(error, Gone):
                return
            if error is not None and not isinstance(error, Faulted):
                self._tracee.hold()
                if self._tracee.finishes_alone:
                    return  # the function returns through the frame
            self._tracee.leave()
            # If soscope is killed in between, the frame has the same mask.
            self._tracee.unblock_signals(self._mask)
            self._tracee.set_registers(self._registers)
        finally:
            self._tracee.close()
