# SPDX-License-Identifier: Apache-2.0
"""The options of `soscope mem snapshot`."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.options.mem.leaks import FOR
from soscope.options.process import pid_option, the_pid
from soscope.options.shown import FORMAT, JSON, LIMIT
from soscope.options.verb import Verb
from soscope.report.output import Form
from soscope.verbs.display import DEBUG
from soscope.verbs.options import Option, Values

USAGE = "soscope mem snapshot -p PID [options]"

SHORT = f"""\
usage: {USAGE}

Show the objects of a running process, and where they were made; or its native blocks.

  -p PID      the process
  --blocks    native blocks that it makes meanwhile, and keeps
  --for TIME  with --blocks: for so long (10s)
  --gc        collect garbage before the look
  --limit N   the N largest rows alone
  --qualname  types with their module and class
  --json      for programs

soscope mem snapshot --help lists all options.
"""

DESCRIPTION = """\
Show which objects a running process has at this moment, by file, line and type. Objects that are
older than soscope mem attach have no file: without it all are, and only types can be told.

With --blocks, soscope goes into the process and records what it makes of native blocks and
mappings for the time of --for; at the end those are shown that are still there, by stack. Blocks
that are older are not known. A process without Python or Ruby has blocks alone: they are shown
without --blocks, too.
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
    Option(
        "--blocks",
        dest="blocks",
        group="what to look at",
        help="native blocks that are made meanwhile and stay, by stack",
    ),
    FOR,
    Option("--gc", dest="gc", group="what to look at", help="collect garbage once before the look"),
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

VERB = Verb(
    "mem snapshot", OPTIONS, usage=USAGE, short=SHORT, description=DESCRIPTION, epilog=EPILOG
)
make_parser = VERB.make_parser


_BLOCKS_FOR = 10_000_000_000  # nanoseconds


class MemSnapshotOptions:
    """The parsed options of `soscope mem snapshot`. `duration` is for blocks, in ns."""

    __slots__ = (
        "blocks",
        "collect",
        "debug",
        "duration",
        "is_about_objects",
        "json",
        "limit",
        "pid",
        "qualname",
    )

    def __init__(self, values: Values) -> None:
        """Take the options from the parsed words. Raises UsageError."""
        self.pid = the_pid(values, USAGE)
        self.blocks: bool = values.blocks
        self.duration: int = values.duration or _BLOCKS_FOR
        self.collect: bool = values.gc
        self.json: Form = values.json
        self.limit: int | None = values.rows
        self.qualname: bool = values.qualname
        self.debug: bool = values.debug
        self.is_about_objects = self.collect or self.qualname
        if self.blocks and self.is_about_objects:
            raise UsageError("--gc and --qualname are about objects, and --blocks is not")
        if values.duration is not None and not self.blocks:
            raise UsageError("--for is for --blocks: objects are seen at one moment")


def parse(arguments: list[str]) -> MemSnapshotOptions:
    """Parse the words behind `soscope mem snapshot`. Raises UsageError, or SystemExit for help."""
    values, _ = VERB.read(arguments)
    return MemSnapshotOptions(values)
