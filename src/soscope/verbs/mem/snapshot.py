# SPDX-License-Identifier: Apache-2.0
"""`soscope mem snapshot`: show the objects of a running process, or its new blocks."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.report.output import Form
from soscope.verbs.main import Invocation, note
from soscope.verbs.mem.leaks import FOR
from soscope.verbs.options import (
    DEBUG,
    FORMAT,
    JSON,
    ROWS_LIMIT,
    Option,
    Values,
    Verb,
    pid_option,
    table,
    the_pid,
)

USAGE = "soscope mem snapshot -p PID [options]"

SHORT = f"""\
usage: {USAGE}

Show the objects of a running process, and where they were made; or its native blocks.

  -p
  --blocks
  --duration
  --gc
  --limit
  --qualname
  --json

soscope mem snapshot --help lists all options.
"""

DESCRIPTION = """\
Show which objects a running process has at this moment, by file, line and type. Objects that are
older than soscope mem attach have no file. If the process was never attached to, these are all
objects, and the table only has types.

With --blocks, record the native blocks and mappings that the process makes for the time of
--duration. At the end, show the ones that still exist, by stack. Blocks from before are not known.
If a process has neither Python nor Ruby, its blocks are shown without --blocks, too.
"""

EPILOG = """\
The process stands still for the time that it takes to read its objects. soscope cannot read an
interpreter that neither runs code nor waits for something.
exit status: 0 fine, 1 the process cannot be visited, 2 wrong usage, 3 not permitted, 4 no such
process.
"""

OPTIONS = table(
    DEBUG,
    pid_option(about="it stands still for some milliseconds"),
    "what to look at",
    Option("--blocks", help="native blocks that are made meanwhile and stay, by stack"),
    FOR,
    Option("--gc", help="collect garbage once before the look"),
    ROWS_LIMIT,
    ROWS_LIMIT.group,
    Option("--qualname", help="types with module and qualified name"),
    JSON,
    FORMAT,
)

VERB = Verb(
    "mem snapshot", OPTIONS, usage=USAGE, short=SHORT, description=DESCRIPTION, epilog=EPILOG
)


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
            raise UsageError("--duration is for --blocks: objects are seen at one moment")


def parse(arguments: list[str]) -> MemSnapshotOptions:
    """Parse the words behind `soscope mem snapshot`. Raises UsageError, or SystemExit for help."""
    values, _ = VERB.read(arguments)
    return MemSnapshotOptions(values)


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if not everything could be printed."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    if _is_native(options):
        from soscope.verbs.mem.attach import show_blocks

        return show_blocks(
            options.pid,
            duration_ns=options.duration,
            older_ns=0,
            json=options.json,
            limit=options.limit,
        )

    # Imported late, as --help and usage errors do not need it.
    from soscope.inspect.memory import divide
    from soscope.instruments.mem.live import snapshot
    from soscope.verbs.main import show

    report = snapshot(
        options.pid, collect=options.collect, qualname=options.qualname, divide=divide
    )
    if options.json:
        from soscope.report.mem import document

        said = document(report, options.limit)
    else:
        from soscope.report.mem import text

        said = text(report, options.limit)
    return 0 if show(options.json.shaped(said)) else 1


def _is_native(options: MemSnapshotOptions) -> bool:
    """Return whether blocks are wanted, or the process has only blocks."""
    if options.blocks or options.is_about_objects:
        return options.blocks
    from soscope.instruments.mem.live import has_interpreter
    from soscope.verbs.options import duration_text

    if has_interpreter(options.pid):
        return False
    time = duration_text(options.duration)
    note(f"process {options.pid} has no Python or Ruby: its new blocks of {time} are shown")
    return True
