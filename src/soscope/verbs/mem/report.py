# SPDX-License-Identifier: Apache-2.0
"""`soscope mem report`: show a recording of memory."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.instruments.mem.model import ALIVE, PEAK, TEMPORARY
from soscope.verbs.main import Invocation
from soscope.verbs.mem.show import STATS, TABLE
from soscope.verbs.options import (
    HOW,
    JSON,
    ROWS_LIMIT,
    Option,
    Verb,
    format_option,
)

_WHAT = "what to show"
_WAYS = ("line", "type", "image", "thread", "time")

_ANY_FORMAT = format_option(HOW, TABLE, STATS)
_ANY_FORMAT.help += "; stats: lines of COUNT FILE:LINE:TYPE and nothing else"


VERB = Verb(
    "mem report",
    _WHAT,
    Option("--peak", rivals="view", help="the native blocks that were there when most bytes were"),
    Option(
        "--temporary",
        rivals="view",
        help="the native blocks that their thread freed before it made another one",
    ),
    Option(
        "--by",
        choices=_WAYS,
        rivals="view",
        help="add rows up: by line, type, image or thread; or what was made and freed over time",
    ),
    JSON,
    ROWS_LIMIT,
    _ANY_FORMAT,
    usage="soscope mem report [options] REC",
    short="""\
Show what was alive at the end of a recording that soscope mem run -o REC has made.

  --peak
  --temporary
  --by
  --json
  --limit

  soscope mem report run.sosr
""",
    description="""\
Show what was alive at the end of a recording that soscope mem run -o REC has made. If a
recording ends in the middle, its beginning is shown, with a note.
""",
    epilog="""\
exit status: 0 fine, 1 REC is no recording of soscope mem, 2 wrong usage.
""",
    argument=("REC", "the recording"),
    least=1,
    most=1,
)


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if the recording ends too early or printing failed."""
    values, (path,) = invocation.read(VERB)
    if values.form == STATS:
        for flag in ("by", "peak", "temporary"):
            if getattr(values, flag):
                raise UsageError(f"--{flag} cannot be combined with --format stats")
    native = PEAK if values.peak else TEMPORARY if values.temporary else ALIVE

    from soscope.verbs.mem.show import show

    return show(path, native, values.json, values.rows, by=values.by, stats=values.form == STATS)
