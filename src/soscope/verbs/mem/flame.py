# SPDX-License-Identifier: Apache-2.0
"""`soscope mem flame`: draw the live objects and blocks of a recording."""

from __future__ import annotations

from soscope.verbs.main import Invocation
from soscope.verbs.options import DEBUG, PICTURE_OUTPUT, Verb, flame_file, is_page

USAGE = "soscope mem flame -o FILE REC"

SHORT = f"""\
usage: {USAGE}

Draw what was alive at the end of a recording that soscope mem run -o REC has made.

  -o

  soscope mem flame -o run.svg run.sosr

soscope mem flame --help lists all options.
"""

DESCRIPTION = """\
Draw a flame graph of what was alive at the end of a recording that soscope mem run -o REC has made:
native blocks by stack, objects by file, line and type. The wider a frame, the more bytes.
"""

EPILOG = """\
exit status: 0 fine, 1 REC is no recording of soscope mem or is not complete, or FILE cannot be
written, 2 wrong usage.
"""

OPTIONS = [DEBUG, PICTURE_OUTPUT]

VERB = Verb(
    "mem flame",
    OPTIONS,
    usage=USAGE,
    short=SHORT,
    description=DESCRIPTION,
    epilog=EPILOG,
    argument=("REC", "the recording"),
    least=1,
    most=1,
)


class MemFlameOptions:
    """The parsed options of `soscope mem flame`. `is_page`: `output` is an HTML page."""

    __slots__ = ("debug", "is_page", "output", "path")

    def __init__(self, path: str, output: str) -> None:
        self.path = path
        self.output = output
        self.is_page = is_page(output)
        self.debug = False


def parse(arguments: list[str]) -> MemFlameOptions:
    """Parse the words behind `soscope mem flame`. Raises UsageError, or SystemExit for help."""
    values, (path,) = VERB.read(arguments)
    options = MemFlameOptions(path, flame_file(values.output, USAGE))
    options.debug = values.debug
    return options


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if the recording ends too early or cannot be drawn."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.instruments.mem.model import COMPLETE
    from soscope.instruments.mem.report import report_of
    from soscope.recording.reader import RecordingFile
    from soscope.report.memflame import flame_document, page
    from soscope.verbs.main import show

    with RecordingFile.open(options.path) as recording:
        report = report_of(recording)
    text = (page if options.is_page else flame_document)(report)
    was_written = show(text, options.output, not_over=options.path)
    return 0 if was_written and report.state == COMPLETE else 1
