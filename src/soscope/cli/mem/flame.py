# SPDX-License-Identifier: Apache-2.0
"""`soscope mem flame`: draw what a recording says is alive."""

from __future__ import annotations

import os

from soscope.cli.main import Invocation
from soscope.errors import UsageError
from soscope.options.mem.flame import parse


def run(invocation: Invocation) -> int:
    """Run the verb; return 0, or 1 where the recording ends too early or cannot be drawn."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # --help and usage errors need none of these
    from soscope.cli.output import finish
    from soscope.instruments.mem.model import COMPLETE
    from soscope.instruments.mem.report import report_of
    from soscope.recording.reader import RecordingFile
    from soscope.report.mem.flame import document, page
    from soscope.report.output import Output

    with RecordingFile.open(options.path) as recording:
        report = report_of(recording)
    text = (page if options.is_page else document)(report)
    if os.path.exists(options.output) and os.path.samefile(options.output, options.path):
        raise UsageError("-o names the recording itself")
    output = Output.open(options.output)
    output.write(text)
    return 0 if finish(output) and report.state == COMPLETE else 1
