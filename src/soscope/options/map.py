# SPDX-License-Identifier: Apache-2.0
"""The options of `soscope map`."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.options.display import DEBUG
from soscope.options.table import LIST, VALUE, Option, Values, joined, scan
from soscope.options.units import parse_count

TYPE_CHECKING = False
if TYPE_CHECKING:  # argparse is for help and mistakes
    from soscope.options.parser import VerbParser

USAGE = "soscope map [options] -p PID"

SHORT = f"""\
usage: {USAGE}

Show the images of a running process, and what each of their slots leads to now.

  -e EXPR      only slots of these symbols, as soscope trace's -e
  --from IMAGE only slots of this image; --to IMAGE: only those that lead to this one
  --changed    only slots that differ from what the loader would have written
  --svg FILE   a picture of who calls whom; --dot FILE: for graphviz
  --json       for programs

  soscope map -p 4242 -e 'malloc+free'

soscope map --help lists all options.
"""

DESCRIPTION = """\
Lists the images of a process in the order of the loader, with their mappings, and every slot
through which they reach symbols of others: unbound, bound, interposed or hooked. The process
is not stopped, and no code runs in it.
"""

EPILOG = """\
exit status: 0 fine, 1 no such slot or not all could be read, 2 wrong usage, 3 not permitted,
4 no such process.
"""

_WHICH = "which slots"
_WHERE = "how to show them"

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
        help="the process; it is not stopped",
    ),
    Option(
        "-e",
        "--select",
        dest="select",
        kind=LIST,
        metavar="EXPR",
        group=_WHICH,
        help="only slots of the symbols that the filter expression chooses",
    ),
    Option(
        "--from",
        dest="callers",
        kind=LIST,
        metavar="IMAGE",
        group=_WHICH,
        help="only slots of this image; MAIN is the program",
    ),
    Option(
        "-l",
        "--to",
        dest="callees",
        kind=LIST,
        metavar="IMAGE",
        group=_WHICH,
        help="only slots that lead to this image, or would",
    ),
    Option(
        "--changed",
        dest="changed",
        group=_WHICH,
        help="only slots that differ from what the loader would have written",
    ),
    Option("--json", dest="json", group=_WHERE, help="one JSON document"),
    Option(
        "--svg",
        dest="svg",
        kind=VALUE,
        metavar="FILE",
        group=_WHERE,
        help="write a picture of who calls whom to FILE",
    ),
    Option(
        "--dot",
        dest="dot",
        kind=VALUE,
        metavar="FILE",
        group=_WHERE,
        help="write the same as a graph for graphviz to FILE",
    ),
]


class MapOptions:
    """What `soscope map` was told; `svg` and `dot` are files, None where none is wanted."""

    __slots__ = ("callees", "callers", "changed", "debug", "dot", "json", "pid", "select", "svg")

    def __init__(self, values: Values, pid: int) -> None:
        self.pid = pid
        self.select: list[str] = values.select
        self.callers: list[str] = values.callers
        self.callees: list[str] = values.callees
        self.changed: bool = values.changed
        self.json: bool = values.json
        self.svg: str | None = values.svg
        self.dot: str | None = values.dot
        self.debug: bool = values.debug

    @property
    def is_filtered(self) -> bool:
        """Say whether some slots alone are wanted."""
        return bool(self.select or self.callers or self.callees or self.changed)


def make_parser() -> VerbParser:
    """Make argparse's parser of `soscope map`."""
    from soscope.options.parser import VerbParser

    return VerbParser(
        "map", OPTIONS, usage=USAGE, short=SHORT, description=DESCRIPTION, epilog=EPILOG
    )


def parse(arguments: list[str]) -> MapOptions:
    """Parse the words behind `soscope map`. Raises UsageError, or SystemExit for help."""
    scanned = scan(OPTIONS, arguments)
    if scanned is not None and not scanned[1]:
        values = scanned[0]
    else:
        values = Values(OPTIONS)
        make_parser().parse_args(joined(OPTIONS, arguments), values)
    if values.pid is None:
        raise UsageError("no process", hint="soscope map -p PID")
    return MapOptions(values, values.pid)
