# SPDX-License-Identifier: Apache-2.0
"""Show a recording of memory on standard output, as the verbs of `soscope mem` do."""

from __future__ import annotations

from soscope.instruments.mem.model import COMPLETE
from soscope.instruments.mem.report import report_of
from soscope.recording.reader import RecordingFile
from soscope.report.mem import document, stats, text
from soscope.report.output import Form
from soscope.verbs import main

# Forms of a report that only memory has.

STATS, TABLE = "stats", "table"


class ShowOptions:
    """The parsed options of such a verb: the recording, and how to show it.

    `limit` is None for all rows. `by` is how to add rows up, None if not at all.
    """

    __slots__ = ("by", "debug", "format", "json", "limit", "path")

    def __init__(self, path: str, *, form: str, json: Form, limit: int | None, debug: bool) -> None:
        self.path = path
        self.by: str | None = None
        self.format = form
        self.json = json
        self.limit = limit
        self.debug = debug


def show(options: ShowOptions, native: str, *, older_ns: int = 0) -> int:
    """Show the rows of a recording that `native` chooses. Return 0, or 1 if it ends too early.

    If `older_ns` is set, live blocks are only shown if they are older than that. Raises
    FormatError or RecordingError if it is no recording of soscope mem.
    """
    with RecordingFile.open(options.path) as recording:
        report = report_of(recording, native, older_ns=older_ns)
    if options.by is not None:
        from soscope.instruments.mem.groups import groups_of
        from soscope.report.mem import text_of

        groups = groups_of(report, options.by)[: options.limit]
        if options.json:
            shown = document(report, options.limit, {"by": options.by, "rows": groups})
        else:
            shown = text_of(report, options.by, groups)
    elif options.json:
        shown = document(report, options.limit)
    elif options.format == STATS:
        shown = stats(report, options.limit)
    else:
        shown = text(report, options.limit)
    shown = options.json.shaped(shown, options.path)
    return 0 if main.show(shown) and report.state == COMPLETE else 1
