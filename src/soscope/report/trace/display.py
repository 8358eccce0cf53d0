# SPDX-License-Identifier: Apache-2.0
"""The display options of a trace, which trace and report share."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.trace.descriptors import Descriptors
    from soscope.report.output import Output

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
