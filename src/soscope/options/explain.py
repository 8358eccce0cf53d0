# SPDX-License-Identifier: Apache-2.0
"""The options of `soscope explain`."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.options.display import DEBUG
from soscope.options.table import VALUE, Option, Values, joined, scan
from soscope.options.units import parse_count

TYPE_CHECKING = False
if TYPE_CHECKING:  # argparse is for help and mistakes
    from soscope.options.parser import VerbParser

USAGE = "soscope explain [options] -p PID SYMBOL"

SHORT = f"""\
usage: {USAGE}

Show step by step how calls of SYMBOL go in a running process, and how a hook gets there.

  --from IMAGE  the calls of this image; MAIN is the program
  --json        for programs

  soscope explain -p 4242 malloc
"""

DESCRIPTION = """\
Follows a call through a process with the addresses of that very process: link map, relocation,
stub, slot, definition, and what a hook would write where. The process is only read.
"""

EPILOG = """\
exit status: 0 fine, 1 no slot for this symbol, 2 wrong usage, 3 not permitted, 4 no such
process.
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
        help="the process; it is not stopped",
    ),
    Option(
        "--from",
        dest="importer",
        kind=VALUE,
        metavar="IMAGE",
        group="what to look at",
        help="calls of this image; MAIN is the program",
    ),
    Option("--json", dest="json", group="how to show it", help="one JSON document"),
]


class ExplainOptions:
    """What `soscope explain` was told; `importer` is None where any image will do."""

    __slots__ = ("debug", "importer", "json", "pid", "symbol")

    def __init__(self, values: Values, pid: int, symbol: str) -> None:
        self.pid = pid
        self.symbol = symbol
        self.importer: str | None = values.importer
        self.json: bool = values.json
        self.debug: bool = values.debug


def make_parser() -> VerbParser:
    """Make argparse's parser of `soscope explain`."""
    from soscope.options.parser import VerbParser

    parser = VerbParser(
        "explain", OPTIONS, usage=USAGE, short=SHORT, description=DESCRIPTION, epilog=EPILOG
    )
    parser.add_argument("symbol", metavar="SYMBOL", help="a function, as NAME or NAME@VERSION")
    return parser


def parse(arguments: list[str]) -> ExplainOptions:
    """Parse the words behind `soscope explain`. Raises UsageError, or SystemExit for help."""
    scanned = scan(OPTIONS, arguments)
    if scanned is not None and len(scanned[1]) == 1:
        values, (symbol,) = scanned
    else:
        values = Values(OPTIONS)
        make_parser().parse_args(joined(OPTIONS, arguments), values)
        symbol = values.symbol
    if values.pid is None:
        raise UsageError("no process", hint="soscope explain -p PID SYMBOL")
    if not symbol.partition("@")[0]:
        raise UsageError(f"'{symbol}' is no symbol")
    return ExplainOptions(values, values.pid, symbol)
