# SPDX-License-Identifier: Apache-2.0
"""`soscope prof ldprofile`: show a file written by LD_PROFILE."""

from __future__ import annotations

from soscope.report.output import Form
from soscope.verbs.main import Invocation
from soscope.verbs.options import DEBUG, VALUE, Option, Values, Verb, format_option, parse_count
from soscope.verbs.prof.reading import IMAGE

USAGE = "soscope prof ldprofile [options] FILE"

SHORT = f"""\
usage: {USAGE}

Show a file that glibc's LD_PROFILE has written: which functions of a library were called.

  --image LIB  the library, where it is not found by FILE's name
  --json       for programs

  LD_PROFILE=libz.so.1 LD_PROFILE_OUTPUT=/tmp ./prog
  soscope prof ldprofile /tmp/libz.so.1.profile

soscope prof ldprofile --help lists all options.
"""

DESCRIPTION = """\
Show a file that glibc's LD_PROFILE has written, which sprof reads wrong or not at all: the
functions of a library, how often they were called through lazy slots, and the time that was spent
in them. LD_PROFILE counts functions that begin in the same 32 bytes as one: it is said which those
are, and they have no number.
"""

EPILOG = """\
exit status: 0 fine, 1 FILE is damaged or none of LD_PROFILE's, or the library is not found or
another one, 2 wrong usage.
"""

_WHERE = "where to"

OPTIONS = [
    DEBUG,
    IMAGE,
    Option(
        "--limit",
        dest="rows",
        kind=VALUE,
        metavar="N",
        convert=parse_count,
        group="how to show it",
        help="the N largest rows alone",
    ),
    Option("--json", dest="json", group=_WHERE, help="one JSON document, for programs"),
    format_option(_WHERE),
    Option(
        "-o",
        "--output",
        dest="output",
        kind=VALUE,
        metavar="OUT",
        group=_WHERE,
        help="write to the file OUT",
    ),
]

VERB = Verb(
    "prof ldprofile",
    OPTIONS,
    usage=USAGE,
    short=SHORT,
    description=DESCRIPTION,
    epilog=EPILOG,
    argument=("FILE", "what LD_PROFILE has written"),
    least=1,
    most=1,
)
make_parser = VERB.make_parser


class LdprofileOptions:
    """The parsed options. `image` is None to find it by the name of `path`.

    `limit` is a number of rows, None if not given.
    """

    __slots__ = ("debug", "image", "json", "limit", "output", "path")

    def __init__(self, path: str, values: Values) -> None:
        self.path = path
        self.image: str | None = values.image
        self.json: Form = values.json
        self.limit: int | None = values.rows
        self.output: str | None = values.output
        self.debug: bool = values.debug


def parse(arguments: list[str]) -> LdprofileOptions:
    """Parse the words behind the verb. Raises UsageError, or SystemExit for help."""
    values, (path,) = VERB.read(arguments)
    return LdprofileOptions(path, values)


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if not everything could be written."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.verbs.prof.reading import read_foreign, show

    profile = read_foreign(options.path, options.image)
    is_written = show(profile, options.json, options.limit, options.output, not_over=options.path)
    return 0 if is_written else 1
