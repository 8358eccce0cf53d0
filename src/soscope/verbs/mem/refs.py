# SPDX-License-Identifier: Apache-2.0
"""`soscope mem refs`: show what keeps the objects of one line alive."""

from __future__ import annotations

import re

from soscope.errors import UsageError
from soscope.report.output import Form
from soscope.verbs.main import Invocation
from soscope.verbs.options import (
    DEBUG,
    FORMAT,
    JSON,
    ONCE,
    ROWS_LIMIT,
    Option,
    Values,
    Verb,
    parse_count,
    pid_option,
    table,
    the_pid,
)

_SAMPLES = 10
_WHERE = re.compile(r"(?P<file>.+?):(?P<line>\d+)(?::(?P<type>.+))?")

USAGE = "soscope mem refs -p PID [options] FILE:LINE[:TYPE]"

SHORT = f"""\
usage: {USAGE}

Show who holds the objects that a running process has made at one line.

  -p
  --sample-size
  --json

  soscope mem attach -p 4711
  soscope mem refs -p 4711 app.py:12:str

soscope mem refs --help lists all options.
"""

DESCRIPTION = """\
Take some of the living objects that were made at a line. For each, show the shortest path to it
from a root that keeps it alive: a global variable of a module, an attribute of a class, or a
variable of a function that runs. Paths of the same form are counted together. Objects that are
older than soscope mem attach have no line.
"""

EPILOG = """\
The interpreter waits while soscope finds out which objects refer to which: about a second for a
million objects.
exit status: 0 fine, 1 the process cannot be visited, does not count its objects, or no object of
that line is alive, 2 wrong usage, 3 not permitted, 4 no such process.
"""

OPTIONS = table(
    DEBUG,
    pid_option(about="it stands still for some milliseconds, its interpreter longer"),
    "what to look at",
    Option(
        "--sample-size",
        dest="samples",
        kind=ONCE,
        metavar="N",
        convert=parse_count,
        help=f"how many of the objects ({_SAMPLES}), chosen evenly by address",
        aliases=("--samples",),
    ),
    ROWS_LIMIT,
    JSON,
    FORMAT,
)

VERB = Verb(
    "mem refs",
    OPTIONS,
    usage=USAGE,
    short=SHORT,
    description=DESCRIPTION,
    epilog=EPILOG,
    argument=("FILE:LINE[:TYPE]", "where the objects were made: FILE is a path or its end"),
    least=1,
    most=1,
)


class MemRefsOptions:
    """The parsed options of `soscope mem refs`.

    `limit` is None for all paths, and `type` is None for any type.
    """

    __slots__ = ("debug", "file", "json", "limit", "line", "pid", "samples", "type")

    def __init__(self, values: Values, where: str) -> None:
        """Take the options from the parsed words. Raises UsageError."""
        self.pid = the_pid(values, USAGE)
        match = _WHERE.fullmatch(where)
        if match is None:
            raise UsageError(f"{where}: not FILE:LINE or FILE:LINE:TYPE, as soscope mem shows them")
        self.file: str = match["file"]
        self.line = int(match["line"])
        self.type: str | None = match["type"]
        self.samples: int = _SAMPLES if values.samples is None else values.samples
        if not self.samples:
            raise UsageError("--sample-size 0: at least one object has to be looked at")
        self.limit: int | None = values.rows
        self.json: Form = values.json
        self.debug: bool = values.debug


def parse(arguments: list[str]) -> MemRefsOptions:
    """Parse the words behind `soscope mem refs`. Raises UsageError, or SystemExit for help."""
    values, (where,) = VERB.read(arguments)
    return MemRefsOptions(values, where)


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if not everything could be printed."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.instruments.mem.refs.model import Where
    from soscope.instruments.mem.refs.refs import refs
    from soscope.report.memrefs import refs_document, refs_text
    from soscope.verbs.main import show

    where = Where(options.file, options.line, options.type)
    report = refs(options.pid, where, samples=options.samples)
    said = refs_document if options.json else refs_text
    return 0 if show(options.json.shaped(said(report, options.limit))) else 1
