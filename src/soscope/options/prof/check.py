# SPDX-License-Identifier: Apache-2.0
"""The options of `soscope prof check`."""

from __future__ import annotations

from soscope.options.process import FORMAT, JSON
from soscope.options.verb import Verb
from soscope.report.output import Form
from soscope.verbs.display import DEBUG
from soscope.verbs.options import Values

USAGE = "soscope prof check [options] LIB"

SHORT = f"""\
usage: {USAGE}

Say what a library was instrumented with, and how it can be profiled.

  --json   for programs

  soscope prof check ./libfoo.so

soscope prof check --help lists all options.
"""

DESCRIPTION = """\
Says with which options an ELF file was instrumented (-pg, -pg -mfentry, -finstrument-functions,
-fpatchable-function-entry), how many places of its code call the hook, and how many of those are in
inlined functions; which ways to record will work for it, and about how many nanoseconds each costs
a call; and with which options it were better built. Nothing of it is run.
"""

EPILOG = """\
exit status: 0 fine, 1 it cannot be read, or is no linked ELF file, 2 wrong usage.
"""

OPTIONS = [DEBUG, JSON, FORMAT]


class ProfCheckOptions:
    """The parsed options of `soscope prof check`."""

    __slots__ = ("debug", "file", "json")

    def __init__(self, values: Values, files: list[str]) -> None:
        (self.file,) = files
        self.json: Form = values.json
        self.debug: bool = values.debug


VERB = Verb(
    "prof check",
    OPTIONS,
    usage=USAGE,
    short=SHORT,
    description=DESCRIPTION,
    epilog=EPILOG,
    argument=("LIB", "an ELF library or program"),
    least=1,
    most=1,
)
make_parser = VERB.make_parser


def parse(arguments: list[str]) -> ProfCheckOptions:
    """Parse the words behind `soscope prof check`. Raises UsageError, or SystemExit for help."""
    return ProfCheckOptions(*VERB.read(arguments))
