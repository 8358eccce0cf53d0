# SPDX-License-Identifier: Apache-2.0
"""The options of `soscope mem live`."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.options.process import pid_option, the_pid
from soscope.options.shown import FORMAT, JSON, LIMIT
from soscope.options.units import parse_duration
from soscope.options.verb import Verb
from soscope.report.output import Form
from soscope.verbs.display import DEBUG
from soscope.verbs.options import ONCE, Option, Values

_EVERY = 2_000_000_000  # nanoseconds

USAGE = "soscope mem live [options] -p PID"

SHORT = f"""\
usage: {USAGE}

Show which objects of a running Python or Ruby process become more, a minute, by file, line and
type; of other processes, which native blocks do, by where they are made.

  -p PID        the process
  --blocks      native blocks, of Python or Ruby too
  --for TIME    look twice, with this time between, and print once
  --every TIME  refresh so often (2s); Ctrl-C ends it
  --gc          collect garbage before each look
  --json        for programs, with --for

  soscope mem live -p 4711
  soscope mem live -p 4711 --for 60s

soscope mem live --help lists all options.
"""

DESCRIPTION = """\
Has the interpreter of a process take note of where each object is made, as soscope mem attach does,
and shows what grows: at a terminal in one place, else one table after the other. At the end the
process counts no more, unless it did so before.

Where there is no interpreter, or with --blocks, soscope records the native blocks and mappings that
the process makes meanwhile, and shows which of them stay; then it takes itself out again.
"""

EPILOG = """\
The process stands still for each look at objects, for the time that it takes to read them. Blocks
that it had before are not known.
exit status: 0 fine, 1 the process cannot be visited, 2 wrong usage, 3 not permitted, 4 no such
process, or it has ended meanwhile.
"""

_LOOK = "what to look at"

OPTIONS = [
    DEBUG,
    pid_option(about="it stands still for some milliseconds at each look"),
    Option(
        "--blocks",
        dest="blocks",
        group=_LOOK,
        help="native blocks and mappings; without it objects, if there are any",
    ),
    Option("--gc", dest="gc", group=_LOOK, help="collect garbage before each look"),
    Option(
        "--for",
        dest="duration",
        kind=ONCE,
        metavar="TIME",
        convert=parse_duration,
        group=_LOOK,
        help="look twice, with this time between (60s, 5m), and print once",
    ),
    Option(
        "--every",
        dest="every",
        kind=ONCE,
        metavar="TIME",
        convert=parse_duration,
        group=_LOOK,
        help="refresh so often (2s)",
    ),
    LIMIT,
    Option(
        "--qualname",
        dest="qualname",
        group=LIMIT.group,
        help="types with module and qualified name",
    ),
    JSON,
    FORMAT,
]

VERB = Verb("mem live", OPTIONS, usage=USAGE, short=SHORT, description=DESCRIPTION, epilog=EPILOG)
make_parser = VERB.make_parser


class MemLiveOptions:
    """The parsed options of `soscope mem live`.

    `duration` (None if it is to the end) and `every` are in ns.
    """

    __slots__ = (
        "blocks",
        "collect",
        "debug",
        "duration",
        "every",
        "json",
        "limit",
        "pid",
        "qualname",
    )

    def __init__(self, values: Values) -> None:
        """Take the options from the parsed words. Raises UsageError."""
        self.pid = the_pid(values, USAGE)
        self.duration: int | None = values.duration
        if self.duration is not None and values.every is not None:
            raise UsageError("--for prints once, and --every again and again")
        if self.duration is None and values.json:
            raise UsageError("--json is for --for TIME, which prints once")
        self.every: int = values.every or _EVERY
        self.blocks: bool = values.blocks
        self.collect: bool = values.gc
        self.json: Form = values.json
        self.limit: int | None = values.rows
        self.qualname: bool = values.qualname
        self.debug: bool = values.debug
        if self.blocks and self.is_about_objects:
            raise UsageError("--gc and --qualname are about objects, and --blocks is not")

    @property
    def is_about_objects(self) -> bool:
        """Return whether an option is given that only applies to objects."""
        return self.collect or self.qualname


def parse(arguments: list[str]) -> MemLiveOptions:
    """Parse the words behind `soscope mem live`. Raises UsageError, or SystemExit for help."""
    values, _ = VERB.read(arguments)
    return MemLiveOptions(values)
