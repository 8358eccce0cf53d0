# SPDX-License-Identifier: Apache-2.0
"""`soscope prof diff`: compare two profiles."""

from __future__ import annotations

from soscope.verbs.main import Invocation, note, show
from soscope.verbs.options import (
    FORM,
    ROWS_LIMIT,
    Option,
    Verb,
)

VERB = Verb(
    "prof diff",
    "what to look at",
    Option(
        "--samples",
        help="samples, and not calls; without it, where not both files have times of calls",
    ),
    *FORM,
    ROWS_LIMIT,
    usage="soscope prof diff [options] A B",
    short="""\
Compare two profiles: what has become slower from A to B, is called more often, is new, or gone.

  --json
  --limit
  --samples

  soscope prof diff before.sosr after.sosr
""",
    description="""\
Compare two files by function: what has changed most from A to B comes first. Each is a recording
that soscope prof run -o REC or attach -o REC has made, or a document that soscope prof report
--json has printed.
""",
    epilog="""\
exit status: 0 fine, 1 a file is none of these, or is not complete, 2 wrong usage.
""",
    argument=("A B", "the earlier and the later file"),
    least=2,
    most=2,
)


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if a file ends too early or printing failed."""
    values, (path_a, path_b) = invocation.read(VERB)

    from soscope.instruments.prof.diff import compare
    from soscope.report.prof import diff_document, diff_text

    diff = compare(path_a, path_b, samples=values.samples)
    make = diff_document if values.json else diff_text
    was_shown = show(values.json.shaped(make(diff, values.rows)))
    note(*diff.notes)
    return 0 if was_shown and diff.is_complete else 1
