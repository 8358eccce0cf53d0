# SPDX-License-Identifier: Apache-2.0
"""Threads that a stop of ours has found in the middle of a system call make the rest of it.

What the program is given is what the whole call would have given: the part that was through when
the stop ended it, and the rest.
"""

from __future__ import annotations

import os

from soscope.entry import ptrace
from soscope.entry.isa import arch
from soscope.proc.memory import ProcessMemory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

NONE, TRAP = 0, 5  # no signal; SIGTRAP, which a stop of ours has
_AT_SYSCALL = TRAP | ptrace.AT_SYSCALL


class Stopped:
    """A thread that stands still; `signal` waits for it."""

    __slots__ = ("registers", "signal", "tid")

    def __init__(self, tid: int, signal: int, registers: arch.Registers) -> None:
        self.tid = tid
        self.signal = signal
        self.registers = registers


class _Rest:
    """A call whose rest is made: the registers that the program is to find, and the result yet."""

    __slots__ = ("has_begun", "registers", "result")

    def __init__(self, registers: arch.Registers) -> None:
        self.registers = registers
        self.result = registers.result
        self.has_begun = False


class Rests:
    """Threads that make the rest of a call; `tids` says which."""

    __slots__ = ("_is_closing", "_let_go", "_rests")

    def __init__(self, let_go: Callable[[int, int], object]) -> None:
        """Prepare; `let_go` has a thread go on as it was before it was asked, with a signal.

        The threads have to be traced with PTRACE_O_TRACESYSGOOD.
        """
        self._let_go = let_go
        self._rests: dict[int, _Rest] = {}
        self._is_closing = False

    @property
    def tids(self) -> list[int]:
        """The threads that are at it."""
        return list(self._rests)

    def __contains__(self, tid: int) -> bool:
        """Return whether a thread is at it."""
        return tid in self._rests

    def release(self, stopped: Stopped) -> None:
        """Let a thread go, as soon as it has made the rest of its call."""
        registers = stopped.registers.copy()
        if not stopped.signal and arch.set_rest(registers) and _is_syscall(stopped):
            try:
                arch.set_registers(stopped.tid, registers)
                self._rests[stopped.tid] = _Rest(stopped.registers)
                ptrace.resume_to_syscall(stopped.tid)
            except OSError:
                self.forget(stopped.tid)  # it has been killed
            return
        self._let_go(stopped.tid, stopped.signal)

    def forget(self, tid: int) -> None:
        """Hear that a thread has ended."""
        self._rests.pop(tid, None)

    def take(self, tid: int, how: int) -> None:
        """Handle a wait status of a thread that is at it."""
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
                # a handler is to run before the rest has begun: the part is what there is
                del self._rests[tid]
                arch.set_registers(tid, rest.registers)
                self._let_go(tid, NONE if how >> 16 else signal)
            elif signal == TRAP:
                ptrace.resume_to_syscall(tid)
            else:
                ptrace.listen(tid)
        except OSError:
            self.forget(tid)  # it has been killed

    def close(self) -> None:
        """Have all let go of, with what they have got by now."""
        self._is_closing = True
        for tid in self._rests:
            try:
                ptrace.interrupt(tid)  # it has done a larger part then, and says so
            except OSError:
                continue  # it has ended
        while self._rests:
            tid = next(iter(self._rests))
            try:
                _, how = os.waitpid(tid, ptrace.WALL)
            except ChildProcessError:
                self.forget(tid)  # somebody else has waited for its end
            else:
                self.take(tid, how)


def mended(tid: int) -> arch.Registers:
    """Return the registers of a thread; a call that the stop has ended is made again.

    Raises OSError where it has been killed.
    """
    registers = arch.get_registers(tid)
    if arch.is_interrupted(registers):
        arch.restart(registers)
        arch.set_registers(tid, registers)
    return registers


def _is_syscall(stopped: Stopped) -> bool:
    """Return whether the instruction in front of a thread is the one that can be made again."""
    try:
        memory = ProcessMemory(stopped.tid)
    except OSError:
        return False  # unread code is not run again
    try:
        size = len(arch.SYSCALL)
        return memory.read(stopped.registers.pc - size, size) == arch.SYSCALL
    finally:
        memory.close()
