# SPDX-License-Identifier: Apache-2.0
"""The options of `soscope mem attach`."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.options.process import FORMAT, JSON, pid_option, the_pid
from soscope.options.units import parse_duration
from soscope.options.verb import Verb
from soscope.report.output import Form
from soscope.verbs.display import DEBUG
from soscope.verbs.mem.run import AGGREGATE, BLOCKS, EXACT, FOLLOW, MODE, Mode
from soscope.verbs.options import ONCE, VALUE, Option, Values

USAGE = "soscope mem attach -p PID [--blocks -o REC [options]]"

SHORT = f"""\
usage: {USAGE}

Have a running process count its objects from now on; or record its native blocks.

  -p PID           the process
  --blocks -o REC  record blocks and mappings by stack, until Ctrl-C
  --duration TIME  for so long
  -q               say nothing
  --json           for programs

  soscope mem attach -p 4711
  soscope mem attach -p 4711 --blocks -o run.sosr

soscope mem attach --help lists all options.
"""

DESCRIPTION = """\
Without --blocks, the interpreter of a running process takes note of where each object is made. It
goes on when the command has returned, without soscope; soscope mem snapshot shows the objects,
soscope mem detach ends it.

With --blocks, soscope stays and records each native block and mapping that the process makes from
now on, into REC: until Ctrl-C, for --duration, or to the end of the process. Then everything is
taken out of it again.
"""

EPILOG = """\
exit status: 0 fine, 1 the process cannot be visited, 2 wrong usage, 3 not permitted, 4 no such
process.
"""

_WHERE = "where to"

OPTIONS = [
    DEBUG,
    pid_option(about="it stands still for some milliseconds"),
    BLOCKS,
    FOLLOW,
    Option(
        "--duration",
        dest="duration",
        kind=ONCE,
        metavar="TIME",
        convert=parse_duration,
        group=BLOCKS.group,
        help="record blocks for so long (60s, 5m); without it, until Ctrl-C",
    ),
    MODE,
    AGGREGATE,
    Option(
        "-o",
        "--output",
        dest="output",
        kind=VALUE,
        metavar="REC",
        group=_WHERE,
        help="record blocks in the file REC, in place of what it holds",
    ),
    Option("-q", "--quiet", dest="quiet", group=_WHERE, help="say nothing"),
    JSON,
    FORMAT,
]

VERB = Verb("mem attach", OPTIONS, usage=USAGE, short=SHORT, description=DESCRIPTION, epilog=EPILOG)
make_parser = VERB.make_parser


class MemAttachOptions:
    """The parsed options of `soscope mem attach`. `output` is None to count objects."""

    __slots__ = (
        "aggregate",
        "debug",
        "duration",
        "follow",
        "json",
        "mode",
        "output",
        "pid",
        "quiet",
    )

    def __init__(self, values: Values) -> None:
        """Take the options from the parsed words. Raises UsageError."""
        self.pid = the_pid(values, USAGE)
        self.output: str | None = values.output
        self.duration: int | None = values.duration
        self.mode: Mode = values.mode or Mode(EXACT)
        self.follow: bool = values.follow
        self.aggregate: bool = values.aggregate
        self.quiet: bool = values.quiet
        self.json: Form = values.json
        self.debug: bool = values.debug
        if values.blocks and self.output is None:
            raise UsageError("no file to record blocks in: -o REC is missing")
        is_more = self.output or self.duration or values.mode or self.follow or self.aggregate
        if is_more and not values.blocks:
            raise UsageError("-o and what goes with it are for --blocks")


def parse(arguments: list[str]) -> MemAttachOptions:
    """Parse the words behind `soscope mem attach`. Raises UsageError, or SystemExit for help."""
    values, _ = VERB.read(arguments)
    return MemAttachOptions(values)
