# SPDX-License-Identifier: Apache-2.0
"""Additions to the lines of a trace: places, stacks, indentation, colours.

A plain trace does not use this. A colour never tells anything that the text does not.
"""

from __future__ import annotations

from soscope.model.call import Entry, Exit
from soscope.report.trace.display import Display

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.prototypes.formats import Argument
    from soscope.recording.names import Programs
    from soscope.report.trace.callstacks import CallStacks
    from soscope.report.trace.places import CallPlaces

_SYMBOL = "\x1b[36m"
_STRING = "\x1b[32m"
_FAILURE = "\x1b[31m"
_END = "\x1b[0m"
_CODES = (_SYMBOL, _STRING, _FAILURE, _END)


class Adorned:
    """Adds to lines what a display asks for. `programs` has the images."""

    def __init__(self, display: Display, *, is_coloured: bool) -> None:
        self._is_coloured = is_coloured
        self._indent = display.indent
        self._has_places = display.places
        self._places: CallPlaces | None = None
        self._display = display
        self._stacks: CallStacks | None = None
        self._descriptors = display.descriptors
        self.programs: Programs

    def lead(self, entry: Entry) -> str:
        """Return the text before a function."""
        return self.place(entry) + " " * (self._indent * entry.depth)

    def place(self, entry: Entry) -> str:
        """Return where a call was made, if that is asked for, followed by a blank."""
        if not self._has_places:
            return ""
        if self._places is None:
            from soscope.report.trace.places import CallPlaces

            self._places = CallPlaces(self.programs, self._display)
        return f"[{self._places.text(entry)}] "

    def below(self, entry: Entry) -> str:
        """Return the text below the line of a call."""
        if not self._display.stacks:
            return ""
        if self._stacks is None:
            from soscope.report.trace.callstacks import CallStacks

            self._stacks = CallStacks(self.programs, self._display)
        return self._stacks.text(entry)

    def symbol(self, name: str) -> str:
        """Return the name of a function, in colour if wanted."""
        return f"{_SYMBOL}{name}{_END}" if self._is_coloured else name

    def texts(self, entry: Entry, arguments: list[Argument]) -> list[str]:
        """Return the arguments of a call, in colour if wanted."""
        if self._descriptors is not None:
            self._descriptors.mark(entry, arguments)
        if not self._is_coloured:
            return [argument.shown for argument in arguments]
        return [
            f"{_STRING}{argument.shown}{_END}" if _is_string(argument.shown) else argument.shown
            for argument in arguments
        ]

    def result(self, leave: Exit, text: str, *, failed: bool) -> str:
        """Return a result, in colour if wanted."""
        if self._descriptors is not None:
            text = self._descriptors.mark_result(leave, text)
        if not self._is_coloured:
            return text
        if failed:
            return f"{_FAILURE}{text}{_END}"
        return f"{_STRING}{text}{_END}" if _is_string(text) else text

    def hidden(self, line: str) -> int:
        """Return how many characters of a line take no room on a terminal."""
        if not self._is_coloured:
            return 0
        return sum(len(code) * line.count(code) for code in _CODES)


def _is_string(text: str) -> bool:
    return text.startswith(('"', 'L"'))
