# SPDX-License-Identifier: Apache-2.0
"""Functions inside an image of a native process: breakpoints at their first instructions."""

from __future__ import annotations

from soscope.control.breakpoints.images import CalledSlot, ForeignImage
from soscope.control.native.calls import busy_copies
from soscope.control.remote.entries import EntryPoint, EntryPoints
from soscope.entry.breakpoint import Points
from soscope.entry.native.threads import NativeThreads
from soscope.entry.native.traps import Traps
from soscope.entry.remote.convention import Convention


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
        words = [word for word, _, _ in self._words]
        copied = NativeEntries(words, self._convention, self._points, traps, threads)
        copied.go_on_from(self)
        copied._at = dict(self._at)
        return copied

    def go_on_from(self, before: EntryPoints) -> None:
        """Share with `before` the lists of what was not seen and why, for all processes."""
        super().go_on_from(before)
        assert isinstance(before, NativeEntries)
        self.left = before.left

    def watch(self, slot: CalledSlot, image: ForeignImage, call: object, number: int) -> None:
        """Put a breakpoint at the first instruction of a function."""
        armed = self._at[slot.addr] = EntryPoint(slot, image, call)
        armed.number = number
        if self._traps.put_entry(slot.addr, armed, busy_copies(self._threads)) is None:
            self.left.append(slot.symbol)

    def remarks(self) -> list[str]:
        """Return which words matched no function, and which functions could not be seen."""
        what = "what it begins with must stay in place, so its calls were not seen"
        return super().remarks() + [f"-x {symbol}: {what}" for symbol in self.left]

    def forget(self, image: ForeignImage) -> None:
        """Drop the functions of an image that was unloaded."""
        for addr, armed in list(self._at.items()):
            if armed.image is image:
                del self._at[addr]
                self._traps.take_entry(addr)
