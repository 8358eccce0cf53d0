# SPDX-License-Identifier: Apache-2.0
"""`soscope mem refs`: show what keeps the objects of one line alive."""

from __future__ import annotations

import re

from soscope.errors import UsageError
from soscope.verbs.main import Invocation, show
from soscope.verbs.options import (
    FORM,
    ONCE,
    ROWS_LIMIT,
    Option,
    Verb,
    pid_option,
)

_SAMPLES = 10
_WHERE = re.compile(r"(?P<file>.+?):(?P<line>\d+)(?::(?P<type>.+))?")


VERB = Verb(
    "mem refs",
    pid_option(about="it stands still for some milliseconds, its interpreter longer"),
    "what to look at",
    Option(
        "--sample-size",
        kind=ONCE,
        metavar="N",
        help=f"how many of the objects ({_SAMPLES}), chosen evenly by address",
        aliases=("--samples",),
    ),
    ROWS_LIMIT,
    *FORM,
    usage="soscope mem refs -p PID [options] FILE:LINE[:TYPE]",
    short="""\
Show who holds the objects that a running process has made at one line.

  -p
  --sample-size
  --json

  soscope mem attach -p 4711
  soscope mem refs -p 4711 app.py:12:str
""",
    description="""\
Take some of the living objects that were made at a line. For each, show the shortest path to it
from a root that keeps it alive: a global variable of a module, an attribute of a class, or a
variable of a function that runs. Paths of the same form are counted together. Objects that are
older than soscope mem attach have no line.
""",
    epilog="""\
The interpreter waits while soscope finds out which objects refer to which: about a second for a
million objects.
exit status: 0 fine, 1 the process cannot be visited, does not count its objects, or no object of
that line is alive, 2 wrong usage, 3 not permitted, 4 no such process.
""",
    argument=("FILE:LINE[:TYPE]", "where the objects were made: FILE is a path or its end"),
    least=1,
    most=1,
    needs_pid=True,
)


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if not everything could be printed."""
    values, (words,) = invocation.read(VERB)
    match = _WHERE.fullmatch(words)
    if match is None:
        raise UsageError(f"{words}: not FILE:LINE or FILE:LINE:TYPE, as soscope mem shows them")
    samples: int = _SAMPLES if values.sample_size is None else values.sample_size
    if not samples:
        raise UsageError("--sample-size 0: at least one object has to be looked at")

    from soscope.instruments.mem.refs.model import Where
    from soscope.instruments.mem.refs.refs import refs
    from soscope.report.memrefs import refs_document, refs_text

    where = Where(match["file"], int(match["line"]), match["type"])
    report = refs(values.pid, where, samples=samples)
    make = refs_document if values.json else refs_text
    return 0 if show(values.json.shaped(make(report, values.rows))) else 1
