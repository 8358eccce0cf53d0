# SPDX-License-Identifier: Apache-2.0
"""`soscope mem diff`: compare two recordings or snapshots."""

from __future__ import annotations

from soscope.report.output import Form
from soscope.verbs.main import Invocation, note
from soscope.verbs.options import (
    DEBUG,
    FORMAT,
    JSON,
    ROWS_LIMIT,
    Option,
    Values,
    Verb,
    table,
)

USAGE = "soscope mem diff [options] A B"

SHORT = f"""\
usage: {USAGE}

Compare two recordings or snapshots: what has grown from A to B, and where it was made.

  --json
  --limit
  --blocks

  soscope mem snapshot -p 4711 --json >a; sleep 60; soscope mem snapshot -p 4711 --json >b
  soscope mem diff a b

soscope mem diff --help lists all options.
"""

DESCRIPTION = """\
Compare two files by file, line and type: what has grown most from A to B comes first. Each is a
recording that soscope mem run -o REC has made, or a document that soscope mem snapshot --json or
soscope mem report --json has printed.
"""

EPILOG = """\
exit status: 0 fine, 1 a file is none of these, or is not complete, 2 wrong usage.
"""

OPTIONS = table(
    DEBUG,
    "what to look at",
    Option("--blocks", help="native blocks; without it, where no file has objects"),
    JSON,
    FORMAT,
    ROWS_LIMIT,
)

VERB = Verb(
    "mem diff",
    OPTIONS,
    usage=USAGE,
    short=SHORT,
    description=DESCRIPTION,
    epilog=EPILOG,
    argument=("A B", "the earlier and the later file"),
    least=2,
    most=2,
)


class MemDiffOptions:
    """The parsed options of `soscope mem diff`. `limit` is None for all rows."""

    __slots__ = ("blocks", "debug", "json", "limit", "path_a", "path_b")

    def __init__(self, values: Values, paths: list[str]) -> None:
        self.path_a, self.path_b = paths
        self.blocks: bool = values.blocks
        self.json: Form = values.json
        self.limit: int | None = values.rows
        self.debug: bool = values.debug


def parse(arguments: list[str]) -> MemDiffOptions:
    """Parse the words behind `soscope mem diff`. Raises UsageError, or SystemExit for help."""
    return MemDiffOptions(*VERB.read(arguments))


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if a file ends too early or printing failed."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.instruments.mem.diff import compare
    from soscope.report.mem import diff_document, diff_text
    from soscope.verbs.main import show

    diff = compare(options.path_a, options.path_b, blocks=options.blocks)
    make = diff_document if options.json else diff_text
    was_shown = show(options.json.shaped(make(diff, options.limit)))
    for line in diff.notes:
        note(line)
    return 0 if was_shown and diff.is_complete else 1
