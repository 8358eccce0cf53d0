# SPDX-License-Identifier: Apache-2.0
"""Show a recording of memory on standard output, as the verbs of `soscope mem` do."""

from __future__ import annotations

from soscope.instruments.mem.model import COMPLETE
from soscope.instruments.mem.report import report_of
from soscope.recording.reader import RecordingFile
from soscope.report.mem import document, text
from soscope.report.mem import stats as stats_text
from soscope.report.output import Form
from soscope.verbs import main

# Forms of a report that only memory has.

STATS, TABLE = "stats", "table"


def show(
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
    return 0 if main.show(form.shaped(shown, path)) and report.state == COMPLETE else 1
