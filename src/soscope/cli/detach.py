# SPDX-License-Identifier: Apache-2.0
"""`soscope detach`: remove what a killed soscope has left in a process."""

from __future__ import annotations

from soscope.cli.main import Invocation
from soscope.verbs.detach import parse


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if something could not be undone."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.cli.output import show
    from soscope.control.detach import detach
    from soscope.report.detach import document, text

    removed = detach(options.pid)
    is_told = True
    if not options.quiet:
        is_told = show(options.json.shaped(document(removed)) if options.json else text(removed))
    if not is_told or any(taken.left or taken.kept for _, taken in removed.agents):
        return 1
    return 0
