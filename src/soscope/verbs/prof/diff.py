# SPDX-License-Identifier: Apache-2.0
"""`soscope prof diff`: compare two profiles."""

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

USAGE = "soscope prof diff [options] A B"

SHORT = f"""\
usage: {USAGE}

Compare two profiles: what has become slower from A to B, is called more often, is new, or gone.

  --json
  --limit
  --samples

  soscope prof diff before.sosr after.sosr

soscope prof diff --help lists all options.
"""

DESCRIPTION = """\
Compare two files by function: what has changed most from A to B comes first. Each is a recording
that soscope prof run -o REC or attach -o REC has made, or a document that soscope prof report
--json has printed.
"""

EPILOG = """\
exit status: 0 fine, 1 a file is none of these, or is not complete, 2 wrong usage.
"""

OPTIONS = table(
    DEBUG,
    "what to look at",
    Option(
        "--samples",
        help="samples, and not calls; without it, where not both files have times of calls",
    ),
    JSON,
    FORMAT,
    ROWS_LIMIT,
)

VERB = Verb(
    "prof diff",
    OPTIONS,
    usage=USAGE,
    short=SHORT,
    description=DESCRIPTION,
    epilog=EPILOG,
    argument=("A B", "the earlier and the later file"),
    least=2,
    most=2,
)


class ProfDiffOptions:
    """The parsed options of `soscope prof diff`. `limit` is None for all rows."""

    __slots__ = ("debug", "json", "limit", "path_a", "path_b", "samples")

    def __init__(self, values: Values, paths: list[str]) -> None:
        self.path_a, self.path_b = paths
        self.samples: bool = values.samples
        self.json: Form = values.json
        self.limit: int | None = values.rows
        self.debug: bool = values.debug


def parse(arguments: list[str]) -> ProfDiffOptions:
    """Parse the words behind `soscope prof diff`. Raises UsageError, or SystemExit for help."""
    return ProfDiffOptions(*VERB.read(arguments))


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if a file ends too early or printing failed."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.instruments.prof.diff import compare
    from soscope.report.prof import diff_document, diff_text
    from soscope.verbs.main import show

    diff = compare(options.path_a, options.path_b, samples=options.samples)
    make = diff_document if options.json else diff_text
    was_shown = show(options.json.shaped(make(diff, options.limit)))
    for line in diff.notes:
        note(line)
    return 0 if was_shown and diff.is_complete else 1
