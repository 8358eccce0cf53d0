# SPDX-License-Identifier: Apache-2.0
"""The options of `soscope prof detach`."""

from __future__ import annotations

from soscope.options.display import DEBUG
from soscope.options.process import FORMAT, JSON, pid_option, the_pid
from soscope.options.table import Option
from soscope.options.verb import Verb
from soscope.report.form import Form

USAGE = "soscope prof detach [options] -p PID"

SHORT = f"""\
usage: {USAGE}

Have a running process profiled no more.

  -p PID  the process
  --json  for programs

soscope prof detach --help lists all options.
"""

DESCRIPTION = """\
The soscope prof attach that profiles the process ends as it does at Ctrl-C, and has shown or
written what it has recorded when this returns. Where it was killed, every word that it has changed
in the process gets its old value again, as soscope detach does it.
"""

EPILOG = """\
exit status: 0 fine, or nothing to undo (which is said), 1 not everything could be undone, 2 wrong
usage, 3 not permitted, 4 no such process.
"""


class ProfDetachOptions:
    """What `soscope prof detach` was told."""

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
    "prof detach", OPTIONS, usage=USAGE, short=SHORT, description=DESCRIPTION, epilog=EPILOG
)
make_parser = VERB.make_parser


def parse(arguments: list[str]) -> ProfDetachOptions:
    """Parse the words behind `soscope prof detach`. Raises UsageError, or SystemExit for help."""
    values, _ = VERB.read(arguments)
    pid = the_pid(values, USAGE)
    return ProfDetachOptions(pid, json=values.json, quiet=values.quiet, debug=values.debug)
