# SPDX-License-Identifier: Apache-2.0
"""`soscope mem diff`: compare two recordings or snapshots."""

from __future__ import annotations

from soscope.cli.main import Invocation, note
from soscope.options.mem.diff import parse


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if a file ends too early or printing failed."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.cli.output import show
    from soscope.instruments.mem.diff import compare
    from soscope.report.mem import diff_document, diff_text

    diff = compare(options.path_a, options.path_b, blocks=options.blocks)
    make = diff_document if options.json else diff_text
    was_shown = show(options.json.shaped(make(diff, options.limit)))
    for line in diff.notes:
        note(line)
    return 0 if was_shown and diff.is_complete else 1
