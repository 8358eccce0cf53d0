# SPDX-License-Identifier: Apache-2.0
"""`soscope prof run`: run a command and profile its shared libraries."""

from __future__ import annotations

from soscope.cli.main import Invocation
from soscope.options.prof.run import parse


def run(invocation: Invocation) -> int:
    """Run the verb. Return the command's exit status, or die of its signal."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.cli.exits import leave
    from soscope.cli.prof.profiled import profiled, say_notes, settings_of
    from soscope.report.output import STDERR, Output

    settings = settings_of(options.what, options.command)
    outcome, shown = profiled(settings, options.output, options.json, quiet=options.quiet)
    if shown is not None:
        Output(STDERR, "standard error").write(shown)
    if not options.quiet:
        say_notes(outcome, settings)
    return leave(outcome.status, outcome.signal)
