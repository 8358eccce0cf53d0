# SPDX-License-Identifier: Apache-2.0
"""The place where a command died: its stack at the fatal signal that it does not handle."""

from __future__ import annotations

from soscope.errors import SoscopeError
from soscope.model.call import ProcessStart, Signal
from soscope.proc import status
from soscope.proc.status import signal
from soscope.recording.sink import Sink, Told

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.control.stack import Snapshot

# Signals that a thread causes itself, so that its stack shows the reason.
_OWN = (
    signal.SIGSEGV,
    signal.SIGBUS,
    signal.SIGFPE,
    signal.SIGILL,
    signal.SIGABRT,
    signal.SIGTRAP,
    signal.SIGSYS,
)


class CrashSink(Sink):
    """Looks at the thread of the command that gets a fatal signal, while the thread is stopped."""

    __slots__ = ("_number", "_pid", "_snapshot")

    def __init__(self) -> None:
        self._pid = 0  # the command's process
        self._number = 0
        self._snapshot: Snapshot | None = None

    def event(self, event: Told) -> None:
        """Take a snapshot of the thread if this signal will end the command."""
        if isinstance(event, ProcessStart):
            self._pid = self._pid or event.pid
        elif isinstance(event, Signal) and event.pid == self._pid and event.signal in _OWN:
            self._look(event.tid, event.signal)

    def _look(self, tid: int, number: int) -> None:
        try:
            caught = int(status.read_status(tid)["SigCgt"], 16)
            if caught >> number - 1 & 1:
                return  # the command handles it; if its handler fails, a later signal ends it
            from soscope.control.stack import Snapshot

            self._snapshot, self._number = Snapshot(tid), number
        except (SoscopeError, OSError, KeyError, AttributeError):
            self._snapshot = None  # the thread is gone, or its machine is not supported

    def stack(self, number: int | None) -> list[str]:
        """Return the stack of the command when signal `number` ended it, [] if it is unknown."""
        if self._snapshot is None or number != self._number:
            return []
        from soscope.control.stack import walk

        return walk(self._snapshot)
