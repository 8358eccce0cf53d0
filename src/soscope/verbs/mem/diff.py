# SPDX-License-Identifier: Apache-2.0
"""`soscope mem diff`: compare two recordings or snapshots."""

from __future__ import annotations

from soscope.verbs.main import Invocation, note, show
from soscope.verbs.options import (
    FORM,
    ROWS_LIMIT,
    Option,
    Verb,
)

VERB = Verb(
    "mem diff",
    "what to look at",
    Option("--blocks", help="native blocks; without it, where no file has objects"),
    *FORM,
    ROWS_LIMIT,
    usage="soscope mem diff [options] A B",
    short="""\
Compare two recordings or snapshots: what has grown from A to B, and where it was made.

  --json
  --limit
  --blocks

  soscope mem snapshot -p 4711 --json >a; sleep 60; soscope mem snapshot -p 4711 --json >b
  soscope mem diff a b
""",
    description="""\
Compare two files by file, line and type: what has grown most from A to B comes first. Each is a
recording that soscope mem run -o REC has made, or a document that soscope mem snapshot --json or
soscope mem report --json has printed.
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

    from soscope.instruments.mem.diff import compare
    from soscope.report.mem import diff_document, diff_text

    diff = compare(path_a, path_b, blocks=values.blocks)
    make = diff_document if values.json else diff_text
    was_shown = show(values.json.shaped(make(diff, values.rows)))
    note(*diff.notes)
    return 0 if was_shown and diff.is_complete else 1
