# SPDX-License-Identifier: Apache-2.0
"""Takes samples of processes: who has run for a period is stopped for a moment, and looked at.

Turns come at random around the period, so that nothing which a program does in steps of its own is
seen too often or never.
"""

from __future__ import annotations

import random
import time

from soscope.entry.stop.moment import Moments
from soscope.errors import SoscopeError
from soscope.instruments.prof.sampling.tally import SampleTally
from soscope.instruments.prof.sampling.target import SampledProcess, SampledThread
from soscope.proc.signals import signal

_NS = 1_000_000_000
_TRACED = "threads are traced by somebody else, or may not be traced"


class StackSampler:
    """Samples processes `hz` times in a second of the processor time of each thread.

    For one thread of a process in which nobody else waits for children that it traces, and in
    which SIGCHLD is blocked.
    """

    def __init__(self, hz: int) -> None:
        self.period = _NS // hz
        self.tally = SampleTally(self.period)
        self.processes: dict[int, SampledProcess] = {}
        self._moments = Moments()
        self._asked: dict[int, tuple[SampledProcess, SampledThread]] = {}

    def add(self, pid: int, begun: int) -> None:
        """Sample one more process, or another program of one; `begun` as of `SampledProcess`.

        Raises SoscopeError and OSError where it cannot be looked at.
        """
        if pid in self.processes:
            self._end(pid)
        self.processes[pid] = SampledProcess(pid, begun, self.period, self.tally)

    def turn(self) -> None:
        """Ask threads to stop whose turn it is, and look at those that do until the next turn."""
        end = time.monotonic() + self.period / _NS * random.uniform(0.5, 1.5)  # noqa: S311
        for pid, process in list(self.processes.items()):
            try:
                due = process.due()
            except (OSError, SoscopeError):
                self._end(pid)
                continue
            for thread in due:
                self._ask(process, thread)
        self._serve()
        while (left := end - time.monotonic()) > 0:
            if signal.sigtimedwait((signal.SIGCHLD,), left) is not None:
                self._serve()

    def close(self) -> None:
        """Let go of everything; who has been asked to stop goes on when this process has ended."""
        self._moments.close()
        for pid in list(self.processes):
            self._end(pid)

    def _end(self, pid: int) -> None:
        process = self.processes.pop(pid)
        for tid, (owner, _) in list(self._asked.items()):
            if owner is process:
                del self._asked[tid]
        process.close()

    def _ask(self, process: SampledProcess, thread: SampledThread) -> None:
        try:
            if not self._moments.ask(thread.tid):
                return
        except ProcessLookupError:
            return  # it has ended
        except PermissionError:
            weight, thread.owed = divmod(thread.owed, self.period)
            self.tally.miss(_TRACED, weight * self.period)
            return
        self._asked[thread.tid] = process, thread

    def _serve(self) -> None:
        """Look at the threads that have stopped, and let go of each at once."""
        moments = self._moments
        while (stopped := moments.next()) is not None:
            registers, look = stopped.registers, None
            process, thread = self._asked.pop(stopped.tid, (None, None))
            try:
                if process is not None and thread is not None and process.ran(thread):
                    look = process.look(thread, registers.sp, registers.thread_pointer)
            except OSError:
                pass  # its process has ended
            finally:
                moments.release(stopped)
            if process is not None and thread is not None and look is not None:
                process.add(thread, registers.columns(), look)
        for tid in self._asked.keys() - moments.asked:
            del self._asked[tid]  # it has ended, or a signal has stopped it
