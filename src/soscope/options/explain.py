# SPDX-License-Identifier: Apache-2.0
"""The options of `soscope explain`."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.options.display import DEBUG
from soscope.options.process import JSON, pid_option, the_pid
from soscope.options.table import VALUE, Option, Values
from soscope.options.verb import Verb

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
    pid_option(),
    Option(
        "--from",
        dest="importer",
        kind=VALUE,
        metavar="IMAGE",
        group="what to look at",
        help="calls of this image; MAIN is the program",
    ),
    JSON,
]


class ExplainOptions:
    """What `soscope explain` was told; `importer` is None where any image will do."""

    __slots__ = ("debug", "importer", "json", "pid", "symbol")

    def __init__(self, values: Values, symbol: str) -> None:
        self.pid = the_pid(values, USAGE)
        if not symbol.partition("@")[0]:
            raise UsageError(f"'{symbol}' is no symbol")
        self.symbol = symbol
        self.importer: str | None = values.importer
        self.json: bool = values.json
        self.debug: bool = values.debug


VERB = Verb(
    "explain",
    OPTIONS,
    usage=USAGE,
    short=SHORT,
    description=DESCRIPTION,
    epilog=EPILOG,
    argument=("SYMBOL", "a function, as NAME or NAME@VERSION"),
    least=1,
    most=1,
)
make_parser = VERB.make_parser


def parse(arguments: list[str]) -> ExplainOptions:
    """Parse the words behind `soscope explain`. Raises UsageError, or SystemExit for help."""
    values, (symbol,) = VERB.read(arguments)
    return ExplainOptions(values, symbol)
