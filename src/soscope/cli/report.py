# SPDX-License-Identifier: Apache-2.0
"""`soscope report`: show a recording."""

from __future__ import annotations

from soscope.cli.main import Invocation, note
from soscope.options.report import parse


def run(invocation: Invocation) -> int:
    """Run the verb; return 0, or 1 if the recording is damaged or ends too early."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # --help and usage errors need none of these
    from soscope.cli import listeners
    from soscope.instruments.trace.outcome import STOPPED_CUT
    from soscope.instruments.trace.replay import Replay
    from soscope.report.notes import notes
    from soscope.report.output import STDOUT, Output

    replay = Replay(options.path)
    try:
        output = Output.open(options.output, STDOUT)
        try:
            listener = listeners.make(replay.mode, output, options.display, json=options.json)
            outcome = replay.run(listener)
        finally:
            output.close()
    finally:
        replay.close()
    if output.error is not None:
        if isinstance(output.error, BrokenPipeError):
            raise output.error
        reason = (output.error.strerror or "").lower()
        note(f"cannot write {output.name}: {reason}; {output.lost:,} lines are missing")
        return 1
    for line in notes(outcome, options.display):
        note(line)
    return 1 if outcome.stopped == STOPPED_CUT else 0
