# SPDX-License-Identifier: Apache-2.0
"""The options of `soscope trace`: the words on the command line, and what they become."""

from __future__ import annotations

from argparse import REMAINDER

from soscope.errors import UsageError
from soscope.instruments.trace import settings
from soscope.instruments.trace.settings import TraceSettings
from soscope.options.display import add_display_options, display_from
from soscope.options.parser import VerbParser
from soscope.options.units import parse_duration, parse_size, size_text
from soscope.report.display import Display

USAGE = "soscope trace [options] [--] COMMAND [ARGUMENT…]"

SHORT = f"""\
usage: {USAGE}

Run COMMAND and show the calls it makes into shared libraries.

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
        self, trace: TraceSettings, display: Display, *, output: str | None, json: bool
    ) -> None:
        self.settings = trace
        self.display = display
        self.output = output
        self.json = json
        self.prints = trace.record is None or output is not None


def make_parser() -> VerbParser:
    """Make the parser of `soscope trace`."""
    parser = VerbParser("trace", usage=USAGE, short=SHORT, description=DESCRIPTION, epilog=EPILOG)
    which = parser.add_argument_group("which calls")
    which.add_argument(
        "-e",
        "--select",
        action="append",
        default=[],
        metavar="EXPR",
        help="calls that this filter expression chooses (repeatable: one of them)",
    )
    which.add_argument(
        "--from",
        action="append",
        default=[],
        dest="callers",
        metavar="IMAGE",
        help="calls made by this image; all: every image",
    )
    which.add_argument(
        "-l",
        "--to",
        action="append",
        default=[],
        dest="callees",
        metavar="IMAGE",
        help="calls to functions of this image",
    )
    which.add_argument("-f", "--follow-forks", action="store_true", help="children, too")
    what = parser.add_argument_group("what to keep of them")
    mode = what.add_mutually_exclusive_group()
    mode.add_argument(
        "-c", "--summary", action="store_true", help="calls, errors and times by function"
    )
    mode.add_argument("--count-only", action="store_true", help="calls by function: the cheapest")
    mode.add_argument(
        "--entry-only", action="store_true", help="no results and durations: half the cost"
    )
    what.add_argument(
        "--duration",
        type=parse_duration,
        metavar="TIME",
        help="stop recording after TIME; the command goes on",
    )
    add_display_options(parser)
    where = parser.add_argument_group("where to")
    where.add_argument("-o", "--output", metavar="FILE", help="write to FILE; -: standard output")
    where.add_argument(
        "--record", metavar="FILE", help="keep a recording (and print nothing, without -o)"
    )
    where.add_argument(
        "--buffer",
        type=parse_size,
        default=settings.DEFAULT_BUFFER,
        metavar="SIZE",
        help=f"memory between command and soscope ({size_text(settings.DEFAULT_BUFFER)})",
    )
    where.add_argument(
        "--limit",
        type=parse_size,
        metavar="SIZE",
        help="stop recording after SIZE bytes; the command goes on",
    )
    where.add_argument(
        "--when-full",
        choices=settings.WHEN_FULL,
        default="block",
        metavar="POLICY",
        help="when the buffer is full: block (the command waits), drop, overwrite, stop",
    )
    parser.add_argument("command", nargs=REMAINDER, metavar="COMMAND", help="what to run")
    return parser


def parse(arguments: list[str]) -> TraceOptions:
    """Parse the words behind `soscope trace`. Raises UsageError, or SystemExit for help."""
    words = make_parser().parse_args(arguments)
    command: list[str] = words.command
    if command[:1] == ["--"]:  # REMAINDER keeps the one that ends the options
        command = command[1:]
    if not command:
        raise UsageError("no command to run", hint=f"usage: {USAGE}")
    _check_sizes(words.buffer, words.string_limit)
    mode = settings.MODE_TRACE
    if words.summary:
        mode = settings.MODE_SUMMARY
    elif words.count_only:
        mode = settings.MODE_COUNT
    options = TraceOptions(
        TraceSettings(
            command,
            select=words.select,
            callers=words.callers,
            callees=words.callees,
            mode=mode,
            follow=words.follow_forks,
            entry_only=words.entry_only,
            string_limit=words.string_limit,
            duration_ns=words.duration,
            buffer=words.buffer,
            limit=words.limit,
            when_full=words.when_full,
            record=words.record,
            debug=words.debug,
        ),
        display_from(words),
        output=words.output,
        json=words.json,
    )
    options.settings.wants_events = options.prints and mode == settings.MODE_TRACE
    return options


def _check_sizes(buffer: int, string_limit: int) -> None:
    """Refuse sizes that cannot work."""
    least, most = settings.LEAST_BUFFER, settings.MOST_BUFFER
    if not least <= buffer <= most:
        raise UsageError(
            f"--buffer: {size_text(buffer)} is not between {size_text(least)} and {size_text(most)}"
        )
    if string_limit > settings.MOST_STRING_LIMIT:
        raise UsageError(f"-s: {string_limit} is more than {settings.MOST_STRING_LIMIT}")
