# SPDX-License-Identifier: Apache-2.0
"""`soscope mem report`: show a recording of memory."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.instruments.mem.model import ALIVE, PEAK, TEMPORARY
from soscope.report.output import Form
from soscope.verbs.main import Invocation, show
from soscope.verbs.options import (
    HOW,
    JSON,
    ROWS_LIMIT,
    Option,
    Verb,
    format_option,
)

_WHAT = "what to show"
STATS, TABLE = "stats", "table"  # forms of a report that only memory has
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

    return show_report(
        path, native, values.json, values.rows, by=values.by, stats=values.form == STATS
    )


def show_report(
    path: str,
    native: str,
    form: Form,
    limit: int | None,
    *,
    by: str | None = None,
    stats: bool = False,
    older_ns: int = 0,
) -> int:
    """Show the rows of a recording that `native` chooses. Return 0, or 1 if it ends too early.

    `limit` is None for all rows. `by` is how to add rows up, None if not at all. `stats` asks for
    the form STATS.

    If `older_ns` is set, live blocks are only shown if they are older than that. Raises
    FormatError or RecordingError if it is no recording of soscope mem.
    """
    from soscope.instruments.mem.model import COMPLETE
    from soscope.instruments.mem.report import report_of
    from soscope.recording.reader import RecordingFile
    from soscope.report.mem import document, text
    from soscope.report.mem import stats as stats_text

    with RecordingFile.open(path) as recording:
        report = report_of(recording, native, older_ns=older_ns)
    if by is not None:
        from soscope.instruments.mem.groups import groups_of
        from soscope.report.mem import text_of

        groups = groups_of(report, by)[:limit]
        if form:
            shown = document(report, limit, {"by": by, "rows": groups})
        else:
            shown = text_of(report, by, groups)
    elif form:
        shown = document(report, limit)
    else:
        shown = (stats_text if stats else text)(report, limit)
    return 0 if show(form.shaped(shown, path)) and report.state == COMPLETE else 1
