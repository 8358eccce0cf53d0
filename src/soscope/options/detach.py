# SPDX-License-Identifier: Apache-2.0
"""The options of `soscope detach`."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.options.display import DEBUG
from soscope.options.table import VALUE, Option, Values, joined, scan
from soscope.options.units import parse_count

TYPE_CHECKING = False
if TYPE_CHECKING:  # argparse is for help and mistakes
    from soscope.options.parser import VerbParser

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

    def __init__(self, pid: int, *, json: bool, quiet: bool, debug: bool) -> None:
        self.pid = pid
        self.json = json
        self.quiet = quiet
        self.debug = debug


OPTIONS = [
    DEBUG,
    Option(
        "-p",
        "--pid",
        dest="pid",
        kind=VALUE,
        metavar="PID",
        convert=parse_count,
        group="which process",
        help="the process",
    ),
    Option("--json", dest="json", group="how to show it", help="one JSON document"),
    Option("-q", "--quiet", dest="quiet", group="how to show it", help="say nothing"),
]


def make_parser() -> VerbParser:
    """Make argparse's parser of `soscope detach`."""
    from soscope.options.parser import VerbParser

    return VerbParser(
        "detach", OPTIONS, usage=USAGE, short=SHORT, description=DESCRIPTION, epilog=EPILOG
    )


def parse(arguments: list[str]) -> DetachOptions:
    """Parse the words behind `soscope detach`. Raises UsageError, or SystemExit for help."""
    scanned = scan(OPTIONS, arguments)
    if scanned is not None and not scanned[1]:
        values = scanned[0]
    else:
        values = Values(OPTIONS)
        make_parser().parse_args(joined(OPTIONS, arguments), values)
    if values.pid is None:
        raise UsageError("which process? -p is missing", hint=f"usage: {USAGE}")
    if not 0 < values.pid < 1 << 31:
        raise UsageError(f"-p: {values.pid} is no process id")
    return DetachOptions(values.pid, json=values.json, quiet=values.quiet, debug=values.debug)
