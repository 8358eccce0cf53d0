# SPDX-License-Identifier: Apache-2.0
"""Takes samples: stops a thread that has run for a period, for a moment, and reads its stack.

The turns come at random around the period, so that work which a program does at regular intervals
is not seen too often or never.
"""

from __future__ import annotations

import _socket
import random
import select
import time

from soscope.entry.stop.moments import Moments, ServedMoments
from soscope.errors import SoscopeError
from soscope.instruments.prof.sampling.bykernel import KernelSampling
from soscope.instruments.prof.sampling.imagemap import ImageMap
from soscope.instruments.prof.sampling.ownstacks import find_own_stacks
from soscope.instruments.prof.sampling.tally import SampleTally
from soscope.instruments.prof.sampling.target import SampledProcess, SampledThread
from soscope.proc.status import process_ns

_NS = 1_000_000_000
_ODD = 987  # thousandths of a period, so that work at regular intervals is seen at all its stages
_PAUSE = 0.05  # seconds between reads of the kernel's samples
_MOST_PERIODS = 15  # so many periods of samples fit into the kernel's rings
_TRACED = (
    "threads are traced by somebody else, or may not be traced:"
    " root may, and who has CAP_SYS_PTRACE or CAP_PERFMON"
)


class StackSampler:
    """Samples processes `hz` times in a second of the processor time of each thread.

    It must run in one thread of a process in which no other code waits for traced children, and
    with SIGCHLD blocked.
    """

    def __init__(
        self, hz: int, asks: _socket.socket | None = None, *, asks_kernel: bool = True
    ) -> None:
        """Prepare. `asks` leads to the tracer of the processes, None if they are not traced.

        With `asks_kernel`, the kernel takes the samples if it can and nothing is missed by that.
        """
        self.period = _NS // hz * _ODD // 1000
        self.tally = SampleTally(self.period)
        self.processes: dict[int, SampledProcess] = {}
        self._asks_kernel = asks_kernel
        self._kernel = KernelSampling(self.period, self.tally, follows=asks is not None)
        self._moments = Moments() if asks is None else ServedMoments(asks)
        self._asked: dict[int, tuple[SampledProcess, SampledThread]] = {}
        self._since: dict[int, int] = {}  # when the stopped threads were asked to stop
        self.stood_ns = 0  # ns for which threads have stood still

    def add(self, pid: int, begun: int) -> str | None:
        """Sample one more process, or a process's new program. `begun` as of `SampledProcess`.

        Return which frames are not seen, None if all are. Raises SoscopeError and OSError if the
        process cannot be read.
        """
        if pid in self.processes:
            self._end(pid)
        is_theirs = self._begin(pid, begun)  # before images are searched, which takes long
        try:
            images = (self._kernel.hand_out(pid) if is_theirs else None) or ImageMap(pid)
        except (SoscopeError, OSError):
            if is_theirs:
                self._kernel.remove(pid)
            raise
        own, unseen = find_own_stacks(images)
        if is_theirs and own is None:
            self._kernel.show(pid, images)
            return unseen
        if is_theirs:
            self._kernel.remove(pid)
        self.processes[pid] = SampledProcess(pid, images, begun, self.period, self.tally)
        return unseen

    def _begin(self, pid: int, begun: int) -> bool:
        """Let the kernel sample a process. Return whether it does."""
        if not self._asks_kernel or self._kernel.leaves(pid):
            return False
        try:
            self._kernel.begin(pid, begun)
        except OSError:
            return False  # sampling is not allowed, or there are too many threads
        return True

    @property
    def is_idle(self) -> bool:
        """Return whether there is nothing to sample."""
        return not self.processes and self._kernel.is_idle and self._moments.is_idle

    def turn(self, caller: _socket.socket) -> None:
        """Ask threads to stop whose turn it is, and sample those that do, until the next turn.

        A message on the socket `caller` ends the turn, too.
        """
        pause = self.period / _NS * random.uniform(0.5, 1.5)  # noqa: S311  no secret
        if not self.processes:
            pause = min(_MOST_PERIODS * self.period / _NS, _PAUSE)
        end = time.monotonic() + pause
        for pid, process in list(self.processes.items()):
            try:
                due = process.due()
            except (OSError, SoscopeError):
                self._end(pid)
                self._add_again(pid)
                continue
            for thread in due:
                self._ask(process, thread)
        while (left := end - time.monotonic()) > 0:
            if not self._moments.wait(left, caller):
                continue
            self._serve()
            if select.select([caller], (), (), 0)[0]:
                break
        if not self._kernel.is_idle:
            self._kernel.take()

    def _add_again(self, pid: int) -> None:
        """Sample a process that has executed another program, unless it has ended."""
        try:
            self.add(pid, process_ns(pid))
        except (SoscopeError, OSError):
            pass  # the process has ended, which needs no message

    def close(self) -> None:
        """Close everything. Threads that were asked to stop go on when this process has ended."""
        self._moments.close()
        self._kernel.close()
        for pid in list(self.processes):
            self._end(pid)

    def _end(self, pid: int) -> None:
        process = self.processes.pop(pid)
        for tid, (owner, _) in list(self._asked.items()):
            if owner is process:
                del self._asked[tid]
        process.close()

    def _ask(self, process: SampledProcess, thread: SampledThread) -> None:
        asked = time.monotonic_ns()
        try:
            if not self._moments.ask(thread.tid):
                return
        except ProcessLookupError:
            return  # the process or thread has ended
        except PermissionError:
            self._miss(thread)
            return
        self._asked[thread.tid] = process, thread
        self._since[thread.tid] = asked

    def _miss(self, thread: SampledThread) -> None:
        weight, thread.owed = divmod(thread.owed, self.period)
        self.tally.miss(_TRACED, weight * self.period)

    def _serve(self) -> None:
        """Read the threads that have stopped, and resume each at once."""
        moments = self._moments
        while (stopped := moments.next()) is not None:
            registers, look, since = stopped.registers, None, time.monotonic_ns()
            process, thread = self._asked.pop(stopped.tid, (None, None))
            try:
                if process is not None and thread is not None and process.ran(thread):
                    look = process.look(thread, registers.sp, registers.thread_pointer)
            except OSError:
                pass  # the process has ended
            finally:
                moments.release(stopped)
                asked = self._since.pop(stopped.tid, since)
                if thread is not None and thread.had_processor:
                    since = asked  # the thread was running, so it stopped at once
                self.stood_ns += time.monotonic_ns() - since
            if process is not None and thread is not None and look is not None:
                process.add(thread, registers.columns(), look)
        for tid in moments.refused():
            if tid in self._asked:
                self._miss(self._asked.pop(tid)[1])
        for tid in self._asked.keys() - moments.asked:
            del self._asked[tid]  # the thread has ended, or a signal has stopped it
            self._since.pop(tid, None)
