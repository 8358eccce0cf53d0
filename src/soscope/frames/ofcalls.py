# SPDX-License-Identifier: Apache-2.0
"""The stacks of calls (-k): their frames, and their text in tables and flame graphs."""

from __future__ import annotations

from soscope.frames.names import FrameNames, Place, stack_at
from soscope.model.call import Entry, StackFrame, printable
from soscope.recording.names import Programs

Key = tuple[int, int, int]  # program, process, number of the stack
_MOST_KEPT = 1 << 16


class CallFrames:
    """Names the frames of stacks, with a cache. `programs` has all stacks."""

    def __init__(self, programs: Programs) -> None:
        self.programs = programs
        self._names = FrameNames()
        self._places: dict[Key, list[Place]] = {}
        self._texts: dict[Key, str] = {}

    def places(self, key: Key) -> list[Place]:
        """Return frames and their addresses, innermost first, [] if nothing is known."""
        known = self._places.get(key)
        if known is None:
            index, _, number = key
            program = self.programs[index]
            _, words, is_cut = stack_at(program, number)
            known = self._names.places(program, words, is_cut=is_cut)
            if len(self._places) > _MOST_KEPT:
                self._places.clear()
            if known:  # an unknown stack may still be read
                self._places[key] = known
        return known

    def frames(self, key: Key) -> tuple[StackFrame, ...]:
        """Return only the frames, innermost first."""
        return tuple([frame for frame, _ in self.places(key)])

    def text(self, key: Key) -> str:
        """Return the `frame_text` of all frames, outermost first, with ";" between them."""
        text = self._texts.get(key)
        if text is None:
            text = ";".join([frame_text(frame) for frame, _ in reversed(self.places(key))])
            if len(self._texts) > _MOST_KEPT:
                self._texts.clear()
            if text:
                self._texts[key] = text
        return text


def key_of(entry: Entry) -> Key:
    """Return the key of a call's stack."""
    return entry.slot.process, entry.pid, entry.stack


def frame_text(frame: StackFrame) -> str:
    """Return a frame in one word: image`symbol, or an interpreter's function and line.

    Characters that separate frames or lines are replaced.
    """
    label = frame_label(frame)
    if frame.image is None and frame.file is not None:
        return frame_name(f"{label} ({frame.file}:{frame.line})")
    return frame_name(f"{frame.image or '?'}`{label}")


def frame_label(frame: StackFrame) -> str:
    """Return the function of a frame, or its offset in the image if it has no name."""
    return frame.symbol or ("?" if frame.offset is None else f"{frame.offset:#x}")


def frame_name(name: str) -> str:
    """Return a name without separators of frames and lines, and without control characters."""
    return printable(name.replace(";", ":").replace("\n", " "))
