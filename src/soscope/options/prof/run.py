# SPDX-License-Identifier: Apache-2.0
"""The options of `soscope prof run`."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.options.form import format_option
from soscope.options.verb import CommandVerb
from soscope.report.output import Form
from soscope.verbs.display import DEBUG
from soscope.verbs.options import Option, Values
from soscope.verbs.prof.run import OPTIONS as WHAT
from soscope.verbs.prof.run import What
from soscope.verbs.shown import OUTPUT, QUIET, WHERE, check_form

USAGE = "soscope prof run [options] [--] COMMAND [ARGUMENT...]"

SHORT = f"""\
usage: {USAGE}

Run COMMAND and say in which functions its time goes, and how often those of libraries are called.

  (no mode)         its own functions by samples, and its calls, in one table
  --boundary time   calls from one image to another
  --mode time       calls inside libraries that were built with -pg or the like
  --sample 100      stacks of all threads, so many times a second that they run
  -l IMAGE          calls of IMAGE alone
  -f                in children, too
  -o REC            keep a recording, which soscope prof report shows
  --json            for programs

  soscope prof run -- sqlite3 :memory: 'select 1'

soscope prof run --help lists all options.
"""

DESCRIPTION = """\
Run COMMAND, and say at its end on standard error in which functions its time went, and which
functions of shared libraries were called, how often and for how long. Without --mode, --boundary
and --sample one table has its own functions, by samples, and its calls. With -o nothing is said,
and a recording is kept. COMMAND's own output, exit status and signals stay what they are.
"""

EPILOG = """\
exit status: that of COMMAND, or soscope dies of the signal that killed it; 125 if soscope
itself failed or was misused, 126 if COMMAND cannot be executed, 127 if it was not found.
"""

OPTIONS = [
    DEBUG,
    *WHAT,
    OUTPUT,
    QUIET,
    Option("--json", dest="json", group=WHERE, help="one JSON document, for programs"),
    format_option(WHERE),
]


class ProfRunOptions:
    """The parsed options of `soscope prof run`."""

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
    check_form(values.json, values.output, "prof")
    return ProfRunOptions(command, values)
