# SPDX-License-Identifier: Apache-2.0
"""`soscope detach`: take out of a process what a killed soscope has left in it."""

from __future__ import annotations

from soscope.cli.main import Invocation, note
from soscope.options.detach import parse


def run(invocation: Invocation) -> int:
    """Run the verb; return 0, or 1 where something could not be undone."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # --help and usage errors need none of these
    from soscope.control.detach import detach
    from soscope.report.detach import document, lines
    from soscope.report.output import STDOUT, Output

    removed = detach(options.pid)
    if not options.quiet:
        output = Output.open(None, STDOUT)
        output.write(document(removed) if options.json else lines(removed))
        output.close()
        if output.error is not None:
            if isinstance(output.error, BrokenPipeError):
                raise output.error
            note(f"cannot write {output.name}: {(output.error.strerror or '').lower()}")
    return 1 if any(taken.left or taken.kept for _, taken in removed.agents) else 0
