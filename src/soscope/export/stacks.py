# SPDX-License-Identifier: Apache-2.0
"""The stacks of calls (-k) for exports: the frames between a call and the call around it."""

from __future__ import annotations

from soscope.frames.names import CallFrames, Key, Place, key_of
from soscope.model.call import StackFrame

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.frames.cppnames import CppNames
    from soscope.instruments.trace.replay import Replay
    from soscope.model.call import Entry
    from soscope.model.image import TracedSlot

_MOST_KEPT = 1 << 16


class ExportStacks(CallFrames):
    """The stacks of a recording, outermost frame first.

    With `names`, C++ functions have demangled names.
    """

    def __init__(self, replay: Replay, names: CppNames | None) -> None:
        super().__init__(replay.recording.programs)
        self._cpp = names
        self._written: dict[Key, list[Place]] = {}
        self._between: dict[tuple[Key, Key, TracedSlot], list[StackFrame]] = {}

    def places(self, key: Key) -> list[Place]:
        """Return frames and their addresses, innermost first, [] if nothing is known."""
        linked = super().places(key)
        if self._cpp is None or not linked:
            return linked
        known = self._written.get(key)
        if known is None:
            if len(self._written) > _MOST_KEPT:
                self._written.clear()
            known = self._written[key] = [
                (_named(frame, self._cpp), addr) for frame, addr in linked
            ]
        return known

    def whole(self, key: Key) -> list[StackFrame]:
        """Return all frames of a stack, [] if it is not known."""
        return [frame for frame, _ in reversed(self.places(key))]

    def inside(self, entry: Entry, around: Entry | None) -> list[StackFrame]:
        """Return the frames between a call and the call around it, if there is one."""
        if around is None:
            return self.whole(key_of(entry))
        return self.between(key_of(entry), key_of(around), around.slot)

    def between(self, key: Key, around: Key, slot: TracedSlot) -> list[StackFrame]:
        """Return the frames of a stack inside the call of `slot`, whose own stack is `around`.

        If that call's stack is not part of this one, because a coroutine has a stack of its own,
        return all frames.
        """
        asked = key, around, slot
        known = self._between.get(asked)
        if known is None:
            if len(self._between) > _MOST_KEPT:
                self._between.clear()
            known = self._between[asked] = self._made(*asked)
        return known

    def _made(self, key: Key, around: Key, slot: TracedSlot) -> list[StackFrame]:
        inner = self.places(key)
        mine = [(addr, *frame.values()) for frame, addr in inner]
        theirs = [(addr, *frame.values()) for frame, addr in self.places(around)]
        for count in range(len(mine)):
            if theirs and mine[count:] == theirs[: len(mine) - count]:
                break
        else:
            return self.whole(key)
        frames = [frame for frame, _ in reversed(inner[:count])]
        callee = slot.callee.name if slot.callee else None
        symbol = slot.symbol if self._cpp is None else self._cpp.written(slot.symbol)
        if frames and (frames[0].symbol, frames[0].image) == (symbol, callee):
            del frames[0]  # the outer call has a frame of its own
        return frames


def _named(frame: StackFrame, names: CppNames) -> StackFrame:
    if frame.symbol is None:
        return frame
    symbol = names.written(frame.symbol)
    return StackFrame(frame.image, symbol, frame.offset, frame.file, frame.line)


def stacks_of(replay: Replay, names: CppNames | None = None) -> ExportStacks | None:
    """Return the ExportStacks of a recording, None if it has no stacks."""
    return ExportStacks(replay, names) if replay.stack_depth else None
