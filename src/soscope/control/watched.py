# SPDX-License-Identifier: Apache-2.0
"""Processes that are only observed from outside, because there is nothing in them to hook.

They have no agent and no control block, which a sampler of their stacks does not need.
"""

from __future__ import annotations

import os
import time

from soscope.control.attach import Visited
from soscope.control.command import reason_without_agent
from soscope.control.program import Program, SessionEvents
from soscope.control.settings import Instrument
from soscope.control.signals import Signals
from soscope.control.tracer import tell_inner_pid
from soscope.errors import NoSuchProcess, SoscopeError
from soscope.proc import rights, status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class Watched(Visited):
    """A process that soscope did not start, and into which nothing is put."""

    def __init__(self, program: Program, signals: Signals, events: SessionEvents) -> None:
        """Note which program the process runs. Raises NoSuchProcess."""
        super().__init__(program, signals, events)
        self._start = status.read_stat(program.pid).start
        self._file = status.program_file(program.pid)

    def is_over(self) -> bool:
        """Return whether the process has ended or runs another program."""
        if self.has_ended:
            return True
        try:
            is_same = status.read_stat(self.pid).start == self._start
            self.has_ended = not is_same or status.has_ended(self.pid)
        except SoscopeError:
            self.has_ended = True
        if not self.has_ended and status.program_file(self.pid) != self._file:
            self.executed = status.program_path(self.pid) or "another program"
            self.has_ended = True
        return self.has_ended

    def close(self) -> None:
        """Detach from the process, to which nothing was done. May be called twice."""
        if self._closed:
            return
        self._closed = True
        self._signals.restore()


def watch(pid: int, instruments: Sequence[Instrument], events: SessionEvents) -> Watched | None:
    """Watch a static program from outside.

    Return None if the program is not static, or if no instrument works without an agent. Raises
    NoSuchProcess, NotPermitted.
    """
    if not any(instrument.needs_no_agent for instrument in instruments):
        return None
    if reason_without_agent(os.fsencode(f"/proc/{pid}/exe")) != status.STATIC:
        return None
    try:
        with open(f"/proc/{pid}/mem", "rb", buffering=0):
            pass  # sampling the process needs this right
    except PermissionError as error:
        raise rights.missing_right(pid, "sampling", error.errno) from error
    except OSError as error:
        raise NoSuchProcess(f"no process {pid}", errno=error.errno) from error
    program = Program(0, pid, status.program_path(pid), time.time_ns())
    program.reason = status.STATIC
    signals = Signals()
    signals.block()
    try:
        target = Watched(program, signals, events)
        tell_inner_pid(events, pid)
        events.on_process("start", pid, None, program, program.time_ns)
    except BaseException:
        signals.restore()
        raise
    return target
