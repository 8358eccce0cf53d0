# SPDX-License-Identifier: Apache-2.0
"""How a trace is printed: display options, function names, columns of the `-c` table."""

from __future__ import annotations

import os

from soscope.frames.cppnames import CppNames
from soscope.model.call import printable
from soscope.model.record import Record, fresh

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


class Display(Record, kw_only=True):
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

    time: int = TIME_NONE
    relative: bool = False
    durations: bool = False
    string_limit: int = 32
    elements: int | None = None
    indent: int = 0
    column: int = RESULT_COLUMN
    places: bool = False
    stacks: int = 0
    paths: bool = False
    colour: str = COLOUR_NEVER
    quiet: bool = False
    verbose: bool = False
    several: bool = False
    demangles: bool = True
    tree: bool = False
    remarks: list[str] = fresh(list)
    descriptors: Descriptors | None = None

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


# Settings of the table of `-c`: rows, order and columns, which trace and report share.

BY_SYMBOL, BY_IMAGE, BY_CALLER = "symbol", "image", "caller"
GROUPS = (BY_SYMBOL, BY_IMAGE, BY_CALLER)

TIME, SECONDS, USECS, CALLS, ERRORS = "time", "seconds", "usecs", "calls", "errors"
TOTAL, MIN, MAX, CALLER, CALLEE, NAME = "total", "min", "max", "caller", "callee", "name"
P50, P90, P99 = "p50", "p90", "p99"
RATIO = "ratio"
PERCENTILES = {P50: 50, P90: 90, P99: 99}
TIMES = (TIME, SECONDS, USECS)  # own times, or inclusive times
WHOLE_TIMES = (TIME, SECONDS, TOTAL)  # times of all calls together
COLUMNS = (TIME, SECONDS, USECS, CALLS, RATIO, ERRORS, TOTAL, MIN, P50, P90, P99, MAX, CALLER,
           CALLEE, NAME)  # fmt: skip

# Names in strace, and the titles of the columns.
ALIASES = {
    "% time": TIME,
    "time-percent": TIME,
    "self": SECONDS,
    "total-time": SECONDS,
    "total_time": SECONDS,
    "usecs/call": USECS,
    "avg-time": USECS,
    "avg_time": USECS,
    "count": CALLS,
    "error": ERRORS,
    "min-time": MIN,
    "min_time": MIN,
    "shortest": MIN,
    "max-time": MAX,
    "max_time": MAX,
    "longest": MAX,
    "image": CALLEE,
    "function": NAME,
    "symbol": NAME,
    "syscall": NAME,
}


class TableSettings(Record, kw_only=True):
    """How to show a table.

    `sort` is a column, "" for the usual order. `by` is one of GROUPS; "" stands for a row for
    each function, or for each pair of images if all callers were asked for. `columns` are the
    columns to show, in order; () stands for the usual ones. `top` is a number of rows, with one
    more for the rest, or None for all rows. With `inclusive`, times contain nested
    calls. With `histogram`, the table has distributions of durations. With `tree`, a row is a
    call path, not a function. With `graph`, a row is a pair of images. `is_drawn_alone` means
    that only a picture of the graph is made, no text.
    """

    sort: str = ""
    by: str = ""
    columns: tuple[str, ...] = ()
    top: int | None = None
    inclusive: bool = False
    histogram: bool = False
    tree: bool = False
    graph: bool = False
    is_drawn_alone: bool = False

    @property
    def needs_calls(self) -> bool:
        """Return whether the table needs single calls, not only sums."""
        return self.tree or self.needs_durations

    @property
    def needs_durations(self) -> bool:
        """Return whether the table needs the duration of each call."""
        return self.histogram or any(name in PERCENTILES for name in (*self.columns, self.sort))
