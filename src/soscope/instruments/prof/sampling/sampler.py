# SPDX-License-Identifier: Apache-2.0
"""Find the threads of one process that have run long enough for a sample."""

from __future__ import annotations

import os
import random
import select
import time
from typing import Protocol

from soscope.entry.isa import arch
from soscope.entry.tracee import Moments, ServedMoments
from soscope.errors import SoscopeError
from soscope.instruments.prof.sampling.bykernel import KernelSampling
from soscope.instruments.prof.sampling.tally import SampleTally
from soscope.instruments.prof.sampling.unwind import ImageMap, Unwinder
from soscope.live.python.interpreter import find_interpreter
from soscope.live.python.stacks import PythonStacks
from soscope.live.ruby.frames import RubyStacks
from soscope.live.ruby.layout import find_ruby
from soscope.model.call import OwnFrame
from soscope.proc.status import ThreadAccount, process_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket

# Finds the reader of an interpreter's frames in a process: of Python, else of Ruby.


class OwnStacks(Protocol):
    """Reads interpreter frames of stopped threads."""

    def frames(self, thread_pointer: int, most: int) -> list[tuple[OwnFrame, bool]]:
        """Return the frames, innermost first, each with whether C code has called it."""


def find_own_stacks(images: ImageMap) -> tuple[OwnStacks | None, str | None]:
    """Return a reader of interpreter frames (None if there is none), and what is not seen.

    The second value tells which frames are not seen, and why. It is None if all are.
    """
    why = None
    try:
        python = find_interpreter(images.images)
        if python is not None:
            return PythonStacks(images.space, python), None
    except SoscopeError as error:
        why = f"frames of Python are not seen: {error}"
    try:
        ruby = find_ruby(images.images)
        if ruby is not None:
            return RubyStacks(images.space, ruby), why
    except SoscopeError as error:
        why = f"frames of Ruby are not seen: {error}"
    return None, why


_STACK, _MOST_STACK = 1 << 13, 1 << 18  # bytes of a stack that are copied at first, and at most
_MOST_FRAMES = 512
_COUNT = 2  # periods between counts of the threads
_LOOK = 250_000_000  # ns between searches for threads if their number stays the same
_MOST_IDLE = 8  # periods for which a thread that hardly runs is skipped
_EARLY = "images and threads were being looked for"
_UNSEEN = "threads had ended, or did not run when it was their turn"


class SampledThread:
    """A thread: `owed` is the time in ns for which it is to be sampled yet.

    `looked` is when it was looked at last, in ns of the monotonic clock, and `next` when that is
    worth while again; `turns` is how often it had been given a processor then. `in_calls` is the
    time in ns for which it was sampled at the end of a system call, with the time in the kernel
    that it had spent before its sampling began.
    """

    def __init__(
        self, pid: int, tid: int, period: int, tally: SampleTally, *, is_new: bool
    ) -> None:
        """Begin. With `is_new`, all its time so far counts. Raises OSError if it has ended."""
        self.tid = tid
        self.account = ThreadAccount(pid, tid)
        ran, _, self.turns = self.account.look()
        self.ran = 0 if is_new else ran
        self.in_calls = 0 if is_new else self.account.kernel_ns()
        self.had_processor = False  # whether it was running when it was asked to stop
        self.owed = random.randrange(period)  # noqa: S311  short threads have their share, too
        self.looked = self.next = time.monotonic_ns()
        self.size = _STACK
        try:
            with open(f"/proc/{pid}/task/{tid}/comm", "rb", buffering=0) as file:
                name = os.fsdecode(file.read().rstrip(b"\n"))
        except OSError:
            name = ""
        self.number = tally.thread(pid, tid, self.account.born, name)


