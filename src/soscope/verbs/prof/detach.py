# SPDX-License-Identifier: Apache-2.0
"""`soscope prof detach`: stop profiling a running process."""

from __future__ import annotations

from soscope.cli.main import Invocation, note
from soscope.options.prof.detach import parse


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if something could not be undone."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.cli.output import show
    from soscope.control.detach import detach, stop_owner
    from soscope.report.detach import document, text

    owner = stop_owner(options.pid)
    if owner is not None and not options.quiet:
        note(f"process {options.pid}: soscope {owner} has let go of it")
    removed = detach(options.pid)
    is_told = True
    if options.json and not options.quiet:
        is_told = show(options.json.shaped(document(removed)))
    elif owner is None and not options.quiet:
        is_told = show(text(removed))
    if not is_told or any(taken.left or taken.kept for _, taken in removed.agents):
        return 1
    return 0
