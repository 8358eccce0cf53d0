# SPDX-License-Identifier: Apache-2.0
"""A stopped thread in whose place calls are made; afterwards it is as it was."""

from __future__ import annotations

from types import TracebackType

from soscope.entry.stop import rseq
from soscope.entry.stop.tracee import Faulted, Gone, Tracee


class Borrowed:
    """`with Borrowed(tid) as tracee:` the thread's registers and signal mask are kept.

    All its signals but those of faults are blocked meanwhile, of these such as others have sent
    are held back; that of a stopped process is not waited for. If an error ends the work while the
    thread runs, the thread is stopped first: with registers of ours it would not live. Raises
    OSError where its memory may not be opened, and Gone.
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
