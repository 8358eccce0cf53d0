# SPDX-License-Identifier: Apache-2.0
"""The display options, which `soscope trace` and `soscope report` share."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.options.form import format_option
from soscope.options.otherwise import parse_elements, parse_indent
from soscope.options.units import parse_count
from soscope.options.views import is_graph
from soscope.report.trace.display import COLOUR_AUTO, COLOURS, RESULT_COLUMN, TIME_EPOCH, Display
from soscope.verbs.options import COUNT, LIST, VALUE, Option, Values

_GROUP = "how to show them"
_MOST_COLUMNS = 10_000
MOST_FRAMES = 64  # native frames, and as many of an interpreter

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
        "-r",
        "--relative",
        dest="relative",
        group=_GROUP,
        help="begin lines with the time since the one before",
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
        "-A",
        "--elements",
        dest="elements",
        kind=VALUE,
        metavar="N",
        convert=parse_elements,
        group=_GROUP,
        help="elements of an array to show (all that were kept)",
    ),
    Option(
        "-n",
        "--indent",
        dest="indent",
        kind=VALUE,
        metavar="N",
        default=0,
        convert=parse_indent,
        group=_GROUP,
        help="indent by N columns for each call that a call is inside of",
    ),
    Option(
        "-a",
        "--align",
        dest="column",
        kind=VALUE,
        metavar="COLUMN",
        convert=parse_count,
        group=_GROUP,
        help=f"where the equals sign stands ({RESULT_COLUMN})",
    ),
    Option(
        "-i",
        "--instruction-pointer",
        dest="places",
        group=_GROUP,
        help="begin lines with where the call returns to: [image+0x1234]",
    ),
    Option(
        "-k",
        "--stack-traces",
        dest="has_stacks",
        group=_GROUP,
        help="below each line, the stack of the call: native, Python's and Ruby's frames",
    ),
    Option(
        "--stack-depth",
        dest="stack_depth",
        kind=VALUE,
        metavar="N",
        convert=parse_count,
        group=_GROUP,
        help=f"frames of a stack at most, with -k ({MOST_FRAMES})",
    ),
    Option(
        "--color",
        dest="colour",
        kind=VALUE,
        metavar="WHEN",
        default=COLOUR_AUTO,
        choices=COLOURS,
        group=_GROUP,
        help="colours: auto (on a terminal, without NO_COLOR), always, never",
    ),
    Option(
        "--json",
        dest="json",
        group=_GROUP,
        help="JSON Lines, one for each event; with -c one document",
    ),
    format_option(_GROUP),
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

PATHS = Option(
    "-y",
    "--decode-fds",
    dest="show_paths",
    kind=COUNT,
    group=_GROUP,
    help="what descriptors are of: 3</etc/hostname>",
)

DEBUG = Option("--debug", dest="debug", group="", help="show tracebacks of soscope's own errors")


def stacks_from(values: Values) -> int:
    """Return how many frames of a stack are wanted, 0 for none. Raises UsageError."""
    has_stacks, depth = getattr(values, "has_stacks", False), getattr(values, "stack_depth", None)
    if has_stacks and (values.summary or getattr(values, "count_only", False)):
        if is_graph(values):
            raise UsageError(
                "-k shows the stack of each call, and a graph has none",
                hint="-k --record FILE, then: soscope report --graph FILE",
            )
        raise UsageError(
            "-k shows the stack of each call, and a table has none",
            hint="-C -k shows calls and table",
        )
    if has_stacks and values.json.is_markdown:
        raise UsageError(
            "-k shows the stack of each call, and a page of --format md has none",
            hint="--json has it as stack",
        )
    if depth is None:
        return MOST_FRAMES if has_stacks else 0
    if not has_stacks:
        raise UsageError("--stack-depth is about stacks", hint="add -k")
    if not 1 <= depth <= MOST_FRAMES:
        raise UsageError(f"--stack-depth: {depth} is not between 1 and {MOST_FRAMES}")
    return int(depth)


def display_from(values: Values, *, several: bool = False) -> Display:
    """Return the display settings. `several`: more than one process is traced from the start."""
    column = values.column
    if column is None:
        column = 0 if getattr(values, "tree", False) else RESULT_COLUMN
    return Display(
        time=min(values.time, TIME_EPOCH),
        relative=values.relative,
        durations=values.durations,
        string_limit=values.string_limit,
        elements=values.elements,
        indent=min(values.indent, _MOST_COLUMNS),
        column=min(column, _MOST_COLUMNS),
        places=values.places,
        stacks=stacks_from(values),
        paths=bool(getattr(values, PATHS.dest, 0)),
        colour=values.colour,
        quiet=values.quiet,
        verbose=values.verbose,
        several=several,
        demangles=not values.no_demangle,
        tree=getattr(values, "tree", False),
    )
