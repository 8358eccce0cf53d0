# SPDX-License-Identifier: Apache-2.0
"""Count samples by thread and stack, and return what is new since the last time.

The result is a JSON object, and one block of a recording (`format.SAMPLES`):

    period     ns of processor time that a sample stands for
    threads    [number, process, thread, name] of threads; a later name replaces an earlier one
    images     [number, name, path, build-id in hexadecimal digits]
    frames     [image, vaddr]; [-1, address] if no image contains the address; [image, vaddr,
               symbol] if the image has no file that could give the name later; for a frame of
               an interpreter: [function, file, line, whether it is called by C code]; numbered
               from 0 on
    stacks     [whether it came to its end, frame, frame, …], the innermost first, and the
               interpreter's frames behind the native ones; numbered from 0 on
    counts     [thread, stack, samples]
    missed     reason -> ns of processor time that no sample stands for

Numbers continue through all results of one tally.
"""

from __future__ import annotations

from soscope.instruments.prof.model import HOOKS
from soscope.instruments.prof.sampling.unwind import ImageMap, SampledImage
from soscope.model.call import OwnFrame

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence
    from typing import Any

_MOST_KEPT = 1 << 17  # stacks that are remembered


class SampleTally:
    """Samples of the threads of some processes; `period` is in ns."""

    def __init__(self, period: int) -> None:
        self._period = period
        self._threads: dict[tuple[int, int, int], int] = {}
        self._images: dict[SampledImage, int] = {}
        self._frames: dict[Hashable, int] = {}
        self._stacks: dict[tuple[object, ...], int] = {}
        self._stack_count = 0
        self._counts: dict[tuple[int, int], int] = {}
        self._new: dict[str, list[Any]] = {}
        self._missed: dict[str, int] = {}

    def thread(self, pid: int, tid: int, born: int, name: str) -> int:
        """Return the number of a thread. `born` tells it from an earlier thread with that id."""
        number = self._threads.setdefault((pid, tid, born), len(self._threads))
        self._say("threads", [number, pid, tid, name])
        return number

    def add(
        self,
        thread: int,
        images: ImageMap,
        addrs: Sequence[int],
        own: Sequence[tuple[OwnFrame, bool]],
        *,
        is_whole: bool,
        weight: int,
    ) -> None:
        """Count a stack. `addrs` are the result of `Unwinder.walk`.

        Time in the agent's own code is no time of the program's, and counts as missed.
        """
        if addrs and images.is_agent(addrs[0]):
            self.miss(HOOKS, weight * self._period)
            return
        key = (images, images.generation, is_whole, *addrs, *own)
        stack = self._stacks.get(key)
        if stack is None:
            if len(self._stacks) > _MOST_KEPT:
                self._stacks.clear()
            stack = self._stacks[key] = self._stack_count
            self._stack_count += 1
            frames = [self._native(images, addr) for addr in addrs if not images.is_agent(addr)]
            frames += [self._frame((*frame, is_entry)) for frame, is_entry in own]
            self._say("stacks", [is_whole, *frames])
        self._counts[thread, stack] = self._counts.get((thread, stack), 0) + weight

    def miss(self, why: str, nanoseconds: int) -> None:
        """Add processor time that no sample stands for."""
        self._missed[why] = self._missed.get(why, 0) + nanoseconds

    def take(self) -> dict[str, Any] | None:
        """Return what is new since the last time, None if there is nothing."""
        if not self._counts and not self._missed:
            return None
        new: dict[str, Any] = dict(self._new)
        self._new = {}
        new["period"] = self._period
        new["counts"] = [[*key, count] for key, count in self._counts.items()]
        new["missed"] = self._missed
        self._counts, self._missed = {}, {}
        return new

    def _native(self, images: ImageMap, addr: int) -> int:
        image = images.at(addr - 1)
        if image is None:
            return self._frame((-1, addr))
        number = self._images.get(image)
        if number is None:
            number = self._images[image] = len(self._images)
            self._say("images", [number, image.name, image.path, image.identity.hex()])
        if not image.path:  # code without a file cannot be named later
            symbol = image.symbol(addr - 1)
            if symbol is not None:
                return self._frame((number, addr - image.bias, symbol))
        return self._frame((number, addr - image.bias))

    def _frame(self, frame: tuple[object, ...]) -> int:
        number = self._frames.get(frame)
        if number is None:
            number = self._frames[frame] = len(self._frames)
            self._say("frames", list(frame))
        return number

    def _say(self, kind: str, row: list[Any]) -> None:
        self._new.setdefault(kind, []).append(row)
