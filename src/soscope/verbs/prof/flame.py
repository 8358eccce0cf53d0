# SPDX-License-Identifier: Apache-2.0
"""`soscope prof flame`: draw a profile as a flame graph."""

from __future__ import annotations

from soscope.errors import RecordingError
from soscope.instruments.prof.views import BY_FUNCTION, BY_THREAD
from soscope.verbs.main import Invocation, note
from soscope.verbs.options import (
    DEBUG,
    PICTURE_OUTPUT,
    Option,
    Values,
    Verb,
    flame_file,
    is_page,
    table,
)
from soscope.verbs.prof.reading import BIASES, IMAGE, ProfFile

USAGE = "soscope prof flame [options] -o FILE REC"

SHORT = f"""\
usage: {USAGE}

Draw the profile that soscope prof run -o REC or attach -o REC has recorded.

  -o
  --by

  soscope prof flame -o run.html run.sosr

soscope prof flame --help lists all options.
"""

DESCRIPTION = """\
Draw a flame graph of the profile that soscope prof run -o REC or attach -o REC has recorded, with
functions below their callers. The wider a frame, the longer it took. If nothing was timed, the
width stands for the number of calls.
"""

EPILOG = """\
exit status: 0 fine, 1 REC is no recording of soscope prof or is not complete, or FILE cannot be
written, 2 wrong usage.
"""

OPTIONS = table(
    DEBUG,
    PICTURE_OUTPUT,
    "what to draw",
    Option(
        "--by",
        choices=(BY_FUNCTION, BY_THREAD),
        default=BY_FUNCTION,
        help="functions of all threads together, or each thread for itself",
    ),
    IMAGE,
    *BIASES,
)

VERB = Verb(
    "prof flame",
    OPTIONS,
    usage=USAGE,
    short=SHORT,
    description=DESCRIPTION,
    epilog=EPILOG,
    argument=("REC", "the recording"),
    least=1,
    most=1,
)


class ProfFlameOptions:
    """The parsed options of `soscope prof flame`. `is_page`: `output` is an HTML page."""

    __slots__ = ("by_thread", "debug", "file", "is_page", "output")

    def __init__(self, path: str, values: Values) -> None:
        self.file = ProfFile(path, values)
        self.output = flame_file(values.output, USAGE)
        self.is_page = is_page(self.output)
        self.by_thread = values.by == BY_THREAD
        self.debug: bool = values.debug


def parse(arguments: list[str]) -> ProfFlameOptions:
    """Parse the words behind `soscope prof flame`. Raises UsageError, or SystemExit for help."""
    values, (path,) = VERB.read(arguments)
    return ProfFlameOptions(path, values)


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if the recording ends too early or cannot be drawn."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.instruments.prof.model import COMPLETE, EMPTY
    from soscope.report.proftree import flame_document, page
    from soscope.verbs.main import show
    from soscope.verbs.prof.reading import profile_at

    profile = profile_at(options.file)
    if profile.is_empty and profile.state == COMPLETE:
        raise RecordingError(f"'{options.file.path}' {EMPTY}")
    draw = page if options.is_page else flame_document
    text = draw(profile, threads=options.by_thread)
    was_written = show(text, options.output, not_over=options.file.path)
    if profile.state != COMPLETE:
        note(f"'{options.file.path}' is not complete: {profile.state}")
        return 1
    return 0 if was_written else 1
