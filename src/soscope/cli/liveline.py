# SPDX-License-Identifier: Apache-2.0
"""A trace with a line of progress on the terminal, if nothing else is written there."""

from __future__ import annotations

import os
from collections.abc import Callable

from soscope.instruments.trace.listener import Listener
from soscope.instruments.trace.outcome import TraceOutcome
from soscope.instruments.trace.run import TraceRun
from soscope.instruments.trace.settings import MODE_TRACE
from soscope.options.live import ALWAYS, NEVER
from soscope.options.trace import TraceOptions
from soscope.report.output import STDERR, Output
from soscope.report.trace.liveline import LiveLine, may_be_shown


def is_wanted(options: TraceOptions) -> bool:
    """Return whether the line is shown, because nothing else is written to the terminal."""
    settings = options.settings
    is_printed = options.prints and options.output is None and settings.mode == MODE_TRACE
    if options.live == NEVER or options.display.quiet or is_printed or not os.isatty(STDERR):
        return False
    return may_be_shown(settings.pids, anyway=options.live == ALWAYS)


def run_with_line(
    options: TraceOptions,
    listener: Listener,
    output: Output,
    tell: Callable[[str], None] | None,
) -> TraceOutcome:
    """Trace as `run_trace` does, with the line of progress."""
    line = LiveLine()

    def tell_alone(text: str) -> None:
        line.clear()
        if tell is not None:
            tell(text)

    run = TraceRun(options.settings, listener, output, tell_alone, beside=[line])
    writer = run.session.writer
    if options.settings.wants_events:
        line.calls = lambda: run.instrument.calls
    elif writer is not None and options.settings.mode == MODE_TRACE:
        line.size = lambda: writer.size
    return run.run()
