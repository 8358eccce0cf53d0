# SPDX-License-Identifier: Apache-2.0
"""The stacks of calls (-k): lines below a call's own, or members of its object.

A native frame is the return address of a call, which is in front of it. A frame of Python or Ruby
replaces the frame of the interpreter's function that runs its code.
"""

from __future__ import annotations

from collections.abc import Callable
from json.encoder import encode_basestring_ascii as quoted

from soscope.frames.names import CallFrames, Key, Place, key_of
from soscope.model.call import Entry, StackFrame, printable
from soscope.recording.names import Programs
from soscope.report.trace.display import Display
from soscope.report.trace.names import FunctionNames

_MOST_KEPT = 1 << 16

_Kept = dict[Key, str]


class CallStacks:
    """Names the frames of calls that `display` asks for. `programs` has all stacks."""

    def __init__(self, programs: Programs, display: Display) -> None:
        self._frames = CallFrames(programs)
        self._depth = display.stacks
        self._functions = FunctionNames(display)
        self._texts: _Kept = {}
        self._members: _Kept = {}

    def text(self, entry: Entry) -> str:
        """Return a line for each frame, innermost first, "" if the stack is not known."""
        return self._kept(self._texts, entry, self._lines)

    def members(self, entry: Entry) -> str:
        """Return the member `stack` of a JSON object, followed by a comma."""
        return self._kept(self._members, entry, _array) or '"stack":null,'

    def _kept(self, kept: _Kept, entry: Entry, make: Callable[[list[Place]], str]) -> str:
        key = key_of(entry)
        text = kept.get(key)
        if text is None:
            places = self._frames.places(key)[: self._depth]
            text = make(places) if places else ""
            if len(kept) > _MOST_KEPT:
                kept.clear()
            if text:
                kept[key] = text
        return text

    def _lines(self, places: list[Place]) -> str:
        return "".join([f" > {printable(self._text(frame, addr))}\n" for frame, addr in places])

    def _text(self, frame: StackFrame, addr: int | None) -> str:
        """Return a frame as strace, or Python or Ruby, would show it."""
        if addr is None:
            if frame.file is None:
                return "?"
            return f"{frame.file}:{frame.line} in {frame.symbol}"
        if frame.image is None:
            return f"[{addr:#x}]"
        symbol = f"+{addr:#x}"
        if frame.symbol is not None:
            symbol = f"{self._functions.short(frame.symbol)}+{frame.offset:#x}"
        line = ""
        if frame.file is not None and frame.line is not None:
            line = f" {frame.file.rpartition('/')[2]}:{frame.line}"
        return f"{frame.image}({symbol}) [{addr:#x}]{line}"


def _array(places: list[Place]) -> str:
    return f'"stack":[{",".join([_object(frame) for frame, _ in places])}],'


def _object(frame: StackFrame) -> str:
    def text(value: str | None) -> str:
        return "null" if value is None else quoted(value)

    offset = "null" if frame.offset is None else frame.offset
    line = "null" if frame.line is None else frame.line
    return (
        f'{{"image":{text(frame.image)},"symbol":{text(frame.symbol)},"offset":{offset},'
        f'"file":{text(frame.file)},"line":{line}}}'
    )
