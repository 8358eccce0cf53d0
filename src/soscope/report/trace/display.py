# SPDX-License-Identifier: Apache-2.0
"""How a trace is shown: the display options, and names of functions."""

from __future__ import annotations

import os

from soscope.frames.cppnames import CppNames
from soscope.model.call import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.trace.descriptors import Descriptors
    from soscope.report.output import Output


# The display options of a trace, which trace and report share.

# ltrace's default column for `= result`: five eighths of a terminal of 80 columns.
RESULT_COLUMN = 50

# The time at the beginning of a line.
TIME_NONE = 0
TIME_SECONDS = 1  # -t: 12:34:56
TIME_MICROSECONDS = 2  # -tt: 12:34:56.123456
TIME_EPOCH = 3  # -ttt: 1700000000.123456


# When to use colours.
COLOUR_AUTO = "auto"  # if the output is a terminal
COLOUR_ALWAYS = "always"
COLOUR_NEVER = "never"
COLOURS = (COLOUR_AUTO, COLOUR_ALWAYS, COLOUR_NEVER)


class Display:
    """How to show a trace.

    `time` is one of the TIME_ constants of this module. `relative` means that each line begins
    with the time since the one before. `durations` means that each line ends with the time that
    its call took. `string_limit` is how many bytes of a string or buffer are shown, and
    `elements` how many elements of an array; None stands for all that were kept. `indent` is a
    number of columns for each level of nesting. `column` is the column of the equals sign,
    counted from 1. `places` means that each line has the place of its call. `stacks` is how many
    frames of each call's stack are shown below its line. `paths` means that descriptors are shown
    with their files, which `descriptors` knows. `colour` is one of COLOURS. `quiet` turns notes
    off, and `verbose` turns more of them on. `several` means that there is more than one process
    from the beginning, so each line has its process. `demangles` means that names of C++ are
    demangled, and `tree` that calls are shown nested. `remarks` are remarks of the display for
    the notes.
    """

    __slots__ = (
        "colour",
        "column",
        "demangles",
        "descriptors",
        "durations",
        "elements",
        "indent",
        "paths",
        "places",
        "quiet",
        "relative",
        "remarks",
        "several",
        "stacks",
        "string_limit",
        "time",
        "tree",
        "verbose",
    )

    def __init__(
        self,
        *,
        time: int = TIME_NONE,
        relative: bool = False,
        durations: bool = False,
        string_limit: int = 32,
        elements: int | None = None,
        indent: int = 0,
        column: int = RESULT_COLUMN,
        places: bool = False,
        stacks: int = 0,
        paths: bool = False,
        colour: str = COLOUR_NEVER,
        quiet: bool = False,
        verbose: bool = False,
        several: bool = False,
        demangles: bool = True,
        tree: bool = False,
    ) -> None:
        self.tree = tree
        self.demangles = demangles
        self.remarks: list[str] = []
        self.time = time
        self.relative = relative
        self.durations = durations
        self.string_limit = string_limit
        self.elements = elements
        self.indent = indent
        self.column = column
        self.places = places
        self.stacks = stacks
        self.paths = paths
        self.descriptors: Descriptors | None = None
        self.colour = colour
        self.quiet = quiet
        self.verbose = verbose
        self.several = several

    @property
    def is_adorned(self) -> bool:
        """Return whether lines have more than a plain trace, except for colours."""
        return bool(self.indent or self.places or self.stacks or self.descriptors)


def wants_colour(when: str, output: Output) -> bool:
    """Return whether lines on `output` are coloured. `when` is one of COLOURS."""
    if when == COLOUR_ALWAYS:
        return True
    return (
        when == COLOUR_AUTO
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM", "dumb") != "dumb"
        and output.is_terminal
    )


# Names of functions in a trace. Names of C++ are demangled if wanted.


class FunctionNames:
    """Demangles names if `display` asks for it, and notes in it why that is not possible."""

    __slots__ = ("_display", "_has_said", "_names")

    def __init__(self, display: Display) -> None:
        self._display = display
        self._names = CppNames()
        self._has_said = False

    def full(self, symbol: str) -> str | None:
        """Return a demangled C++ name with its parameters, None for other names."""
        full = self._names.full(symbol)
        self._hear()
        return full

    def shown(self, symbol: str) -> str:
        """Return the name for a table, with its parameters if it is C++."""
        if not self._display.demangles:
            return printable(symbol)
        written = self._names.written(symbol)
        self._hear()
        return printable(written)

    def short(self, symbol: str) -> str:
        """Return the name before arguments, without parameters if it is C++."""
        if not self._display.demangles:
            return printable(symbol)
        short = self._names.short(symbol)
        self._hear()
        return printable(short)

    def _hear(self) -> None:
        if self._names.lacks is not None and not self._has_said:
            self._has_said = True
            self._display.remarks.append(self._names.lacks)
