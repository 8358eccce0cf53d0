# SPDX-License-Identifier: Apache-2.0
"""A stopped thread of another process: its registers, its memory, calls made in its place.

Nothing here knows what is called. A thread that dies on the way raises `Gone` with its wait
status, which then belongs to the caller: nobody else will see it again.
"""

from __future__ import annotations

import errno
import os
import time

from soscope.entry import ptrace
from soscope.entry.isa import arch
from soscope.entry.memory import RemoteMemory
from soscope.proc.signals import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_STOP_SIGNALS = frozenset((signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU))
_FAULTS = frozenset((signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGSYS))
_LEFT = (signal.SIGTRAP, *_FAULTS)
_BLOCKED = ~sum(1 << number - 1 for number in _LEFT) & 0xFFFF_FFFF_FFFF_FFFF
# seconds between looks at a thread whose SIGCHLD somebody else took, at first and later
_SHORTEST, _SLICE = 0.0002, 0.02
_HOLD = 1.0  # seconds to stop a thread after an error


class Gone(Exception):  # noqa: N818  it is an event, not a mistake
    """The thread ended; `status` is its wait status."""

    def __init__(self, status: int) -> None:
        super().__init__(f"ended with wait status {status:#x}")
        self.status = status


class Faulted(Exception):  # noqa: N818  it is an event, not a mistake
    """Code that we let the thread run made a fault, or did not come back (`signal` 0)."""

    def __init__(self, number: int, pc: int) -> None:
        super().__init__(f"signal {number} at {pc:#x}" if number else "it did not come back")
        self.signal = number
        self.pc = pc


class Tracee:
    """A seized thread that is stopped, with the memory of its process.

    `tid` of the only thread of a new program is its process id too. `area` is the end of
    memory that was made for us there, 0: what lies below the thread's stack has to do.
    The stop of its process (SIGSTOP) is not waited for: `was_stopped` says that there was one,
    and the thread stops when it is let go of, or asked to (`ptrace.interrupt`).
    """

    __slots__ = ("_held", "area", "memory", "syscall_addr", "tid", "was_stopped")

    def __init__(self, tid: int) -> None:
        """Open its memory.

        Raises OSError where that is not allowed.
        """
        self.tid = tid
        self.was_stopped = False
        self.memory = RemoteMemory(tid)
        self.syscall_addr = 0
        self.area = 0
        self._held: list[int] = []

    def close(self) -> None:
        """Close its memory; the thread is left as it is."""
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
        """Block every signal but SIGTRAP and those of faults.

        Of those that are forced upon a thread the kernel changes how a blocked one is handled.
        """
        self.set_signal_mask(_BLOCKED)

    def unblock_signals(self, mask: int) -> None:
        """Let signals be blocked as they were, and send those again that were held back."""
        self.set_signal_mask(mask)
        while self._held:
            try:
                ptrace.send(self.tid, self._held.pop())
            except OSError:
                continue  # killed

    def _gone(self) -> Gone:
        """Take the wait status of a thread that somebody killed.

        One that only stops is another, which has taken its number by executing a program.
        """
        try:
            _, status = os.waitpid(self.tid, ptrace.WALL)
        except ChildProcessError:
            return Gone(signal.SIGKILL)  # who looks after all threads has taken note of it
        return Gone(status)

    # ---- running ----

    def run_to_trap(
        self,
        *,
        step: bool = False,
        limit: float | None = None,
        on_syscall: Callable[[], None] | None = None,
    ) -> None:
        """Let the thread go on until a SIGTRAP: a breakpoint, or the end of one step.

        All other signals but those of faults are to be blocked; of these such as another process
        has sent are held back. Who would end a stop of the process may wait for us in turn, so
        the thread goes on all the same. Raises Gone, and Faulted (stopped, the signal not
        delivered) for a fault or when `limit` seconds have passed.

        `on_syscall` is called at the beginning and at the end of each system call; it needs
        PTRACE_O_TRACESYSGOOD. With PTRACE_O_TRACEEXEC who executes another program is Gone.
        Whatever else is raised, the thread is stopped then.
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
        """Wait for a stop, and return its status; None when it is `end`."""
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
            raise Gone(signal.SIGKILL) from None  # as in `_gone`
        if not os.WIFSTOPPED(status):
            raise Gone(status)
        return status

    def _interrupted(self) -> int:
        """Ask a running thread to stop; return the status of a stop, which may be another."""
        try:
            ptrace.interrupt(self.tid)
        except ProcessLookupError:
            # it has ended; that of a first thread is told to nobody while there are others
            raise Gone(signal.SIGKILL) from None
        status = self._wait(None)
        assert status is not None
        return status

    def hold(self) -> None:
        """Have the thread stopped, after an error that may have come while it ran.

        Any system call may have failed, or its result may be lost: whether the thread runs is asked
        of the thread itself. Raises OSError if it does not stop within a second.
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
                pass  # whoever lets go of it waits for a stop of its own
        except OSError:
            pass  # it stands all the same

    def forget_trap(self) -> None:
        """Have a thread that may stand at a SIGTRAP of ours stand at no signal.

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

    # ---- calls in its place ----

    def find_syscall(self, places: list[tuple[int, int]]) -> bool:
        """Look for a syscall instruction in (address, size) places; return whether there is one."""
        for addr, size in places:
            at = self.memory.read(addr, size).find(arch.SYSCALL)
            if at >= 0:
                self.syscall_addr = addr + at
                return True
        return False

    def scratch(self, size: int) -> int:
        """Return the address of `size` bytes that nobody uses, 64-aligned; more lie below."""
        if self.area:
            return (self.area - size) & -64
        return arch.scratch(self.registers(), size)

    def syscall(self, number: int, *arguments: int) -> int:
        """Make a system call in the thread's place; return its result, -errno on failure.

        The registers are those of the call afterwards: the caller keeps the thread's own.
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
        """Let the thread call `function(argument)`; return the result.

        `stack` is 8 below a multiple of 16; the return address written there is `trap`, that
        of a breakpoint instruction. Raises Faulted where the function does not get there.
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
