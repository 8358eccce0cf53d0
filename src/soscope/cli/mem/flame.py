# SPDX-License-Identifier: Apache-2.0
"""`soscope mem flame`: draw the live objects and blocks of a recording."""

from __future__ import annotations

from soscope.cli.main import Invocation
from soscope.options.mem.flame import parse


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if the recording ends too early or cannot be drawn."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.cli.flamefile import write_flame
    from soscope.instruments.mem.model import COMPLETE
    from soscope.instruments.mem.report import report_of
    from soscope.recording.reader import RecordingFile
    from soscope.report.mem import flame_document, page

    with RecordingFile.open(options.path) as recording:
        report = report_of(recording)
    text = (page if options.is_page else flame_document)(report)
    was_written = write_flame(text, options.output, options.path)
    return 0 if was_written and report.state == COMPLETE else 1
