# SPDX-License-Identifier: Apache-2.0
"""The display options: `soscope trace` and `soscope report` take the same."""

from __future__ import annotations

from soscope.options.table import COUNT, LIST, VALUE, Option, Values
from soscope.options.units import parse_count
from soscope.report.trace.display import TIME_EPOCH, Display

_GROUP = "how to show them"

DISPLAY = [
    Option(
        "-t",
        "--time",
        dest="time",
        kind=COUNT,
        group=_GROUP,
        help="begin lines with the time; -tt: with microseconds; -ttt: as seconds since 1970",
    ),
    Option(
        "-T",
        "--durations",
        dest="durations",
        group=_GROUP,
        help="end lines with the time in the call",
    ),
    Option(
        "-s",
        "--string-limit",
        dest="string_limit",
        kind=VALUE,
        metavar="N",
        default=32,
        convert=parse_count,
        group=_GROUP,
        help="bytes of a string to show (32)",
    ),
    Option(
        "--no-demangle",
        dest="no_demangle",
        group=_GROUP,
        help="names of C++ as they are linked",
    ),
    Option(
        "--json",
        dest="json",
        group=_GROUP,
        help="JSON Lines, one for each event; with -c one document",
    ),
    Option(
        "-q", "--quiet", dest="quiet", group=_GROUP, rivals="volume", help="no notes at the end"
    ),
    Option(
        "-v",
        "--verbose",
        dest="verbose",
        group=_GROUP,
        rivals="volume",
        help="more notes at the end",
    ),
]

PROTOTYPES = Option(
    "-F",
    "--prototypes",
    dest="prototypes",
    kind=LIST,
    metavar="FILE",
    group="what to know of functions",
    help="declarations in C of functions to be shown by (repeatable)",
)

DEBUG = Option("--debug", dest="debug", group="", help="show tracebacks of soscope's own errors")


def display_from(values: Values, *, several: bool = False) -> Display:
    """Return what the display options say; `several` processes are traced from the beginning."""
    return Display(
        time=min(values.time, TIME_EPOCH),
        durations=values.durations,
        string_limit=values.string_limit,
        quiet=values.quiet,
        verbose=values.verbose,
        several=several,
        demangles=not values.no_demangle,
    )
