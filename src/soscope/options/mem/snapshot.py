# SPDX-License-Identifier: Apache-2.0
"""The options of `soscope mem snapshot`."""

from __future__ import annotations

from soscope.options.display import DEBUG
from soscope.options.mem.show import JSON, LIMIT
from soscope.options.process import pid_option, the_pid
from soscope.options.table import Option
from soscope.options.verb import Verb

USAGE = "soscope mem snapshot -p PID [options]"

SHORT = f"""\
usage: {USAGE}

Show the objects of a running process, and where they were made.

  -p PID      the process
  --gc        collect garbage before the look
  --limit N   the N largest rows alone
  --qualname  types with their module and class
  --json      for programs

soscope mem snapshot --help lists all options.
"""

DESCRIPTION = """\
Show which objects a running process has at this moment, by file, line and type. Objects that are
older than soscope mem attach have no file: without it all are, and only types can be told.
"""

EPILOG = """\
The process stands still for the time that it takes to read its objects. An interpreter that runs
no code and waits for nothing cannot be asked.
exit status: 0 fine, 1 the process cannot be visited, 2 wrong usage, 3 not permitted, 4 no such
process.
"""

OPTIONS = [
    DEBUG,
    pid_option(about="it stands still for some milliseconds"),
    Option("--gc", dest="gc", group="what to look at", help="collect garbage once before the look"),
    LIMIT,
    Option(
        "--qualname",
        dest="qualname",
        group=LIMIT.group,
        help="types with module and qualified name",
    ),
    JSON,
]

VERB = Verb(
    "mem snapshot", OPTIONS, usage=USAGE, short=SHORT, description=DESCRIPTION, epilog=EPILOG
)
make_parser = VERB.make_parser


class MemSnapshotOptions:
    """What `soscope mem snapshot` was told."""

    __slots__ = ("collect", "debug", "json", "limit", "pid", "qualname")

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.collect = self.json = self.qualname = self.debug = False
        self.limit: int | None = None


def parse(arguments: list[str]) -> MemSnapshotOptions:
    """Parse the words behind `soscope mem snapshot`. Raises UsageError, or SystemExit for help."""
    values, _ = VERB.read(arguments)
    options = MemSnapshotOptions(the_pid(values, USAGE))
    options.collect, options.json = values.gc, values.json
    options.limit, options.qualname = values.limit, values.qualname
    options.debug = values.debug
    return options
