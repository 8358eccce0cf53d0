# SPDX-License-Identifier: Apache-2.0
"""`soscope run`: run a command with functions of the user's own in place of others."""

from __future__ import annotations

from soscope.cli.main import Invocation, note
from soscope.errors import AgentError
from soscope.options.run import parse


def run(invocation: Invocation) -> int:
    """Run the verb. Return the command's exit status, or die of its signal."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.cli.exits import leave
    from soscope.instruments.patch.instrument import run as run_patched
    from soscope.instruments.patch.spec import check_replacements
    from soscope.proc.status import in_full

    check_replacements(options.wanted, command=options.command[0], is_asked=options.check)
    outcome, instrument = run_patched(
        options.command, options.wanted, options.callers, follow=options.follow
    )
    if instrument.failure is not None:
        raise AgentError(instrument.failure)
    if not options.quiet:
        for path, reason in outcome.untraced:
            note(f"{path}: nothing was replaced: {in_full(reason)}")
        for line in (*outcome.executed.lines(), *instrument.notes, *outcome.remarks):
            note(line)
    return leave(outcome.status, outcome.signal)
