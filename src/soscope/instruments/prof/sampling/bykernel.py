# SPDX-License-Identifier: Apache-2.0
"""Processes whose threads the kernel samples: nobody stands still, and system calls stay whole.

Only for what is on the stacks themselves: frames of Python must be read while the thread stands
still.
"""

from __future__ import annotations

from collections import deque

from soscope.entry.perf import Event, KernelSample, MapEvent, PerfEvents, TaskEvent
from soscope.errors import SoscopeError
from soscope.instruments.prof.sampling.imagemap import ImageMap
from soscope.instruments.prof.sampling.tally import SampleTally
from soscope.instruments.prof.sampling.unwind import Unwinder
from soscope.proc.cputime import process_ns

_FULL = "more samples than were read in time"
_GONE = "processes had ended before their images were looked at"
_EARLY = "images and threads were being looked for"
_KERNEL = "it passed in the kernel, which the kernel does not let us sample"


class _KnownProcess:
    """A process that is sampled: `images` None, it had ended before it was looked at."""

    __slots__ = ("begun", "images", "ran", "samples", "threads", "unwinder")

    def __init__(self, images: ImageMap | None, begun: int) -> None:
        self.images: ImageMap | None = None
        self.unwinder: Unwinder | None = None
        self.threads: dict[int, int] = {}
        self.begun = self.ran = begun
        self.samples = 0
        self.show(images)

    def show(self, images: ImageMap | None) -> None:
        """Take the images of the program that it runs now."""
        if self.images is not None:
            self.images.close()
        self.images = images
        self.unwinder = None if images is None else Unwinder(images)


class KernelSampling:
    """Samples by perf events; `follows`: children that are forked are sampled, too."""

    def __init__(self, period: int, tally: SampleTally, *, follows: bool) -> None:
        self._period = period
        self._tally = tally
        self._follows = follows
        self._events = PerfEvents(period)
        self._processes: dict[int, _KnownProcess] = {}
        self._pending: deque[Event] = deque()  # what the kernel has told, and nobody has heard
        self._names: dict[tuple[int, int], str] = {}
        self._left: set[int] = set()  # processes that others sample, with their children

    @property
    def is_idle(self) -> bool:
        """Return whether there is nothing to sample."""
        return not self._processes

    def begin(self, pid: int, begun: int) -> None:
        """Sample a process that had run for `begun` ns when somebody wanted that.

        Raises OSError where it is not allowed.
        """
        self.take()  # its parent may have been sampled
        if pid in self._processes:
            return
        self._events.add(pid)
        ran = process_ns(pid)
        self._processes[pid] = _KnownProcess(None, ran)
        if ran - begun >= self._period:
            self._tally.miss(_EARLY, ran - begun)

    def show(self, pid: int, images: ImageMap) -> None:
        """Take the images of the program that a process runs now."""
        self._show(pid, self._processes[pid], images)

    def _show(self, pid: int, known: _KnownProcess, images: ImageMap | None) -> None:
        """Take images as they are now: what is told of code that was mapped may be from before."""
        known.show(images)
        if images is None:
            return
        images.is_told = True
        self._pending += self._events.records()
        for event in self._pending:
            if isinstance(event, MapEvent) and event.pid == pid:
                images.gone(event)

    def hand_out(self, pid: int) -> ImageMap | None:
        """Return the images that are known of a process, as they are now, to be shown again.

        None: there are none. Raises SoscopeError and OSError where it cannot be looked at.
        """
        known = self._processes.get(pid)
        if known is None or known.images is None:
            return None
        known.images.is_told = False
        known.images.look()
        images, known.images, known.unwinder = known.images, None, None
        return images

    def leaves(self, pid: int) -> bool:
        """Return whether samples of a process are not taken, because those of a parent are not."""
        self.take()
        return pid in self._left

    def remove(self, pid: int) -> None:
        """Sample a process no more, nor children that it will have."""
        self._left.add(pid)
        self._events.remove(pid)
        known = self._processes.pop(pid)
        if not self._processes:
            self._pending.clear()
            self._events.records()  # nobody asks for these, nor for what found no room beside them
        if known.images is not None:
            known.images.close()

    def take(self) -> None:
        """Take the samples that are there."""
        self._pending += self._events.records()
        while self._pending:
            record = self._pending.popleft()
            if isinstance(record, KernelSample):
                self._take(record)
            elif isinstance(record, TaskEvent):
                self._hear(record)
            elif (known := self._processes.get(record.pid)) is not None and known.images:
                known.images.mapped(record)
        for pid, known in self._processes.items():
            try:
                known.ran = max(known.ran, process_ns(pid))
            except (SoscopeError, OSError):
                continue  # it has ended, or runs another program, which is told

    def close(self) -> None:
        """Take what is left, and end."""
        self.take()
        self._events.close()
        for known in self._processes.values():
            if known.images is not None:
                known.images.close()
            missing = known.ran - known.begun - known.samples * self._period
            if not self._events.has_kernel and missing >= self._period:
                self._tally.miss(_KERNEL, missing)
        self._processes.clear()

    def _hear(self, event: TaskEvent) -> None:
        if event.kind == TaskEvent.LOST:
            self._tally.miss(_FULL, event.count * self._period)
            return
        if event.name:
            self._names[event.pid, event.tid] = event.name
        if event.kind == TaskEvent.EXEC and event.pid in self._processes:
            self._show(event.pid, self._processes[event.pid], _images_of(event.pid))
        elif event.kind == TaskEvent.FORK and event.pid != event.parent and self._follows:
            self._forked(event.pid, event.parent)

    def _forked(self, pid: int, parent: int) -> None:
        if parent in self._left:
            self._left.add(pid)
            return
        self._left.discard(pid)  # another one had the number
        if pid not in self._processes:
            known = self._processes[pid] = _KnownProcess(None, 0)
            self._show(pid, known, _images_of(pid))

    def _take(self, sample: KernelSample) -> None:
        known = self._processes.get(sample.pid)
        if known is None:
            return  # a child that is not followed
        known.samples += 1
        if known.images is None:
            self._show(sample.pid, known, _images_of(sample.pid))
        if known.images is None or known.unwinder is None or not sample.registers:
            self._tally.miss(_GONE, self._period)
            return
        addrs, is_whole = known.unwinder.walk(sample.registers, sample.sp, sample.stack)
        number = known.threads.get(sample.tid)
        if number is None:
            number = known.threads[sample.tid] = self._thread(sample.pid, sample.tid)
        self._tally.add(number, known.images, addrs, (), is_whole=is_whole, weight=1)

    def _thread(self, pid: int, tid: int) -> int:
        name = self._names.get((pid, tid), "")
        try:
            with open(f"/proc/{pid}/task/{tid}/comm", encoding="utf-8", errors="replace") as file:
                name = file.read().rstrip("\n")
        except OSError:
            pass  # it has ended
        return self._tally.thread(pid, tid, 0, name)


def _images_of(pid: int) -> ImageMap | None:
    try:
        return ImageMap(pid)
    except (SoscopeError, OSError):
        return None  # it has ended: its samples are counted as missed
