# SPDX-License-Identifier: Apache-2.0
"""How a trace is shown: the display options, which trace and report share."""

from __future__ import annotations

# ltrace's default column of `= result`: five eighths of a terminal of 80 columns.
RESULT_COLUMN = 50

# What stands at the beginning of a line.
TIME_NONE = 0
TIME_SECONDS = 1  # -t: 12:34:56
TIME_MICROSECONDS = 2  # -tt: 12:34:56.123456
TIME_EPOCH = 3  # -ttt: 1700000000.123456


class Display:
    """How to show a trace.

    `time` is one of the TIME_ constants of this module. `durations`: each line ends with
    the time that its call took. `string_limit`: bytes of a string or buffer to show.
    `quiet`: no notes. `verbose`: more notes. `several`: there is more than one process from the
    beginning, so that each line names its own. `demangles`: names of C++ are shown as they are
    written. `remarks` is what the showing has to say, for the notes.
    """

    __slots__ = (
        "demangles",
        "durations",
        "quiet",
        "remarks",
        "several",
        "string_limit",
        "time",
        "verbose",
    )

    def __init__(
        self,
        *,
        time: int = TIME_NONE,
        durations: bool = False,
        string_limit: int = 32,
        quiet: bool = False,
        verbose: bool = False,
        several: bool = False,
        demangles: bool = True,
    ) -> None:
        self.demangles = demangles
        self.remarks: list[str] = []
        self.time = time
        self.durations = durations
        self.string_limit = string_limit
        self.quiet = quiet
        self.verbose = verbose
        self.several = several
