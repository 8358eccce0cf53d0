# SPDX-License-Identifier: Apache-2.0
"""The options of `soscope doctor`."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.options.display import DEBUG
from soscope.options.table import VALUE, Option, Values, joined, scan
from soscope.options.units import parse_count

TYPE_CHECKING = False
if TYPE_CHECKING:  # argparse is for help and mistakes
    from soscope.options.parser import VerbParser

USAGE = "soscope doctor [options] [-p PID | FILE]"

SHORT = f"""\
usage: {USAGE}

Say what works on this system and what does not, with what to type about it.

  -p PID   and what can be done with this process
  FILE     and with this program or library; it is read, not run
  --json   for programs

  soscope doctor /usr/bin/ssh
"""

DESCRIPTION = """\
Looks at the installation, the rights, the kernel and the processor, mostly by trying; and, of
a process or file, at how it was linked, which of its images can be hooked, which C library
and interpreter it is, and about what each way to trace it costs.
"""

EPILOG = """\
exit status: 0 all works, 1 something does not, or could not be found out, 2 wrong usage,
3 not permitted, 4 no such process.
"""

OPTIONS = [
    DEBUG,
    Option(
        "-p",
        "--pid",
        dest="pid",
        kind=VALUE,
        metavar="PID",
        convert=parse_count,
        group="what to look at",
        help="look at this process, too; it is not stopped",
    ),
    Option("--json", dest="json", group="how to show it", help="one JSON document"),
]


class DoctorOptions:
    """What `soscope doctor` was told: a process, a file or neither."""

    __slots__ = ("debug", "json", "path", "pid")

    def __init__(self, *, pid: int | None, path: str | None, json: bool, debug: bool) -> None:
        self.pid = pid
        self.path = path
        self.json = json
        self.debug = debug


def make_parser() -> VerbParser:
    """Make argparse's parser of `soscope doctor`."""
    from soscope.options.parser import VerbParser

    parser = VerbParser(
        "doctor", OPTIONS, usage=USAGE, short=SHORT, description=DESCRIPTION, epilog=EPILOG
    )
    parser.add_argument("path", metavar="FILE", nargs="?", help="a program or library")
    return parser


def parse(arguments: list[str]) -> DoctorOptions:
    """Parse the words behind `soscope doctor`. Raises UsageError, or SystemExit for help."""
    scanned = scan(OPTIONS, arguments)
    if scanned is not None and len(scanned[1]) <= 1:
        values, rest = scanned
        path = rest[0] if rest else None
    else:
        values = Values(OPTIONS)
        make_parser().parse_args(joined(OPTIONS, arguments), values)
        path = values.path
    if path is not None and values.pid is not None:
        raise UsageError("a process or a file, not both", hint="soscope doctor -h shows how")
    return DoctorOptions(pid=values.pid, path=path, json=values.json, debug=values.debug)
