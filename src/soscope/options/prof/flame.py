# SPDX-License-Identifier: Apache-2.0
"""The options of `soscope prof flame`."""

from __future__ import annotations

from soscope.instruments.prof.views import BY_FUNCTION, BY_THREAD
from soscope.options.flamefile import OUTPUT, flame_file, is_page
from soscope.options.prof.image import BIASES, IMAGE, ProfFile
from soscope.options.verb import Verb
from soscope.verbs.display import DEBUG
from soscope.verbs.options import VALUE, Option, Values

USAGE = "soscope prof flame [options] -o FILE REC"

SHORT = f"""\
usage: {USAGE}

Draw the profile that soscope prof run -o REC or attach -o REC has recorded.

  -o FILE      FILE.svg: a picture; FILE.html: a page, in which frames can be widened
  --by thread  each thread for itself

  soscope prof flame -o run.html run.sosr

soscope prof flame --help lists all options.
"""

DESCRIPTION = """\
Draw a flame graph of the profile that soscope prof run -o REC or attach -o REC has recorded:
functions below those that called them. The wider a frame, the longer it took; or the more calls
were made in it, where nothing was timed.
"""

EPILOG = """\
exit status: 0 fine, 1 REC is no recording of soscope prof or is not complete, or FILE cannot be
written, 2 wrong usage.
"""

OPTIONS = [
    DEBUG,
    OUTPUT,
    Option(
        "--by",
        dest="by",
        kind=VALUE,
        metavar=f"{BY_FUNCTION}|{BY_THREAD}",
        choices=(BY_FUNCTION, BY_THREAD),
        default=BY_FUNCTION,
        group="what to draw",
        help="functions of all threads together, or each thread for itself",
    ),
    IMAGE,
    *BIASES,
]

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
make_parser = VERB.make_parser


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
