# SPDX-License-Identifier: Apache-2.0
"""Let the kernel sample threads, without stopping them or ending system calls.

This works only for native stacks. Frames of Python must be read while the thread is stopped.
"""

from __future__ import annotations

from collections import deque

from soscope.entry.perf import Event, KernelSample, MapEvent, PerfEvents, TaskEvent
from soscope.errors import SoscopeError
from soscope.instruments.prof.sampling.tally import SampleTally
from soscope.instruments.prof.sampling.unwind import ImageMap, Unwinder
from soscope.proc.status import process_ns

_FULL = "more samples than were read in time"
_GONE = "processes had ended before their images were looked at"
_EARLY = "images and threads were being looked for"
_KERNEL = "it passed in the kernel, which the kernel does not let us sample"


class _KnownProcess:
    """A process that is sampled. `images` is None if it ended before they were read."""

    __slots__ = ("begun", "images", "ran", "samples", "threads", "unwinder")

    def __init__(self, images: ImageMap | None, begun: int) -> None:
        self.images: ImageMap | None = None
        self.unwinder: Unwinder | None = None
        self.threads: dict[int, int] = {}
        self.begun = self.ran = begun
        self.samples = 0
        self.show(images)

    def show(self, images: ImageMap | None) -> None:
        """Use the images of the program that the process runs now."""
        if self.images is not None:
            self.images.close()
        self.images = images
        self.unwinder = None if images is None else Unwinder(images)


class KernelSampling:
    """Samples taken by perf events. With `follows`, forked children are sampled, too."""

    def __init__(self, period: int, tally: SampleTally, *, follows: bool) -> None:
        self._period = period
        self._tally = tally
        self._follows = follows
        self._events = PerfEvents(period)
        self._processes: dict[int, _KnownProcess] = {}
        self._pending: deque[Event] = deque()  # events of the kernel that are not processed yet
        self._names: dict[tuple[int, int], str] = {}
        self._left: set[int] = set()  # processes sampled in another way, and their children

    @property
    def is_idle(self) -> bool:
        """Return whether there is nothing to sample."""
        return not self._processes

    def begin(self, pid: int, begun: int) -> None:
        """Sample a process that had run for `begun` ns when the sampling was asked for.

        Raises OSError if that is not allowed.
        """
        self.take()  # so that forks of a sampled parent are known
        if pid in self._processes:
            return
        self._events.add(pid)
        ran = process_ns(pid)
        self._processes[pid] = _KnownProcess(None, ran)
        if ran - begun >= self._period:
            self._tally.miss(_EARLY, ran - begun)

    def show(self, pid: int, images: ImageMap) -> None:
        """Use the images of the program that a process runs now."""
        self._show(pid, self._processes[pid], images)

    def _show(self, pid: int, known: _KnownProcess, images: ImageMap | None) -> None:
        """Use images as read now. Events about mapped code that are pending may be older."""
        known.show(images)
        if images is None:
            return
        images.is_told = True
        self._pending += self._events.records()
        for event in self._pending:
            if isinstance(event, MapEvent) and event.pid == pid:
                images.gone(event)

    def hand_out(self, pid: int) -> ImageMap | None:
        """Return the present images of a process, for a later call of `show`.

        Return None if there are none. Raises SoscopeError and OSError if they cannot be read.
        """
        known = self._processes.get(pid)
        if known is None or known.images is None:
            return None
        known.images.is_told = False
        known.images.look()
        images, known.images, known.unwinder = known.images, None, None
        return images

    def leaves(self, pid: int) -> bool:
        """Return whether a process is not sampled here because its parent is not."""
        self.take()
        return pid in self._left

    def remove(self, pid: int) -> None:
        """Stop sampling a process and children that it will have."""
        self._left.add(pid)
        self._events.remove(pid)
        known = self._processes.pop(pid)
        if not self._processes:
            self._pending.clear()
            self._events.records()  # drop its samples and its reports of losses
        if known.images is not None:
            known.images.close()

    def take(self) -> None:
        """Process the samples and events that the kernel has written."""
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
                continue  # the process has ended, or an event will tell of its new program

    def close(self) -> None:
        """Process the rest, and close everything."""
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
        self._left.discard(pid)  # another process had the number before
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
            pass  # the process or thread has ended
        return self._tally.thread(pid, tid, 0, name)


def _images_of(pid: int) -> ImageMap | None:
    try:
        return ImageMap(pid)
    except (SoscopeError, OSError):
        return None  # the process has ended, and its samples count as missed
