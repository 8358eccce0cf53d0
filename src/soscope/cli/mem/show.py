# SPDX-License-Identifier: Apache-2.0
"""Shows a recording of memory on standard output, for the verbs of `soscope mem`."""

from __future__ import annotations

from soscope.cli import output
from soscope.instruments.mem.model import COMPLETE
from soscope.instruments.mem.report import report_of
from soscope.options.mem.show import STATS, ShowOptions
from soscope.recording.reader import RecordingFile
from soscope.report.mem import document, stats, text


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
    return 0 if output.show(shown) and report.state == COMPLETE else 1
