# SPDX-License-Identifier: Apache-2.0
"""The options of `soscope called`."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.options.process import FORMAT, JSON
from soscope.options.processes import parse_processes
from soscope.options.units import parse_duration
from soscope.options.verb import Verb
from soscope.report.output import Form
from soscope.verbs.display import DEBUG
from soscope.verbs.options import LIST, VALUE, Option

USAGE = "soscope called [options] [IMAGE...] {-p PID | -- COMMAND [ARGUMENT...]}"

SHORT = f"""\
usage: {USAGE}

Say which exported functions of libraries are called from other images, and which never are.

  -e FUNCTION      ask for a function; the exit status is 1 if it was called
  -p PID           in a process that runs already, until Ctrl-C or --duration
  --never          name those, too, that were never called

  soscope called libz.so.1 -- python3 -c 'import gzip'
  soscope called -e 'png_set_*' -p 1234 --duration 60s

soscope called --help lists all options.
"""

DESCRIPTION = """\
Say which exported functions of libraries are called from other images while COMMAND runs, or in a
process, and how often; and which never are: whether the function of an advisory is reached.
IMAGE is the name of a library, or a glob; without one, all libraries are shown that anybody calls.
Every image is watched, at the price of counting. What is seen are calls through slots: a function
may still be called inside its own library, and through pointers; a function whose address somebody
takes, so that such calls are likely, is listed as uncertain and not as never called.
"""

EPILOG = """\
exit status: 0 fine, 1 a function that -e names was called, or a process was not watched to the
end, 2 wrong usage, soscope failed or COMMAND cannot be watched, 3 not permitted, 4 no such
process; 126 COMMAND cannot be executed, 127 it was not found. How COMMAND ended is a note.
"""

_WHAT = "what to show"

OPTIONS = [
    DEBUG,
    Option(
        "-p",
        "--pid",
        dest="pids",
        kind=LIST,
        metavar="PID",
        convert=parse_processes,
        group=_WHAT,
        help="a process that runs already, by number or name; several: -p A -p B, -p A,B",
    ),
    Option(
        "-e",
        "--select",
        dest="select",
        kind=LIST,
        metavar="FUNCTION",
        group=_WHAT,
        help="a function, a glob, or several with commas between them: ask whether it is called",
    ),
    Option("-f", "--follow-forks", dest="follow", group=_WHAT, help="children, too"),
    Option(
        "--duration",
        dest="duration",
        kind=VALUE,
        metavar="TIME",
        convert=parse_duration,
        group=_WHAT,
        help="watch for TIME; the command goes on",
    ),
    Option("--never", dest="never", group=_WHAT, help="name the functions that were never called"),
    JSON,
    FORMAT,
    Option("-q", "--quiet", dest="quiet", group=JSON.group, help="no notes at the end"),
]

VERB = Verb(
    "called",
    OPTIONS,
    usage=USAGE,
    short=SHORT,
    description=DESCRIPTION,
    epilog=EPILOG,
    argument=("IMAGE", "a library, by name or glob (all that are called)"),
    most=None,
)
make_parser = VERB.make_parser


class CalledOptions:
    """The parsed options of `soscope called`. `select` are globs of functions."""

    __slots__ = (
        "command",
        "debug",
        "duration_ns",
        "follow",
        "images",
        "json",
        "never",
        "pids",
        "quiet",
        "select",
    )

    def __init__(self, images: list[str], command: list[str]) -> None:
        self.images = images
        self.command = command
        self.pids: list[int] = []
        self.select: list[str] = []
        self.json = Form()
        self.follow = self.never = self.quiet = self.debug = False
        self.duration_ns: int | None = None


def parse(arguments: list[str]) -> CalledOptions:
    """Parse the words behind `soscope called`. Raises UsageError, or SystemExit for help."""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    values, images = VERB.read(arguments[:at])
    options = CalledOptions(images, arguments[at + 1 :])
    options.pids = [pid for some in values.pids for pid in some]
    if options.pids and options.command:
        raise UsageError("-p PID and a command are two things to watch", hint=f"usage: {USAGE}")
    if not options.pids and not options.command:
        hint = f"usage: {USAGE}"
        if images:
            hint = f"'--' stands in front of it: soscope called -- {' '.join(images)}"
        raise UsageError("no command to run", hint=hint)
    options.select = [glob for word in values.select for glob in word.split(",") if glob]
    options.follow = values.follow
    options.json, options.never, options.quiet = values.json, values.never, values.quiet
    options.duration_ns = values.duration
    options.debug = values.debug
    return options
