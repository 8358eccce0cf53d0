# SPDX-License-Identifier: Apache-2.0
"""The stacks of calls (-k) as an export has them: frames between a call and the call around it."""

from __future__ import annotations

from soscope.instruments.mem.frames import FrameNames, Place, stack_at
from soscope.instruments.mem.model import StackFrame

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.trace.replay import Replay
    from soscope.model.call import Entry
    from soscope.model.slot import TracedSlot
    from soscope.recording.names import Programs

Key = tuple[int, int, int]  # program, process, number of the stack
_MOST_KEPT = 1 << 16


class ExportStacks:
    """Names the frames of a recording's stacks, the outermost first."""

    def __init__(self, programs: Programs) -> None:
        self._programs = programs
        self._names = FrameNames()
        self._places: dict[Key, list[Place]] = {}
        self._between: dict[tuple[Key, Key, TracedSlot], list[StackFrame]] = {}
        self._texts: dict[Key, str] = {}

    def frames(self, key: Key) -> list[StackFrame]:
        """Return all frames of a stack; [] where it is not known."""
        return [frame for frame, _ in reversed(self._of(key))]

    def text(self, key: Key) -> str:
        """Return the frames of a stack with semicolons between them."""
        text = self._texts.get(key)
        if text is None:
            if len(self._texts) > _MOST_KEPT:
                self._texts.clear()
            text = self._texts[key] = ";".join(map(frame_text, self.frames(key)))
        return text

    def inside(self, entry: Entry, around: Entry | None) -> list[StackFrame]:
        """Return the frames between a call and the one around it, if any."""
        if around is None:
            return self.frames(key_of(entry))
        return self.between(key_of(entry), key_of(around), around.slot)

    def between(self, key: Key, around: Key, slot: TracedSlot) -> list[StackFrame]:
        """Return the frames of a stack behind the call of `slot`, whose own stack is `around`.

        All of them, where that call's stack is no part of this one: a coroutine has its own.
        """
        asked = key, around, slot
        known = self._between.get(asked)
        if known is None:
            if len(self._between) > _MOST_KEPT:
                self._between.clear()
            known = self._between[asked] = self._made(*asked)
        return known

    def _made(self, key: Key, around: Key, slot: TracedSlot) -> list[StackFrame]:
        inner = self._of(key)
        mine = [(addr, *frame.values()) for frame, addr in inner]
        theirs = [(addr, *frame.values()) for frame, addr in self._of(around)]
        for count in range(len(mine)):
            if theirs and mine[count:] == theirs[: len(mine) - count]:
                break
        else:
            return self.frames(key)
        frames = [frame for frame, _ in reversed(inner[:count])]
        callee = slot.callee.name if slot.callee else None
        if frames and (frames[0].symbol, frames[0].image) == (slot.symbol, callee):
            del frames[0]  # the call around is a frame of its own
        return frames

    def _of(self, key: Key) -> list[Place]:
        """Return the frames of a stack and their addresses, the innermost first."""
        known = self._places.get(key)
        if known is None:
            if len(self._places) > _MOST_KEPT:
                self._places.clear()
            process, pid, number = key
            program = self._programs[process]
            _, words, is_cut = stack_at(program, number)
            known = self._places[key] = self._names.places(program, pid, words, is_cut=is_cut)
        return known


def stacks_of(replay: Replay) -> ExportStacks | None:
    """Return the stacks of a recording; None where none were kept."""
    return ExportStacks(replay.recording.programs) if replay.stack_depth else None


def key_of(entry: Entry) -> Key:
    """Return what says which stack a call has."""
    return entry.slot.process, entry.pid, entry.stack


def frame_text(frame: StackFrame) -> str:
    """Return a frame in one word: image`symbol, or the function and line of an interpreter's.

    Without what separates frames, and lines.
    """
    label = frame_label(frame)
    if frame.image is None and frame.file is not None:
        return frame_name(f"{label} ({frame.file}:{frame.line})")
    return frame_name(f"{frame.image or '?'}`{label}")


def frame_label(frame: StackFrame) -> str:
    """Return the function of a frame; its place in the image, where that has no name."""
    return frame.symbol or ("?" if frame.offset is None else f"{frame.offset:#x}")


def frame_name(name: str) -> str:
    """Return a name without what separates frames and lines."""
    return name.replace(";", ":").replace("\n", " ")
