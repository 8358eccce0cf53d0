# SPDX-License-Identifier: Apache-2.0
"""`soscope mem leaks`: show the native blocks that were never freed."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.verbs.main import Invocation
from soscope.verbs.mem.show import ShowOptions
from soscope.verbs.options import (
    DEBUG,
    FORMAT,
    JSON,
    ONCE,
    ROWS_LIMIT,
    Option,
    Values,
    Verb,
    duration_option,
    parse_duration,
    pid_option,
    table,
)

_SECOND = 1_000_000_000
_OLDER = 60 * _SECOND  # default age of blocks in a running process

USAGE = "soscope mem leaks [options] REC | -p PID"

SHORT = f"""\
usage: {USAGE}

Show the native blocks that were never freed, by stack: at the end of a recording that soscope mem
run -o REC has made, or in a running process.

  -p
  --older
  --duration
  --json
  --limit

  soscope mem leaks run.sosr
  soscope mem leaks -p 4711 --older 60s

soscope mem leaks --help lists all options.
"""

DESCRIPTION = """\
Show the native blocks and mappings that were alive at the end of a recording. With -p, record the
blocks that a running process makes from now on. At the end, show the blocks that are older than
--older and still exist, and take everything out of the process again.
"""

EPILOG = """\
exit status: 0 fine, 1 REC is no recording of soscope mem or is not complete, or the process cannot
be visited, 2 wrong usage, 3 not permitted, 4 no such process.
"""

FOR = duration_option("what to look at", "watch the process for so long (10s, 5m)", kind=ONCE)

OPTIONS = table(
    DEBUG,
    pid_option(about="its blocks are recorded meanwhile"),
    "what to look at",
    Option(
        "--older",
        kind=ONCE,
        metavar="TIME",
        convert=parse_duration,
        help="blocks that are older than this at the end (60s, 5m); with -p 60s without it",
    ),
    FOR,
    JSON,
    FORMAT,
    ROWS_LIMIT,
)

VERB = Verb(
    "mem leaks",
    OPTIONS,
    usage=USAGE,
    short=SHORT,
    description=DESCRIPTION,
    epilog=EPILOG,
    argument=("REC", "the recording"),
    most=1,
)


class MemLeaksOptions(ShowOptions):
    """The parsed options of `soscope mem leaks`. `pid` is None for a recording.

    `older` and `duration` are in ns. `older` is 0 for blocks of any age.
    """

    __slots__ = ("duration", "older", "pid")

    def __init__(self, values: Values, paths: list[str]) -> None:
        """Take the options from the parsed words. Raises UsageError."""
        if values.pid is None and not paths:
            raise UsageError("neither a recording nor -p PID", hint=f"usage: {USAGE}")
        if values.pid is not None and paths:
            raise UsageError("-p PID cannot be combined with a recording")
        super().__init__(
            "".join(paths), form="table", json=values.json, limit=values.rows, debug=values.debug
        )
        self.pid: int | None = values.pid
        if self.pid is None and values.duration is not None:
            raise UsageError("--duration is for -p PID")
        self.older: int = values.older or (0 if self.pid is None else _OLDER)
        self.duration: int = values.duration or self.older + max(self.older // 2, _SECOND)
        if self.duration <= self.older:
            raise UsageError("--duration must be longer than --older: no block reaches that age")


def parse(arguments: list[str]) -> MemLeaksOptions:
    """Parse the words behind `soscope mem leaks`. Raises UsageError, or SystemExit for help."""
    return MemLeaksOptions(*VERB.read(arguments))


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if something is missing."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    if options.pid is not None:
        from soscope.verbs.mem.attach import show_blocks

        return show_blocks(
            options.pid,
            duration_ns=options.duration,
            older_ns=options.older,
            json=options.json,
            limit=options.limit,
        )

    # Imported late, as --help and usage errors do not need it.
    from soscope.instruments.mem.model import ALIVE
    from soscope.verbs.mem.show import show

    return show(options, ALIVE, older_ns=options.older)
