# SPDX-License-Identifier: Apache-2.0
"""`soscope trace`: run a command and show its calls into shared libraries."""

from __future__ import annotations

from soscope.cli.main import Invocation, note
from soscope.options.trace import TraceOptions, parse

TYPE_CHECKING = False
if TYPE_CHECKING:  # --help and usage errors need none of it
    from soscope.instruments.trace.listener import Listener
    from soscope.report.output import Output


def run(invocation: Invocation) -> int:
    """Run the verb; return the command's exit status, or die of its signal."""
    options = parse(invocation.words)
    options.settings.debug |= invocation.debug
    invocation.debug = options.settings.debug

    from soscope.cli.exits import leave
    from soscope.instruments.trace.run import run_trace
    from soscope.report.output import Output

    output = Output.open(options.output)
    try:
        outcome = run_trace(options.settings, make_listener(options, output))
    finally:
        output.close()
    if output.error is not None:
        reason = (output.error.strerror or "").lower()
        note(f"cannot write {output.name}: {reason}; {output.lost:,} lines are missing")
    if not options.display.quiet:
        from soscope.report.notes import notes

        for line in notes(outcome, options.display):
            note(line)
    return leave(outcome.status, outcome.signal)


def make_listener(options: TraceOptions, output: Output) -> Listener:
    """Choose the report; only its module is imported."""
    from soscope.instruments.trace.listener import Listener
    from soscope.instruments.trace.settings import MODE_TRACE

    if not options.prints:
        return Listener()
    if options.settings.mode != MODE_TRACE:
        if options.json:
            from soscope.report.summaryjson import SummaryJsonListener

            return SummaryJsonListener(output)
        from soscope.report.summary import SummaryListener

        return SummaryListener(output)
    if options.json:
        from soscope.report.jsonl import JsonLinesListener

        return JsonLinesListener(output, options.display)
    from soscope.report.text import TextListener

    return TextListener(output, options.display)
