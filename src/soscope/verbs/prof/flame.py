# SPDX-License-Identifier: Apache-2.0
"""`soscope prof flame`: draw a profile as a flame graph."""

from __future__ import annotations

from soscope.errors import RecordingError
from soscope.instruments.prof.views import BY_FUNCTION, BY_THREAD
from soscope.verbs.main import Invocation, note, show
from soscope.verbs.options import (
    PICTURE_OUTPUT,
    Option,
    Verb,
    flame_file,
    is_page,
)
from soscope.verbs.prof.reading import BIASES, IMAGE

VERB = Verb(
    "prof flame",
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
    usage="soscope prof flame [options] -o FILE REC",
    short="""\
Draw the profile that soscope prof run -o REC or attach -o REC has recorded.

  -o
  --by

  soscope prof flame -o run.html run.sosr
""",
    description="""\
Draw a flame graph of the profile that soscope prof run -o REC or attach -o REC has recorded, with
functions below their callers. The wider a frame, the longer it took. If nothing was timed, the
width stands for the number of calls.
""",
    epilog="""\
exit status: 0 fine, 1 REC is no recording of soscope prof or is not complete, or FILE cannot be
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

    from soscope.instruments.prof.model import COMPLETE, EMPTY
    from soscope.report.proftree import flame_document, page
    from soscope.verbs.prof.reading import profile_at

    profile = profile_at(path, values)
    if profile.is_empty and profile.state == COMPLETE:
        raise RecordingError(f"'{path}' {EMPTY}")
    draw = page if is_page(output) else flame_document
    text = draw(profile, threads=values.by == BY_THREAD)
    was_written = show(text, output, not_over=path)
    if profile.state != COMPLETE:
        note(f"'{path}' is not complete: {profile.state}")
        return 1
    return 0 if was_written else 1
