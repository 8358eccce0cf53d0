# SPDX-License-Identifier: Apache-2.0
"""`soscope mem report`: show a recording of memory."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.instruments.mem.model import ALIVE, PEAK, TEMPORARY
from soscope.verbs.main import Invocation
from soscope.verbs.mem.show import STATS, TABLE, ShowOptions
from soscope.verbs.options import (
    DEBUG,
    HOW,
    JSON,
    ROWS_LIMIT,
    Option,
    Values,
    Verb,
    format_option,
    table,
)

USAGE = "soscope mem report [options] REC"

SHORT = f"""\
usage: {USAGE}

Show what was alive at the end of a recording that soscope mem run -o REC has made.

  --peak
  --temporary
  --by
  --json
  --limit

  soscope mem report run.sosr

soscope mem report --help lists all options.
"""

DESCRIPTION = """\
Show what was alive at the end of a recording that soscope mem run -o REC has made. If a
recording ends in the middle, its beginning is shown, with a note.
"""

EPILOG = """\
exit status: 0 fine, 1 REC is no recording of soscope mem, 2 wrong usage.
"""

_WHAT = "what to show"
_WAYS = ("line", "type", "image", "thread", "time")

_ANY_FORMAT = format_option(HOW, TABLE, STATS)
_ANY_FORMAT.help += "; stats: lines of COUNT FILE:LINE:TYPE and nothing else"

OPTIONS = table(
    DEBUG,
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
)

VERB = Verb(
    "mem report",
    OPTIONS,
    usage=USAGE,
    short=SHORT,
    description=DESCRIPTION,
    epilog=EPILOG,
    argument=("REC", "the recording"),
    least=1,
    most=1,
)


class MemReportOptions(ShowOptions):
    """The parsed options of `soscope mem report`. `native` is which native blocks are shown."""

    __slots__ = ("native",)

    def __init__(self, values: Values, path: str) -> None:
        super().__init__(
            path, form=values.form, json=values.json, limit=values.rows, debug=values.debug
        )
        self.by = values.by
        self.native = PEAK if values.peak else TEMPORARY if values.temporary else ALIVE
        if self.format == STATS:
            for flag in ("by", "peak", "temporary"):
                if getattr(values, flag):
                    raise UsageError(f"--{flag} cannot be combined with --format stats")


def parse(arguments: list[str]) -> MemReportOptions:
    """Parse the words behind `soscope mem report`. Raises UsageError, or SystemExit for help."""
    values, (path,) = VERB.read(arguments)
    return MemReportOptions(values, path)


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if the recording ends too early or printing failed."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.verbs.mem.show import show

    return show(options, options.native)
