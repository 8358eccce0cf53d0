# SPDX-License-Identifier: Apache-2.0
"""`soscope mem snapshot`: show the objects of a running process, or its new blocks."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.verbs.main import Invocation, note, show
from soscope.verbs.mem.leaks import FOR
from soscope.verbs.options import (
    FORM,
    ROWS_LIMIT,
    Option,
    Verb,
    pid_option,
)

VERB = Verb(
    "mem snapshot",
    pid_option(about="it stands still for some milliseconds"),
    "what to look at",
    Option("--blocks", help="native blocks that are made meanwhile and stay, by stack"),
    FOR,
    Option("--gc", help="collect garbage once before the look"),
    ROWS_LIMIT,
    ROWS_LIMIT.group,
    Option("--qualname", help="types with module and qualified name"),
    *FORM,
    usage="soscope mem snapshot -p PID [options]",
    short="""\
Show the objects of a running process, and where they were made; or its native blocks.

  -p
  --blocks
  --duration
  --gc
  --limit
  --qualname
  --json
""",
    description="""\
Show which objects a running process has at this moment, by file, line and type. Objects that are
older than soscope mem attach have no file. If the process was never attached to, these are all
objects, and the table only has types.

With --blocks, record the native blocks and mappings that the process makes for the time of
--duration. At the end, show the ones that still exist, by stack. Blocks from before are not known.
If a process has neither Python nor Ruby, its blocks are shown without --blocks, too.
""",
    epilog="""\
The process stands still for the time that it takes to read its objects. soscope cannot read an
interpreter that neither runs code nor waits for something.
exit status: 0 fine, 1 the process cannot be visited, 2 wrong usage, 3 not permitted, 4 no such
process.
""",
    needs_pid=True,
)


_BLOCKS_FOR = 10_000_000_000  # nanoseconds


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if not everything could be printed."""
    values, _ = invocation.read(VERB)
    is_about_objects = values.gc or values.qualname
    if values.blocks and is_about_objects:
        raise UsageError("--gc and --qualname are about objects, and --blocks is not")
    if values.duration is not None and not values.blocks:
        raise UsageError("--duration is for --blocks: objects are seen at one moment")

    if values.blocks or (not is_about_objects and _has_only_blocks(values.pid)):
        from soscope.verbs.mem.attach import show_blocks

        return show_blocks(
            values.pid,
            duration_ns=values.duration or _BLOCKS_FOR,
            older_ns=0,
            json=values.json,
            limit=values.rows,
        )

    from soscope.inspect.memory import divide
    from soscope.instruments.mem.live import snapshot
    from soscope.report.mem import document, text

    report = snapshot(values.pid, collect=values.gc, qualname=values.qualname, divide=divide)
    make = document if values.json else text
    return 0 if show(values.json.shaped(make(report, values.rows))) else 1


def _has_only_blocks(pid: int) -> bool:
    """Return whether the process has no interpreter, and print that."""
    from soscope.instruments.mem.live import has_interpreter
    from soscope.verbs.options import duration_text

    if has_interpreter(pid):
        return False
    time = duration_text(_BLOCKS_FOR)
    note(f"process {pid} has no Python or Ruby: its new blocks of {time} are shown")
    return True
