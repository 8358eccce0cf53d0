# SPDX-License-Identifier: Apache-2.0
"""The options of `soscope trace`: the words on the command line, and what they become."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.instruments.trace import settings
from soscope.instruments.trace.settings import TraceSettings
from soscope.options.display import DEBUG, DISPLAY, display_from
from soscope.options.process import pid_option
from soscope.options.selection import selection_options
from soscope.options.table import VALUE, Option, Values, joined, names, scan
from soscope.options.units import parse_duration, parse_size, size_text
from soscope.report.display import Display

TYPE_CHECKING = False
if TYPE_CHECKING:  # argparse is for help and mistakes
    from soscope.options.parser import VerbParser

USAGE = "soscope trace [options] {[--] COMMAND [ARGUMENT...] | -p PID}"

SHORT = f"""\
usage: {USAGE}

Run COMMAND and show the calls it makes into shared libraries; -p: of a process.

  -p PID        a process that runs already; Ctrl-C ends the trace, not the process
  -e EXPR       only these calls: -e 'open*,read', -e malloc@libfoo.so, -e '/SSL_.*/'
  --from IMAGE  calls made by this image; all: by every image (else the program's own)
  -l IMAGE      calls into this image
  -c            count: calls, errors and time by function
  -T            the time each call took
  -f            follow children
  -o FILE       write to FILE

  soscope trace -T -e 'open*,read,close' -- cat /etc/hostname

soscope trace --help lists all options.
"""

DESCRIPTION = """\
Run COMMAND and show the calls that cross the boundary of its shared libraries, with
arguments and results, as they happen (or counted, with -c). The command's own output,
exit status and signals stay what they are; the trace goes to standard error, or to FILE
with -o.
"""

EPILOG = """\
With -p PID, a process that runs already is traced, until --duration is over, Ctrl-C or
SIGTERM: then everything in it is put back as it was. soscope detach -p PID does that where
soscope itself was killed.

EXPR is ltrace's filter expression: rules [+-]SYMBOL@CALLER one after the other; the last
one that matches a call decides. Patterns are globs on the whole name, or POSIX basic
regular expressions between slashes; a comma separates rules like a plus. Behind the @
stands the image that CALLS (MAIN is the program); -l names the image that is called.
Without -e, --from and -l, the calls of the program itself are shown.

IMAGE is a glob on the soname (or the file name, where there is none), a path, a /regex/,
MAIN or all. SIZE takes k, M, G and KiB, MiB, GiB (1024), kB, MB, GB (1000). TIME takes
ms, s, m, h.

exit status: that of COMMAND, or soscope dies of the signal that killed it; 125 if soscope
itself failed or was misused, 126 if COMMAND cannot be executed, 127 if it was not found.

examples:
  soscope trace ls                                  what ls calls
  soscope trace -c --from all -- python3 -c 'import json'
  soscope trace -e 'malloc,free-@libc.so*' -- prog  but not libc's own
  soscope trace --record run.sosr -- prog           then: soscope report run.sosr
"""


class TraceOptions:
    """What `soscope trace` was told.

    `settings` is for the instrument, `display` for the report. `output` is the argument
    of -o (None: standard error), `json` asks for JSON, `prints` says whether anything but
    notes is to be printed: --record alone prints nothing.
    """

    __slots__ = ("display", "json", "output", "prints", "settings")

    def __init__(
        self,
        trace: TraceSettings,
        display: Display,
        *,
        output: str | None,
        json: bool,
        prints: bool,
    ) -> None:
        self.settings = trace
        self.display = display
        self.output = output
        self.json = json
        self.prints = prints


_WHICH = "which calls"
_WHAT = "what to keep of them"
_WHERE = "where to"

_PID = pid_option(group=_WHICH, about="it runs already, and is traced instead of a command")

OPTIONS = [
    DEBUG,
    _PID,
    *selection_options(
        _WHICH,
        select="calls that this filter expression chooses (repeatable: one of them)",
        callers="calls made by this image; all: every image",
        callees="calls to functions of this image",
    ),
    Option("-f", "--follow-forks", dest="follow", group=_WHICH, help="children, too"),
    Option(
        "-c",
        "--summary",
        dest="summary",
        group=_WHAT,
        rivals="mode",
        help="calls, errors and times by function",
    ),
    Option(
        "--count-only",
        dest="count_only",
        group=_WHAT,
        rivals="mode",
        help="calls by function: the cheapest",
    ),
    Option(
        "--entry-only",
        dest="entry_only",
        group=_WHAT,
        rivals="mode",
        help="no results and durations: half the cost",
    ),
    Option(
        "--duration",
        dest="duration",
        kind=VALUE,
        metavar="TIME",
        convert=parse_duration,
        group=_WHAT,
        help="stop recording after TIME; the command goes on",
    ),
    *DISPLAY,
    Option(
        "-o",
        "--output",
        dest="output",
        kind=VALUE,
        metavar="FILE",
        group=_WHERE,
        help="write to FILE; -: standard output",
    ),
    Option(
        "--record",
        dest="record",
        kind=VALUE,
        metavar="FILE",
        group=_WHERE,
        help="keep a recording (and print nothing, without -o)",
    ),
    Option(
        "--buffer",
        dest="buffer",
        kind=VALUE,
        metavar="SIZE",
        default=settings.DEFAULT_BUFFER,
        convert=parse_size,
        group=_WHERE,
        help=f"memory between command and soscope ({size_text(settings.DEFAULT_BUFFER)})",
    ),
    Option(
        "--limit",
        dest="limit",
        kind=VALUE,
        metavar="SIZE",
        convert=parse_size,
        group=_WHERE,
        help="stop recording after SIZE bytes; the command goes on",
    ),
    Option(
        "--when-full",
        dest="when_full",
        kind=VALUE,
        metavar="POLICY",
        choices=settings.WHEN_FULL,
        group=_WHERE,
        help="when the buffer is full: block (the command waits; not with -p), drop (with -p),"
        " overwrite, stop",
    ),
]


def make_parser() -> VerbParser:
    """Make argparse's parser of `soscope trace`."""
    from argparse import REMAINDER

    from soscope.options.parser import VerbParser

    parser = VerbParser(
        "trace", OPTIONS, usage=USAGE, short=SHORT, description=DESCRIPTION, epilog=EPILOG
    )
    parser.add_argument("command", nargs=REMAINDER, metavar="COMMAND", help="what to run")
    return parser


def parse(arguments: list[str]) -> TraceOptions:
    """Parse the words behind `soscope trace`. Raises UsageError, or SystemExit for help."""
    scanned = scan(OPTIONS, arguments)
    if scanned is not None:
        values, command = scanned
    else:
        values, command = parse_slowly(arguments)
    _check_target(values, command)
    _check_sizes(values.buffer, values.string_limit)
    mode = settings.MODE_TRACE
    if values.summary:
        mode = settings.MODE_SUMMARY
    elif values.count_only:
        mode = settings.MODE_COUNT
    prints = values.record is None or values.output is not None
    return TraceOptions(
        TraceSettings(
            command,
            select=values.select,
            callers=values.callers,
            callees=values.callees,
            mode=mode,
            follow=values.follow,
            entry_only=values.entry_only,
            string_limit=values.string_limit,
            duration_ns=values.duration,
            buffer=values.buffer,
            limit=values.limit,
            when_full=values.when_full or ("block" if values.pid is None else "drop"),
            record=values.record,
            pid=values.pid,
            wants_events=prints and mode == settings.MODE_TRACE,
            debug=values.debug,
        ),
        display_from(values),
        output=values.output,
        json=values.json,
        prints=prints,
    )


def names_process(arguments: list[str]) -> bool:
    """Say whether words, which may be wrong, are about a process and not a command."""
    return names(OPTIONS, arguments, _PID)


def parse_slowly(arguments: list[str]) -> tuple[Values, list[str]]:
    """Parse with argparse, which prints help and knows what is wrong."""
    values = Values(OPTIONS)
    make_parser().parse_args(joined(OPTIONS, arguments), values)
    command: list[str] = values.command
    if command[:1] == ["--"]:  # REMAINDER keeps the one that ends the options
        command = command[1:]
    return values, command


def _check_target(values: Values, command: list[str]) -> None:
    """Make sure that there is one thing to trace."""
    if values.pid is None:
        if not command:
            raise UsageError("no command to run", hint=f"usage: {USAGE}")
        return
    if command:
        raise UsageError("-p PID and a command are two things to trace", hint=f"usage: {USAGE}")


def _check_sizes(buffer: int, string_limit: int) -> None:
    """Refuse sizes that cannot work."""
    least, most = settings.LEAST_BUFFER, settings.MOST_BUFFER
    if not least <= buffer <= most:
        raise UsageError(
            f"--buffer: {size_text(buffer)} is not between {size_text(least)} and {size_text(most)}"
        )
    if string_limit > settings.MOST_STRING_LIMIT:
        raise UsageError(f"-s: {string_limit} is more than {settings.MOST_STRING_LIMIT}")
