# SPDX-License-Identifier: Apache-2.0
"""The stacks of calls (-k): their frames, and a text that tables and flame graphs have."""

from __future__ import annotations

from soscope.frames.names import FrameNames, Place, stack_at
from soscope.model.call import Entry
from soscope.model.printable import printable
from soscope.model.stackframe import StackFrame
from soscope.recording.names import Programs

Key = tuple[int, int, int]  # program, process, number of the stack
_MOST_KEPT = 1 << 16


class CallFrames:
    """Names the frames of stacks, and remembers them; `programs` has all stacks."""

    def __init__(self, programs: Programs) -> None:
        self.programs = programs
        self._names = FrameNames()
        self._places: dict[Key, list[Place]] = {}
        self._texts: dict[Key, str] = {}

    def places(self, key: Key) -> list[Place]:
        """Return frames and their addresses, the innermost first; [] where nothing is known."""
        known = self._places.get(key)
        if known is None:
            index, _, number = key
            program = self.programs[index]
            _, words, is_cut = stack_at(program, number)
            known = self._names.places(program, words, is_cut=is_cut)
            if len(self._places) > _MOST_KEPT:
                self._places.clear()
            if known:  # else it may still come
                self._places[key] = known
        return known

    def frames(self, key: Key) -> tuple[StackFrame, ...]:
        """Return the frames alone, the innermost first."""
        return tuple([frame for frame, _ in self.places(key)])

    def text(self, key: Key) -> str:
        """Return the frames as `frame_text` has them, the outermost first, with ";" between."""
        text = self._texts.get(key)
        if text is None:
            text = ";".join([frame_text(frame) for frame, _ in reversed(self.places(key))])
            if len(self._texts) > _MOST_KEPT:
                self._texts.clear()
            if text:
                self._texts[key] = text
        return text


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
    """Return a name without what separates frames and lines, or is meant for a terminal."""
    return printable(name.replace(";", ":").replace("\n", " "))
