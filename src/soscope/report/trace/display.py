# SPDX-License-Identifier: Apache-2.0
"""How a trace is shown: the display options, which trace and report share."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.trace.descriptors import Descriptors
    from soscope.report.output import Output

# ltrace's default column of `= result`: five eighths of a terminal of 80 columns.
RESULT_COLUMN = 50

# What stands at the beginning of a line.
TIME_NONE = 0
TIME_SECONDS = 1  # -t: 12:34:56
TIME_MICROSECONDS = 2  # -tt: 12:34:56.123456
TIME_EPOCH = 3  # -ttt: 1700000000.123456


# When to use colours.
COLOUR_AUTO = "auto"  # on a terminal
COLOUR_ALWAYS = "always"
COLOUR_NEVER = "never"
COLOURS = (COLOUR_AUTO, COLOUR_ALWAYS, COLOUR_NEVER)


class Display:
    """How to show a trace.

    `time` is one of the TIME_ constants of this module, `relative`: each line begins with the
    time since the one before. `durations`: each line ends with the time that its call took.
    `string_limit`: bytes of a string or buffer to show; `elements`: elements of an array, None:
    all that were kept. `indent`: columns for each call around a call. `column` is that of the
    equals sign, counted from 1. `places`: each line names where it was called from. `stacks`: as
    many frames of each call's stack are shown below its line, 0: none. `paths`: descriptors are
    shown with what they are of, which `descriptors` know. `colour` is one of COLOURS. `quiet`: no
    notes. `verbose`: more notes. `several`: there is more than one process from the beginning, so
    that each line names its own. `demangles`: names of C++ are shown as they are written. `tree`:
    calls are shown nested in calls. `remarks` is what the showing has to say, for the notes.
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
        """Return whether lines have what a plain trace has not, colours aside."""
        return bool(self.indent or self.places or self.stacks or self.descriptors)


def wants_colour(when: str, output: Output) -> bool:
    """Return whether lines on `output` are to be coloured; `when` is one of COLOURS."""
    if when == COLOUR_ALWAYS:
        return True
    return (
        when == COLOUR_AUTO
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM", "dumb") != "dumb"
        and output.is_terminal
    )
