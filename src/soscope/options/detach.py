# SPDX-License-Identifier: Apache-2.0
"""The options of `soscope detach`."""

from __future__ import annotations

from soscope.options.display import DEBUG
from soscope.options.process import FORMAT, JSON, pid_option, the_pid
from soscope.options.table import Option
from soscope.options.verb import Verb
from soscope.report.form import Form

USAGE = "soscope detach [options] -p PID"

SHORT = f"""\
usage: {USAGE}

Take out of a process what a killed soscope has left in it.

  -p PID  the process
  --json  for programs

soscope detach --help lists all options.
"""

DESCRIPTION = """\
A soscope that was killed leaves its hooks in the process that it traced; they cost little and do
no harm. detach gives every word that was changed its old value again. The process's threads stand
still for some milliseconds, and it goes on.
"""

EPILOG = """\
exit status: 0 fine, or nothing to undo (which is said), 1 not everything could be undone, or a
living soscope traces the process, 2 wrong usage, 3 not permitted, 4 no such process.
"""


class DetachOptions:
    """What `soscope detach` was told."""

    __slots__ = ("debug", "json", "pid", "quiet")

    def __init__(self, pid: int, *, json: Form, quiet: bool, debug: bool) -> None:
        self.pid = pid
        self.json = json
        self.quiet = quiet
        self.debug = debug


OPTIONS = [
    DEBUG,
    pid_option(about="it stands still for some milliseconds"),
    JSON,
    FORMAT,
    Option("-q", "--quiet", dest="quiet", group=JSON.group, help="say nothing"),
]


VERB = Verb(
    "detach",
    OPTIONS,
    usage=USAGE,
    short=SHORT,
    description=DESCRIPTION,
    epilog=EPILOG,
)
make_parser = VERB.make_parser


def parse(arguments: list[str]) -> DetachOptions:
    """Parse the words behind `soscope detach`. Raises UsageError, or SystemExit for help."""
    values, _ = VERB.read(arguments)
    pid = the_pid(values, USAGE)
    return DetachOptions(pid, json=values.json, quiet=values.quiet, debug=values.debug)
