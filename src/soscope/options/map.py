# SPDX-License-Identifier: Apache-2.0
"""The options of `soscope map`."""

from __future__ import annotations

from soscope.options.display import DEBUG
from soscope.options.process import JSON, pid_option, the_pid
from soscope.options.selection import selection_options
from soscope.options.table import VALUE, Option, Values
from soscope.options.verb import Verb

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
_WHERE = JSON.group

OPTIONS = [
    DEBUG,
    pid_option(),
    *selection_options(
        _WHICH,
        select="only slots of the symbols that the filter expression chooses",
        callers="only slots of this image; MAIN is the program",
        callees="only slots that lead to this image, or would",
    ),
    Option(
        "--changed",
        dest="changed",
        group=_WHICH,
        help="only slots that differ from what the loader would have written",
    ),
    JSON,
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

    def __init__(self, values: Values) -> None:
        self.pid = the_pid(values, USAGE)
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


VERB = Verb(
    "map",
    OPTIONS,
    usage=USAGE,
    short=SHORT,
    description=DESCRIPTION,
    epilog=EPILOG,
)
make_parser = VERB.make_parser


def parse(arguments: list[str]) -> MapOptions:
    """Parse the words behind `soscope map`. Raises UsageError, or SystemExit for help."""
    return MapOptions(VERB.read(arguments)[0])
