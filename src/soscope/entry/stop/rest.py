# SPDX-License-Identifier: Apache-2.0
"""Let threads make the rest of a system call that soscope's stop has interrupted.

The program gets the result of the whole call: the part that was done when the stop ended the
call, and the rest.
"""

from __future__ import annotations

import os

from soscope.entry import ptrace
from soscope.entry.isa import arch
from soscope.proc.memory import ProcessMemory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

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
