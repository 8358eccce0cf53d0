# SPDX-License-Identifier: Apache-2.0
"""The open calls of a native process, and breakpoints at functions' first instructions."""

from __future__ import annotations

from soscope.control.breakpoints.calls import Calls, OpenCall
from soscope.control.breakpoints.watch import Armed, EntryPoint, EntryPoints
from soscope.control.native.images import NativeHooks
from soscope.control.native.process import NativeRun
from soscope.entry.breakpoint import Frame, Points
from soscope.entry.native.threads import NativeTask, NativeThreads
from soscope.entry.native.traps import NativeMemory, Trap, Traps
from soscope.entry.remote.convention import Convention


class NativeCalls(Calls):
    """The calls of one process. `unseen` counts those whose return has no breakpoint.

    `lifted` are children that make it necessary to keep all traps out of memory. With `follows`
    the calls of children that share the memory are recorded, too. `hooks` must be set first.
    """

    hooks: NativeHooks

    def __init__(
        self,
        threads: NativeThreads,
        memory: NativeMemory,
        traps: Traps,
        run: NativeRun,
        lifted: set[int],
        *,
        follows: bool,
    ) -> None:
        super().__init__(threads, memory, run)
        self.unseen = 0
        self._follows = follows
        self._threads = threads
        self._traps = traps
        self._lifted = lifted
        self._sp = run.native.machine.sp

    def called(self, tid: int, task: NativeTask, armed: Armed, return_addr: int) -> None:
        """Record a call that is about to be made by the thread whose registers were read."""
        if armed.number < 0 or (task.is_child and not self._follows):
            return
        sp = self._threads.values[self._sp]
        self.record_call(task.pid, tid, armed.number, armed.spec, sp, return_addr)

    def _has_point(self, return_addr: int) -> bool:
        back = self._traps.at.get(return_addr)
        return back is not None and back.is_back

    def _sees_return(self, return_addr: int) -> bool:
        if self._has_point(return_addr):
            return True
        if self._lifted:
            return False
        # Code that was made at run time may be moved.
        if self.hooks.is_code(return_addr) and self._traps.put_back(
            return_addr, busy_copies(self._threads)
        ):
            return True
        self.unseen += 1
        return False

    def _await_return(self, frame: Frame[OpenCall]) -> None:
        back = frame.call.back = self._traps.at[frame.return_addr]
        back.open += 1

    def _drop(self, frame: Frame[OpenCall]) -> None:
        frame.call.back.open -= 1


def busy_copies(threads: NativeThreads) -> set[Trap]:
    """Return the traps whose displaced copies threads may be running."""
    return {task.inside for task in threads.tasks.values() if task.inside is not None}


# Functions inside an image of a native process: breakpoints at their first instructions.


class NativeEntries(EntryPoints):
    """The functions of one process that match `words`.

    `left` are functions that cannot have a breakpoint.
    """

    __slots__ = ("_threads", "_traps", "left")

    def __init__(
        self,
        words: list[str],
        convention: Convention,
        points: Points,
        traps: Traps,
        threads: NativeThreads,
    ) -> None:
        super().__init__(words, convention, points)
        self._traps = traps
        self._threads = threads
        self.left: list[str] = []

    def copy_for(self, traps: Traps, threads: NativeThreads) -> NativeEntries:
        """Return a copy for a forked process, whose traps are `traps`."""
        return self._copied_to(NativeEntries([], self._convention, self._points, traps, threads))

    def go_on_from(self, before: EntryPoints) -> None:
        """Share with `before` the lists of what was not seen and why, for all processes."""
        super().go_on_from(before)
        assert isinstance(before, NativeEntries)
        self.left = before.left

    def _put(self, armed: EntryPoint) -> None:
        slot = armed.slot
        if self._traps.put_entry(slot.addr, armed, busy_copies(self._threads)) is None:
            self.left.append(slot.symbol)

    def _take(self, addr: int) -> None:
        self._traps.take_entry(addr)

    def remarks(self) -> list[str]:
        """Return which words matched no function, and which functions could not be seen."""
        what = "what it begins with must stay in place, so its calls were not seen"
        return super().remarks() + [f"-x {symbol}: {what}" for symbol in self.left]
