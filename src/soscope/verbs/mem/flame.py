# SPDX-License-Identifier: Apache-2.0
"""`soscope mem flame`: draw the live objects and blocks of a recording."""

from __future__ import annotations

from soscope.verbs.main import Invocation, show
from soscope.verbs.options import PICTURE_OUTPUT, Verb, flame_file, is_page

VERB = Verb(
    "mem flame",
    PICTURE_OUTPUT,
    usage="soscope mem flame -o FILE REC",
    short="""\
Draw what was alive at the end of a recording that soscope mem run -o REC has made.

  -o

  soscope mem flame -o run.svg run.sosr
""",
    description="""\
Draw a flame graph of what was alive at the end of a recording that soscope mem run -o REC has made:
native blocks by stack, objects by file, line and type. The wider a frame, the more bytes.
""",
    epilog="""\
exit status: 0 fine, 1 REC is no recording of soscope mem or is not complete, or FILE cannot be
written, 2 wrong usage.
""",
    argument=("REC", "the recording"),
    least=1,
    most=1,
)


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if the recording ends too early or cannot be drawn."""
    values, (path,) = invocation.read(VERB)
    output = flame_file(values.output, VERB)

    from soscope.instruments.mem.model import COMPLETE
    from soscope.instruments.mem.report import report_of
    from soscope.recording.reader import RecordingFile
    from soscope.report.memflame import flame_document, page

    with RecordingFile.open(path) as recording:
        report = report_of(recording)
    text = (page if is_page(output) else flame_document)(report)
    was_written = show(text, output, not_over=path)
    return 0 if was_written and report.state == COMPLETE else 1
