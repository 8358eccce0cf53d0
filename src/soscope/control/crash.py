# SPDX-License-Identifier: Apache-2.0
"""Where a command died: its stack at the last signal that nothing in it handles."""

from __future__ import annotations

from soscope.errors import SoscopeError
from soscope.model.call import ProcessStart, Signal
from soscope.proc import status
from soscope.proc.signals import signal
from soscope.recording.sink import Sink, Told

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.control.stack import Snapshot

# A thread makes them itself: where it stands says why.
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
    """Hears of signals while the thread that gets them stands still."""

    __slots__ = ("_number", "_pid", "_snapshot")

    def __init__(self) -> None:
        self._pid = 0  # of the command
        self._number = 0
        self._snapshot: Snapshot | None = None

    def event(self, event: Told) -> None:
        """Look at the thread, if this is to end the command."""
        if isinstance(event, ProcessStart):
            self._pid = self._pid or event.pid
        elif isinstance(event, Signal) and event.pid == self._pid and event.signal in _OWN:
            self._look(event.tid, event.signal)

    def _look(self, tid: int, number: int) -> None:
        try:
            caught = int(status.read_status(tid)["SigCgt"], 16)
            if caught >> number - 1 & 1:
                return  # what it does then comes later
            from soscope.control.stack import Snapshot

            self._snapshot, self._number = Snapshot(tid), number
        except (SoscopeError, OSError, KeyError, AttributeError):
            self._snapshot = None  # it is gone, or of a machine that is not known

    def stack(self, number: int | None) -> list[str]:
        """Return the frames of the command that signal `number` has ended, [] if unknown."""
        if self._snapshot is None or number != self._number:
            return []
        from soscope.control.stack import walk

        return walk(self._snapshot)
