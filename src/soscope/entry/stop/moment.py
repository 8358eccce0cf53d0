# SPDX-License-Identifier: Apache-2.0
"""Threads that run are stopped for a moment, one by one, and let go of untraced.

Between two moments nobody traces a thread, so its signals go their way. A thread that waits is
never to be stopped: that ends its system call. One that has begun to wait since it was looked at
makes its call again, which nobody sees; one that a signal comes to gets it as it is let go.
"""

from __future__ import annotations

import os

from soscope.entry import ptrace
from soscope.entry.isa import arch

_NONE, _TRAP = 0, 5  # no signal; SIGTRAP, which a stop of ours has


class Moment:
    """Asks threads to stop, and hears when they have. For one thread of soscope's alone.

    `asked` are the threads that have been asked and have not stopped yet.
    """

    __slots__ = ("asked",)

    def __init__(self) -> None:
        self.asked: set[int] = set()

    def ask(self, tid: int) -> None:
        """Ask a thread to stop.

        Raises OSError where it has ended, or may not be traced, or is traced by somebody else.
        """
        ptrace.seize(tid, 0)
        self.asked.add(tid)
        try:
            ptrace.interrupt(tid)
        except ProcessLookupError:
            pass  # it ends, which is told

    def next(self) -> tuple[int, int, bool] | None:
        """Return (thread, signal that waits for it, whether a signal has stopped its process).

        None: none has stopped. The thread stands still until `release`. Of those that have ended
        instead nothing is told.
        """
        for tid in list(self.asked):
            try:
                ended, how = os.waitpid(tid, ptrace.WALL | os.WNOHANG)
            except ChildProcessError:
                self.asked.discard(tid)  # somebody else has waited for its end
                continue
            if not ended:
                continue
            self.asked.discard(tid)
            if not os.WIFSTOPPED(how):
                continue
            signal = os.WSTOPSIG(how)
            if how >> 16 == ptrace.EVENT_STOP:
                return tid, _NONE, signal != _TRAP
            return tid, signal, False
        return None

    def registers(self, tid: int) -> arch.Registers:
        """Return the registers of a thread that stands still; its call is made again if need be.

        Raises OSError where it has been killed.
        """
        registers = arch.get_registers(tid)
        if arch.is_interrupted(registers):
            again = registers.copy()
            arch.restart(again)
            arch.set_registers(tid, again)
        return registers

    def release(self, tid: int, signal: int = _NONE) -> None:
        """Let a thread go on, with a signal."""
        try:
            ptrace.detach(tid, signal)
        except OSError:
            pass  # it has been killed

