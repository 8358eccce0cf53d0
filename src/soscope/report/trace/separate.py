# SPDX-License-Identifier: Apache-2.0
"""`-ff -o FILE`: a file FILE.PID for each process, with a listener of its own."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from soscope.errors import SoscopeError
from soscope.instruments.trace.listener import Destination, Listener
from soscope.instruments.trace.outcome import TraceOutcome
from soscope.model.call import Dropped, Event, ProcessExit, ProcessStart
from soscope.prototypes import Prototypes
from soscope.recording.names import Programs
from soscope.report.output import Output
from soscope.select.filter import Selection


class _Files(Destination):
    """The files of all processes, as one destination of the trace."""

    __slots__ = ("meanwhile",)

    def __init__(self) -> None:
        self.meanwhile: Callable[[], bool] | None = None

    def attend(self, meanwhile: Callable[[], bool]) -> None:
        """Keep the function to call while the reader of a file is slow."""
        self.meanwhile = meanwhile


class SeparateListener(Listener):
    """Passes each event to the listener of its process.

    `make` makes a listener for an output. `failed` has the outputs that could not be written. If
    a process gets the number of an earlier one, its file has one more number. Lost events belong
    to no process, and the notes tell how many there were. Forks are in no file, as each file is
    about one process. `destination` stands for all files.
    """

    def __init__(self, path: str, make: Callable[[Output], Listener]) -> None:
        """Prepare. Raises SoscopeError if such files cannot be made."""
        reason = _why_unwritable(os.path.dirname(path) or ".")
        if reason:
            message = f"cannot write '{path}.PID': {os.strerror(reason).lower()}"
            raise SoscopeError(message, slug="output", errno=reason)
        self.failed: list[Output] = []
        self.destination = _Files()
        self._path = path
        self._make = make
        self._open: dict[int, tuple[Output, Listener]] = {}
        self._before: dict[int, int] = {}  # number of files of earlier processes, by pid
        self._begin: tuple[Prototypes, Selection]
        self._programs = Programs()

    def meet(self, programs: Programs) -> None:
        """Keep the programs, which each listener gets first."""
        self._programs = programs

    def begin(self, prototypes: Prototypes, selection: Selection) -> None:
        """Keep the arguments with which each listener begins."""
        self._begin = prototypes, selection

    def events(self, batch: list[Event]) -> None:
        """Pass on events, with consecutive events of one process in one batch."""
        waiting: list[Event] = []
        pid = 0
        for event in batch:
            if isinstance(event, Dropped) or (
                isinstance(event, ProcessStart) and event.event == "fork"
            ):
                continue
            if waiting and event.pid != pid:
                self._listener(pid).events(waiting)
                waiting = []
            pid = event.pid
            waiting.append(event)
            if isinstance(event, ProcessExit):
                self._listener(pid).events(waiting)
                waiting = []
                self._close(pid, None)
        if waiting:
            self._listener(pid).events(waiting)

    def caught_up(self, time_ns: int) -> None:
        """Show the open calls of the processes."""
        for _, listener in self._open.values():
            listener.caught_up(time_ns)

    def end(self, outcome: TraceOutcome) -> None:
        """Finish the files of all processes that go on."""
        for pid in list(self._open):
            self._close(pid, outcome)

    def _listener(self, pid: int) -> Listener:
        if pid not in self._open:
            count = self._before[pid] = self._before.get(pid, 0) + 1
            path = f"{self._path}.{pid}" if count == 1 else f"{self._path}.{pid}.{count}"
            try:
                output = Output.open(path, wait=False)
                output.begin()
                if self.destination.meanwhile is not None:
                    output.attend(self.destination.meanwhile)
            except SoscopeError as error:
                output = Output(-1, path)  # counts the lost lines
                output.error = OSError(error.errno, os.strerror(error.errno or 0))
            listener = self._make(output)
            listener.meet(self._programs)
            listener.begin(*self._begin)
            self._open[pid] = output, listener
        return self._open[pid][1]

    def _close(self, pid: int, outcome: TraceOutcome | None) -> None:
        """Close a file, as thousands of processes may follow each other."""
        output, listener = self._open.pop(pid)
        listener.end(outcome or TraceOutcome([], self._begin[1]))
        output.close()
        if output.error is not None:
            self.failed.append(output)


def _why_unwritable(folder: str) -> int:
    """Return the error number of making a file in a folder, 0 if it would succeed."""
    if not os.path.isdir(folder):
        return errno.ENOENT
    return 0 if os.access(folder, os.W_OK | os.X_OK) else errno.EACCES
