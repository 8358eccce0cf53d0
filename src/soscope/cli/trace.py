# SPDX-License-Identifier: Apache-2.0
"""`soscope trace`: run a command and show its calls into shared libraries."""

from __future__ import annotations

from soscope.cli.main import Invocation, note
from soscope.errors import UsageError
from soscope.options.trace import names_process, parse


def run(invocation: Invocation) -> int:
    """Run the verb; return the command's exit status, or die of its signal."""
    try:
        options = parse(invocation.words)
    except UsageError:
        invocation.wraps = not names_process(invocation.words)
        raise
    options.settings.debug |= invocation.debug
    invocation.debug = options.settings.debug
    invocation.wraps = options.settings.pid is None

    # --help and usage errors need none of these
    from soscope.cli import listeners
    from soscope.cli.exits import leave
    from soscope.instruments.trace.listener import Listener
    from soscope.instruments.trace.run import run_trace
    from soscope.report.output import Output

    output = Output.open(options.output)
    listener = Listener()
    if options.prints:
        mode = options.settings.mode
        listener = listeners.make(mode, output, options.display, json=options.json)
    try:
        outcome = run_trace(options.settings, listener)
    finally:
        output.close()
    if output.error is not None:
        reason = (output.error.strerror or "").lower()
        note(f"cannot write {output.name}: {reason}; {output.lost:,} lines are missing")
    if not options.display.quiet:
        from soscope.report.notes import notes

        for line in notes(outcome, options.display):
            note(line)
    if outcome.attached is not None:
        return 1 if outcome.attached.failure else 0
    return leave(outcome.status, outcome.signal)
