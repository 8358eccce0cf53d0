# SPDX-License-Identifier: Apache-2.0
"""Threads that run are stopped for a moment, one by one, and let go of untraced.

Between two moments nobody traces a thread, so its signals go their way; one that comes to it
meanwhile it gets as it is let go. Who waits must not be asked: a stop ends system calls. A thread
that has begun one since it was looked at, or that is in the middle of one, makes its call again, or
the rest of it, and what it is given is what the whole call would have given.
"""

from __future__ import annotations

import os

from soscope.entry import ptrace
from soscope.entry.isa import arch
from soscope.proc.memory import ProcessMemory

_NONE, _TRAP = 0, 5  # no signal; SIGTRAP, which a stop of ours has
_AT_SYSCALL = _TRAP | ptrace.AT_SYSCALL
_WAIT = ptrace.WALL | os.WNOHANG


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


class Moments:
    """Asks threads to stop, and hears when they have. For one thread of soscope's alone.

    `asked` are the threads that have been asked and have not stopped yet.
    """

    __slots__ = ("_is_closing", "_rests", "asked")

    def __init__(self) -> None:
        self.asked: set[int] = set()
        self._rests: dict[int, _Rest] = {}
        self._is_closing = False

    @property
    def is_idle(self) -> bool:
        """Say whether nobody is to be heard of: else whoever ends waits for us to take note."""
        return not self.asked and not self._rests

    def ask(self, tid: int) -> bool:
        """Ask a thread to stop; False: it still makes the rest of a call.

        Raises OSError where it has ended, or may not be traced, or is traced by somebody else.
        """
        if tid in self._rests or tid in self.asked:
            return False
        ptrace.seize(tid, ptrace.O_TRACESYSGOOD)
        self.asked.add(tid)
        try:
            ptrace.interrupt(tid)
        except ProcessLookupError:
            pass  # it ends, which is told
        return True

    def next(self) -> Stopped | None:
        """Return a thread that has stopped, None: none has. It is to be released at once.

        Nothing is told of those that have ended instead, or that a signal has stopped for longer.
        """
        for tid in list(self._rests):
            self._go_on(tid)
        for tid in list(self.asked):
            how = self._wait(tid)
            if how is None:
                continue
            self.asked.discard(tid)
            if not os.WIFSTOPPED(how):
                continue
            signal = os.WSTOPSIG(how)
            is_event = how >> 16 == ptrace.EVENT_STOP
            if is_event and signal != _TRAP:
                _detach(tid)  # it stays in that stop
                continue
            try:
                return Stopped(tid, _NONE if is_event else signal, _mended(tid))
            except OSError:
                continue  # it has been killed
        return None

    def release(self, stopped: Stopped) -> None:
        """Let a thread go on, untraced as soon as it has made the rest of its call."""
        registers = stopped.registers.copy()
        if not stopped.signal and arch.set_rest(registers) and _is_syscall(stopped):
            try:
                arch.set_registers(stopped.tid, registers)
                self._rests[stopped.tid] = _Rest(stopped.registers)
                ptrace.resume_to_syscall(stopped.tid)
            except OSError:
                self._rests.pop(stopped.tid, None)  # it has been killed
            return
        _detach(stopped.tid, stopped.signal)

    def close(self) -> None:
        """Let go of everybody, and of those first that make the rest of a call.

        Those who have been asked go on when this process ends.
        """
        self._is_closing = True
        for tid in self._rests:
            try:
                ptrace.interrupt(tid)  # it has done a larger part then, and says so
            except OSError:
                continue  # it has ended
        while self._rests:
            tid = next(iter(self._rests))
            how = self._wait(tid, ptrace.WALL)
            if how is not None:
                self._take(tid, how)

    # ---- the rest of a call ----

    def _go_on(self, tid: int) -> None:
        how = self._wait(tid)
        if how is not None:
            self._take(tid, how)

    def _take(self, tid: int, how: int) -> None:
        """Handle a stop of a thread that makes the rest of its call."""
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
                _detach(tid)
            elif signal == _AT_SYSCALL:
                rest.has_begun = True
                ptrace.resume_to_syscall(tid)
            elif rest.has_begun:
                ptrace.resume_to_syscall(tid, _NONE if how >> 16 else signal)
            elif self._is_closing or not how >> 16:
                # a handler is to run before the rest has begun: the part is what there is
                del self._rests[tid]
                arch.set_registers(tid, rest.registers)
                _detach(tid, _NONE if how >> 16 else signal)
            elif signal == _TRAP:
                ptrace.resume_to_syscall(tid)
            else:
                ptrace.listen(tid)
        except OSError:
            self._rests.pop(tid, None)  # it has been killed

    def _wait(self, tid: int, options: int = _WAIT) -> int | None:
        """Return how a thread has stopped or ended, None: it has not."""
        try:
            waited, how = os.waitpid(tid, options)
        except ChildProcessError:  # somebody else has waited for its end
            self.asked.discard(tid)
            self._rests.pop(tid, None)
            return None
        return how if waited else None


def _mended(tid: int) -> arch.Registers:
    """Return the registers of a thread; a call that the stop has ended is made again.

    Raises OSError where it has been killed.
    """
    registers = arch.get_registers(tid)
    if arch.is_interrupted(registers):
        arch.restart(registers)
        arch.set_registers(tid, registers)
    return registers


def _is_syscall(stopped: Stopped) -> bool:
    """Say whether the instruction in front of a thread is the one that can be made again."""
    try:
        memory = ProcessMemory(stopped.tid)
    except OSError:
        return False
    try:
        size = len(arch.SYSCALL)
        return memory.read(stopped.registers.pc - size, size) == arch.SYSCALL
    finally:
        memory.close()


def _detach(tid: int, signal: int = _NONE) -> None:
    try:
        ptrace.detach(tid, signal)
    except OSError:
        pass  # it has been killed