class SampledProcess:
    """A process while it runs one program.

    `begun` is how many ns it had run when the sampling was asked for. Raises SoscopeError and
    OSError if it cannot be read.
    """

    def __init__(
        self, pid: int, images: ImageMap, begun: int, period: int, tally: SampleTally
    ) -> None:
        self.pid = pid
        self._period = period
        self._tally = tally
        self.images = images
        self._unwinder = Unwinder(self.images)
        self._own: OwnStacks | None = None
        self._has_looked = -1
        self.threads: dict[int, SampledThread] = {}
        self._task = f"/proc/{pid}/task"
        self._count = 0
        self._next_look = self._next_count = 0
        self._ran = process_ns(pid)
        self._are_owed = self._has_begun = False
        self._unseen = -self._ran
        self._find_threads(time.monotonic_ns())
        if self._ran - begun >= period:
            tally.miss(_EARLY, self._ran - begun)

    def close(self) -> None:
        """Close the threads. Time that still had to be sampled counts as missed."""
        for thread in self.threads.values():
            self._forget(thread)
        self.threads.clear()
        if self._unseen + self._ran >= self._period:
            self._tally.miss(_UNSEEN, self._unseen + self._ran)
        self.images.close()

    def due(self) -> list[SampledThread]:
        """Return the threads that have run for a period since they were sampled, and may run now.

        Raises OSError and SoscopeError where the process has ended, or runs another program.
        """
        now = time.monotonic_ns()
        ran = process_ns(self.pid)
        if ran == self._ran or (ran - self._ran < self._period >> 4 and not self._are_owed):
            return []
        self._ran = ran
        self._are_owed = False
        self._find_threads(now)
        nearly = now + (self._period >> 3)
        threads = [thread for thread in self.threads.values() if thread.next <= nearly]
        return [thread for thread in threads if self._is_due(thread, now)]

    def _is_due(self, thread: SampledThread, now: int) -> bool:
        try:
            ran, _, thread.turns = thread.account.look()
        except (OSError, ValueError):  # the process or thread has ended
            self._forget(self.threads.pop(thread.tid))
            self._next_look = self._next_count = 0
            return False
        grown, thread.ran = ran - thread.ran, ran
        thread.owed += grown
        self._unseen -= grown
        is_owed = thread.owed >= self._period
        self._are_owed |= is_owed
        if not is_owed:
            # It cannot have run for longer than time has passed. A thread that runs now and then
            # needs longer. Half of the likely time is waited for, as it may run more.
            left, passed = self._period - thread.owed, now - thread.looked
            most = _MOST_IDLE * self._period
            likely = min(left * passed // (2 * grown), most) if grown else most
            thread.next = now + max(left, likely)
        thread.looked = now
        return is_owed and grown > 0 and not _waits(thread)

    def _find_threads(self, now: int) -> None:
        if now < self._next_count:
            return
        self._next_count = now + _COUNT * self._period
        try:
            count = os.stat(self._task).st_nlink
            if count == self._count and now < self._next_look:
                return
            tids = {int(name) for name in os.listdir(self._task)}
        except OSError:
            return  # the process has ended, which another event tells
        self._count, self._next_look = count, now + _LOOK
        self.images.look()
        for tid in self.threads.keys() - tids:
            self._forget(self.threads.pop(tid))
        for tid in tids - self.threads.keys():
            try:
                self.threads[tid] = SampledThread(
                    self.pid, tid, self._period, self._tally, is_new=self._has_begun
                )
            except (OSError, ValueError):
                continue  # the process or thread has ended
        self._has_begun = True

    def _forget(self, thread: SampledThread) -> None:
        missed = thread.owed // self._period * self._period
        if missed:
            self._tally.miss(_UNSEEN, missed)
        thread.account.close()

    # ---- a stopped thread ----

    def ran(self, thread: SampledThread, registers: arch.Registers) -> bool:
        """Return whether a stopped thread stands at a place that may be sampled.

        If it was running, or an interrupt has taken its processor, it stands anywhere. At the end
        of a system call the kernel takes a thread's processor more often than its time there
        explains: some calls, such as clock_gettime(2) of the process's time, let the scheduler
        look. So such a place is sampled for as much time as the thread has spent in the kernel. A
        thread that is let go is asked again in another turn, and its next sample stands for more.
        """
        try:
            turns = thread.account.look()[2]
            thread.had_processor = turns == thread.turns
            return (
                thread.had_processor
                or not arch.is_in_call(registers)
                or thread.in_calls + thread.owed // 2 <= thread.account.kernel_ns()
            )
        except (OSError, ValueError):  # the process or thread has ended
            thread.had_processor = False
            return False

    def look(self, thread: SampledThread, stack_pointer: int, thread_pointer: int) -> Look:
        """Copy the stack and frames of a thread. Raises OSError if there is no stack."""
        start = max(stack_pointer - arch.RED_ZONE, 0)
        stack = self.images.space.read(start, thread.size)
        if not stack:
            raise ProcessLookupError  # the process runs another program now
        own: list[tuple[OwnFrame, bool]] = []
        reader = self._find_own()
        if reader is not None:
            own = reader.frames(thread_pointer, _MOST_FRAMES)
        return start, stack, own, self.images.are_same()

    def add(self, thread: SampledThread, registers: arch.Registers, look: Look) -> None:
        """Count the stack of a thread, which may be running again."""
        start, stack, own, are_same = look
        if not are_same:
            self.images.look_late()
        addrs, is_whole = self._unwinder.walk(registers.columns(), start, stack)
        if not is_whole and len(stack) == thread.size < _MOST_STACK:
            thread.size *= 2  # copy more of the stack the next time
        weight, thread.owed = divmod(thread.owed, self._period)
        if arch.is_in_call(registers):
            thread.in_calls += weight * self._period
        thread.next = thread.looked + self._period - thread.owed
        self._tally.add(thread.number, self.images, addrs, own, is_whole=is_whole, weight=weight)
        if not are_same:
            self.images.show_all()

    def _find_own(self) -> OwnStacks | None:
        """Return the reader of interpreter frames, as soon as there is an interpreter."""
        if self._own is None and self._has_looked != self.images.generation:
            self._has_looked = self.images.generation
            self._own, _ = find_own_stacks(self.images)
        return self._own


# Start of the copied stack, the copy, interpreter frames, and whether the known images were
# loaded.
Look = tuple[int, bytes, list[tuple[OwnFrame, bool]], bool]


def _waits(thread: SampledThread) -> bool:
    """Return whether a thread waits in a system call, which a stop would end."""
    try:
        return thread.account.waits()
    except OSError:
        return True  # the process or thread has ended


# Takes samples: stops a thread that has run for a period, for a moment, and reads its stack.
#
# The turns come at random around the period, so that work which a program does at regular intervals
# is not seen too often or never.

_NS = 1_000_000_000
_ODD = 987  # thousandths of a period, so that work at regular intervals is seen at all its stages
_PAUSE = 0.05  # seconds between reads of the kernel's samples
_MOST_PERIODS = 15  # so many periods of samples fit into the kernel's rings
_TRACED = (
    "threads are traced by another process, or may not be traced:"
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
        """Ask threads to stop whose turn it is, and sample them, until the next turn.

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
                if process is not None and thread is not None and process.ran(thread, registers):
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
                process.add(thread, registers, look)
        for tid in moments.refused():
            if tid in self._asked:
                self._miss(self._asked.pop(tid)[1])
        for tid in self._asked.keys() - moments.asked:
            del self._asked[tid]  # the thread has ended, or a signal has stopped it
            self._since.pop(tid, None)
