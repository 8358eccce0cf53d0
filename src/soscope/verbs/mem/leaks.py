# SPDX-License-Identifier: Apache-2.0
"""`soscope mem leaks`: show the native blocks that were never freed."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.verbs.main import Invocation
from soscope.verbs.options import (
    FORM,
    ONCE,
    ROWS_LIMIT,
    Option,
    Verb,
    duration_option,
    pid_option,
)

_SECOND = 1_000_000_000
_OLDER = 60 * _SECOND  # default age of blocks in a running process


FOR = duration_option("what to look at", "watch the process for so long (10s, 5m)", kind=ONCE)


VERB = Verb(
    "mem leaks",
    pid_option(about="its blocks are recorded meanwhile"),
    "what to look at",
    Option(
        "--older",
        kind=ONCE,
        metavar="TIME",
        help="blocks that are older than this at the end (60s, 5m); with -p 60s without it",
    ),
    FOR,
    *FORM,
    ROWS_LIMIT,
    usage="soscope mem leaks [options] REC | -p PID",
    short="""\
Show the native blocks that were never freed, by stack: at the end of a recording that soscope mem
run -o REC has made, or in a running process.

  -p
  --older
  --duration
  --json
  --limit

  soscope mem leaks run.sosr
  soscope mem leaks -p 4711 --older 60s
""",
    description="""\
Show the native blocks and mappings that were alive at the end of a recording. With -p, record the
blocks that a running process makes from now on. At the end, show the blocks that are older than
--older and still exist, and take everything out of the process again.
""",
    epilog="""\
exit status: 0 fine, 1 REC is no recording of soscope mem or is not complete, or the process cannot
be visited, 2 wrong usage, 3 not permitted, 4 no such process.
""",
    argument=("REC", "the recording"),
    most=1,
)


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if something is missing."""
    values, paths = invocation.read(VERB)
    if values.pid is None and not paths:
        raise VERB.wrong("neither a recording nor -p PID")
    if values.pid is not None and paths:
        raise UsageError("-p PID cannot be combined with a recording")
    if values.pid is None and values.duration is not None:
        raise UsageError("--duration is for -p PID")
    older: int = values.older or (0 if values.pid is None else _OLDER)
    duration: int = values.duration or older + max(older // 2, _SECOND)
    if duration <= older:
        raise UsageError("--duration must be longer than --older: no block reaches that age")

    if values.pid is not None:
        from soscope.verbs.mem.attach import show_blocks

        return show_blocks(
            values.pid,
            duration_ns=duration,
            older_ns=older,
            json=values.json,
            limit=values.rows,
        )

    from soscope.instruments.mem.model import ALIVE
    from soscope.verbs.mem.report import show_report

    return show_report(paths[0], ALIVE, values.json, values.rows, older_ns=older)
