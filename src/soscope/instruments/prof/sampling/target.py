# SPDX-License-Identifier: Apache-2.0
"""The threads of one process, and which of them have run long enough for a sample."""

from __future__ import annotations

import os
import random
import time

from soscope.entry.isa import arch
from soscope.instruments.prof.sampling.imagemap import ImageMap
from soscope.instruments.prof.sampling.ownstacks import OwnStacks, find_own_stacks
from soscope.instruments.prof.sampling.tally import SampleTally
from soscope.instruments.prof.sampling.unwind import Unwinder
from soscope.model.call import OwnFrame
from soscope.proc.status import ThreadAccount, process_ns

_STACK, _MOST_STACK = 1 << 13, 1 << 18  # bytes of a stack that are copied at first, and at most
_MOST_FRAMES = 512
_COUNT = 2  # periods between counts of the threads
_LOOK = 250_000_000  # ns between searches for threads if their number stays the same
_MOST_IDLE = 8  # periods for which a thread that hardly runs is skipped
_EARLY = "images and threads were being looked for"
_MOST_WAITS = 8
_SWITCH = 100_000  # ns from when the sampler got a processor to its first look
_UNSEEN = "threads had ended, or did not run when it was their turn"


class SampledThread:
    """A thread: `owed` is the time in ns for which it is to be sampled yet.

    `looked` is when it was looked at last, in ns of the monotonic clock, and `next` when that is
    worth while again; `turns` is how often it had been given a processor then, and `delay` for how
    many ns it had waited for one.
    """

    __slots__ = (
        "account",
        "delay",
        "had_processor",
        "looked",
        "next",
        "number",
        "owed",
        "ran",
        "size",
        "tid",
        "turns",
        "waited",
    )

    def __init__(
        self, pid: int, tid: int, period: int, tally: SampleTally, *, is_new: bool
    ) -> None:
        """Begin. With `is_new`, all its time so far counts. Raises OSError if it has ended."""
        self.tid = tid
        self.account = ThreadAccount(pid, tid)
        ran, self.delay, self.turns = self.account.look()
        self.ran = 0 if is_new else ran
        self.waited = 0
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
            ran, thread.delay, thread.turns = thread.account.look()
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

    def ran(self, thread: SampledThread) -> bool:
        """Return whether a thread had a processor when this turn began.

        If it had to wait for one before, it stands where it gave its processor away, mostly behind
        a system call. It is let go, and asked again in another turn, but for the last of several.
        If it has waited only since the turn began, it stands where the sampler took its processor,
        which is anywhere.
        """
        try:
            _, delay, turns = thread.account.look()
        except (OSError, ValueError):
            thread.had_processor = is_seen = False
        else:
            thread.had_processor = turns == thread.turns
            least = time.monotonic_ns() - thread.looked + _SWITCH
            is_seen = thread.had_processor or delay - thread.delay <= least
        thread.waited = 0 if is_seen else (thread.waited + 1) % _MOST_WAITS
        return not thread.waited

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

    def add(self, thread: SampledThread, registers: dict[int, int | None], look: Look) -> None:
        """Count the stack of a thread, which may be running again."""
        start, stack, own, are_same = look
        if not are_same:
            self.images.look_late()
        addrs, is_whole = self._unwinder.walk(registers, start, stack)
        if not is_whole and len(stack) == thread.size < _MOST_STACK:
            thread.size *= 2  # copy more of the stack the next time
        weight, thread.owed = divmod(thread.owed, self._period)
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
