# SPDX-License-Identifier: Apache-2.0
"""A stopped thread of another process: its registers, its memory, and calls in it.

This module does not depend on what is called. A thread that dies meanwhile raises `Gone` with its
wait status, which then belongs to the caller, because it cannot be read again.
"""

from __future__ import annotations

import errno
import os
import time
from struct import Struct
from types import TracebackType

from soscope.entry import ptrace
from soscope.entry.isa import arch
from soscope.entry.ptrace import RemoteMemory
from soscope.proc.status import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


# The time in which a tracer has looked at its tracee.
#
# A tracer that gets no processor, or whose machine pauses, has not really waited in that time.

_LONGEST = 0.05  # seconds between two looks that count at most


class LookingTime:
    """A clock that advances by at most 50 ms from one look to the next.

    >>> from soscope.entry.stop.tracee import LookingTime
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
    used. A stop of its process (SIGSTOP) is not waited for: `was_stopped` is set if there was
    one, and the thread stops when it is detached, or asked to stop (`ptrace.interrupt`).
    """

    __slots__ = ("_held", "area", "memory", "syscall_addr", "tid", "was_stopped")

    def __init__(self, tid: int) -> None:
        """Open its memory.

        Raises OSError if that is not allowed.
        """
        self.tid = tid
        self.was_stopped = False
        self.memory = RemoteMemory(tid)
        self.syscall_addr = 0
        self.area = 0
        self._held: list[int] = []

    def close(self) -> None:
        """Close its memory. The thread is not changed."""
        self.memory.close()

    # ---- registers and signals ----

    def registers(self) -> arch.Registers:
        """Read the registers."""
        try:
            return arch.get_registers(self.tid)
        except ProcessLookupError:
            raise self._gone() from None

    def set_registers(self, registers: arch.Registers) -> None:
        """Replace the registers."""
        try:
            arch.set_registers(self.tid, registers)
        except ProcessLookupError:
            raise self._gone() from None

    def signal_mask(self) -> int:
        """Return the blocked signals."""
        try:
            return ptrace.signal_mask(self.tid)
        except ProcessLookupError:
            raise self._gone() from None

    def set_signal_mask(self, mask: int) -> None:
        """Replace the blocked signals."""
        try:
            ptrace.set_signal_mask(self.tid, mask)
        except ProcessLookupError:
            raise self._gone() from None

    def block_signals(self) -> None:
        """Block every signal except SIGTRAP and those of faults.

        If a fault signal is blocked, the kernel changes its handling when a fault raises it.
        """
        self.set_signal_mask(_BLOCKED)

    def unblock_signals(self, mask: int) -> None:
        """Restore the blocked signals, and send those again that were held back."""
        self.set_signal_mask(mask)
        while self._held:
            try:
                ptrace.send(self.tid, self._held.pop())
            except OSError:
                continue  # the process was killed

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
        on_syscall: Callable[[], None] | None = None,
    ) -> None:
        """Let the thread run until a SIGTRAP: a breakpoint, or the end of one step.

        All other signals except those of faults must be blocked, and fault signals that another
        process has sent are held back. The process that would end a SIGSTOP of the target may
        itself wait for soscope, so the thread goes on regardless of such a stop. `on_syscall` is
        called at the begin and the end of each system call. It needs PTRACE_O_TRACESYSGOOD.

        Raises Gone, with PTRACE_O_TRACEEXEC also for an execve. Raises Faulted for a fault, or
        when `limit` seconds have passed. The thread is then stopped, and the signal not
        delivered. The thread is stopped after any other exception, too.
        """
        try:
            self._run(step, limit, on_syscall)
        except (Gone, Faulted):
            raise
        except BaseException:
            self.hold()
            raise

    def _run(
        self,
        step: bool,
        limit: float | None,
        on_syscall: Callable[[], None] | None,
    ) -> None:
        end = None if limit is None else time.monotonic() + limit
        number, is_late = 0, False
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
                on_syscall()
            elif stop == signal.SIGTRAP:
                return
            elif stop in _FAULTS:
                if not self._is_sent():
                    raise Faulted(stop, self.registers().pc)
                self._held.append(stop)
                number = 0
            else:
                number = stop

    def _is_sent(self) -> bool:
        try:
            return ptrace.is_sent(self.tid)
        except ProcessLookupError:
            raise self._gone() from None

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

    def forget_trap(self) -> None:
        """Clear a SIGTRAP of soscope's from the stop of a thread.

        If soscope ended now, the kernel would deliver that signal.
        """
        try:
            ptrace.interrupt(self.tid)
            ptrace.resume(self.tid)
        except ProcessLookupError:
            raise Gone(signal.SIGKILL) from None
        self.hold()

    def _is_stopped(self) -> bool:
        """Return whether the thread is stopped: registers of a running thread cannot be read."""
        try:
            arch.get_registers(self.tid)
        except ProcessLookupError:
            return False
        return True

    # ---- calls in the thread ----

    def find_syscall(self, places: list[tuple[int, int]]) -> bool:
        """Search (address, size) places for a syscall instruction. Return whether there is one."""
        for addr, size in places:
            at = self.memory.read(addr, size).find(arch.SYSCALL)
            if at >= 0:
                self.syscall_addr = addr + at
                return True
        return False

    def scratch(self, size: int) -> int:
        """Return the address of `size` unused bytes, 64-aligned, with more unused ones below."""
        if self.area:
            return (self.area - size) & -64
        return arch.scratch(self.registers(), size)

    def syscall(self, number: int, *arguments: int) -> int:
        """Make a system call in the thread. Return its result, -errno on failure.

        Afterwards the registers are those of the call, so the caller must keep the thread's own.
        """
        registers = self.registers()
        arch.set_syscall(registers, self.syscall_addr, number, arguments)
        self.set_registers(registers)
        self.run_to_trap(step=True)
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

        `stack` is 8 below a multiple of 16. The return address `trap`, which is the address of a
        breakpoint instruction, is written there. Raises Faulted if the function does not return
        there.
        """
        self.memory.write(stack, trap.to_bytes(8, "little"))
        registers = self.registers()
        arch.set_call(registers, function, argument, stack)
        self.set_registers(registers)
        self.run_to_trap(limit=limit, on_syscall=on_syscall)
        registers = self.registers()
        if registers.pc != trap + arch.BREAKPOINT_SIZE:
            raise Faulted(signal.SIGTRAP, registers.pc)
        return registers.result


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

    All its signals except those of faults are blocked meanwhile, and fault signals that processes
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
        except BaseException:
            self._tracee.close()
            raise

    def __enter__(self) -> Tracee:
        self._tracee.block_signals()
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
            is_unsure = error is not None and not isinstance(error, Faulted)
            if is_unsure:
                self._tracee.hold()
            self._tracee.set_registers(self._registers)
            self._tracee.unblock_signals(self._mask)
            if is_unsure:
                self._tracee.forget_trap()
        finally:
            self._tracee.close()
