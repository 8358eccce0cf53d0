# SPDX-License-Identifier: Apache-2.0
"""A stopped thread that makes calls for soscope, and has its old state afterwards."""

from __future__ import annotations

from types import TracebackType

from soscope.entry.stop import rseq
from soscope.entry.stop.tracee import Faulted, Gone, Tracee


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
            rseq.begin_anew(self._tracee, self._registers)
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
