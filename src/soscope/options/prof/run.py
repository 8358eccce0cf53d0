# SPDX-License-Identifier: Apache-2.0
"""The options of `soscope prof run`."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.options.display import DEBUG
from soscope.options.form import format_option
from soscope.options.prof.what import OPTIONS as WHAT
from soscope.options.prof.what import What
from soscope.options.table import VALUE, Option, Values
from soscope.options.verb import CommandVerb
from soscope.report.form import Form

USAGE = "soscope prof run [options] [--] COMMAND [ARGUMENT...]"

SHORT = f"""\
usage: {USAGE}

Run COMMAND and say how often functions of shared libraries are called, and for how long.

  --boundary time   calls from one image to another
  -l IMAGE          those into IMAGE alone
  -f                in children, too
  -o REC            keep a recording, which soscope prof report shows
  --json            for programs

  soscope prof run --boundary time -- sqlite3 :memory: 'select 1'

soscope prof run --help lists all options.
"""

DESCRIPTION = """\
Run COMMAND, and say at its end on standard error which functions of shared libraries were called,
how often and for how long. With -o nothing is said, and a recording is kept. COMMAND's own output,
exit status and signals stay what they are.
"""

EPILOG = """\
exit status: that of COMMAND, or soscope dies of the signal that killed it; 125 if soscope
itself failed or was misused, 126 if COMMAND cannot be executed, 127 if it was not found.
"""

_WHERE = "where to"

OPTIONS = [
    DEBUG,
    *WHAT,
    Option(
        "-o",
        "--output",
        dest="output",
        kind=VALUE,
        metavar="REC",
        group=_WHERE,
        help="keep a recording in the file REC, in place of what it holds",
    ),
    Option("-q", "--quiet", dest="quiet", group=_WHERE, help="no notes at the end"),
    Option("--json", dest="json", group=_WHERE, help="one JSON document, for programs"),
    format_option(_WHERE),
]


class ProfRunOptions:
    """What `soscope prof run` was told."""

    __slots__ = ("command", "debug", "json", "output", "quiet", "what")

    def __init__(self, command: list[str], values: Values) -> None:
        self.command = command
        self.what = What(values)
        self.output: str | None = values.output
        self.quiet: bool = values.quiet
        self.json: Form = values.json
        self.debug: bool = values.debug


VERB = CommandVerb(
    "prof run", OPTIONS, usage=USAGE, short=SHORT, description=DESCRIPTION, epilog=EPILOG
)
make_parser = VERB.make_parser


def parse(arguments: list[str]) -> ProfRunOptions:
    """Parse the words behind `soscope prof run`. Raises UsageError, or SystemExit for help."""
    values, command = VERB.read(arguments)
    if not command:
        raise UsageError("no command to run", hint=f"usage: {USAGE}")
    if values.json and values.output is not None:
        raise UsageError(
            f"-o REC and --format {values.json.name}: with -o nothing is shown",
            hint=f"soscope prof report --format {values.json.name} REC shows it",
        )
    return ProfRunOptions(command, values)
