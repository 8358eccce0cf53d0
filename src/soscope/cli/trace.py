# SPDX-License-Identifier: Apache-2.0
"""`soscope trace`: run a command and show its calls into shared libraries."""

from __future__ import annotations

import os

from soscope.cli.early import Early
from soscope.cli.main import Invocation, note
from soscope.errors import SoscopeError
from soscope.options.trace import names_process, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from soscope.control.outcome import Outcome
    from soscope.instruments.trace.listener import Listener
    from soscope.instruments.trace.outcome import TraceOutcome
    from soscope.options.trace import TraceOptions
    from soscope.report.output import Output
    from soscope.report.trace.display import Display

_STDERR = 2


def run(invocation: Invocation) -> int:
    """Run the verb. Return the command's exit status, or die of its signal."""
    try:
        options = parse(invocation.words)
    except SoscopeError:
        invocation.wraps = not names_process(invocation.words)
        raise
    options.settings.debug |= invocation.debug
    invocation.debug = options.settings.debug
    invocation.wraps = not options.settings.pids

    if options.explain is not None:
        from soscope.cli.prototype import explain

        invocation.wraps = False
        return explain(options.explain, options.settings, json=options.json)

    # Imported late, as --help and usage errors do not need it.
    from soscope.cli import listeners
    from soscope.instruments.trace.listener import Listener
    from soscope.instruments.trace.run import run_trace
    from soscope.report.output import Output

    picture = None if options.svg is None else Output.open(options.svg)

    def make(output: Output) -> Listener:
        return listeners.make(
            options.settings.mode,
            output,
            options.display,
            json=options.json,
            table=options.table,
            picture=picture,
        )

    choice = listeners.with_descriptors(
        options.choice, options.display, live=True, starts=not options.settings.pids
    )

    def chosen(listener: Listener) -> Listener:
        if choice is None:
            return listener
        from soscope.instruments.trace.filters import choose

        return choose(listener, choice)

    early = Early()
    tell = None if options.display.quiet else early
    listener = Listener()
    is_silent = False  # the reader of notes is gone
    outputs: list[Output] = []  # outputs whose missing lines are noted
    if options.separately and options.output is not None:
        from soscope.report.trace.adorned import SeparateListener

        separate = SeparateListener(options.output, make)
        separate.wants_callers = options.display.tree
        outputs = separate.failed
        outcome = run_trace(options.settings, chosen(separate), separate.destination, tell)
    else:
        output = Output.open(options.output)
        outputs += [output]
        if picture is not None:
            outputs += [picture]
            _check_picture(picture, output, options)
        if options.prints and (options.shows_both or not options.tables_calls):
            listener = chosen(make(output))
        try:
            if options.settings.flight is not None:
                from soscope.verbs.scratch import run_with_flights

                outcome = run_with_flights(options, output, tell)
            elif options.prints and options.tables_calls:
                from soscope.cli.tabled import run_with_table

                outcome = run_with_table(options, listener, output, tell)
            else:
                outcome = _run_alone(options, listener, output, tell)
            is_silent = output.is_given_up
        finally:
            for opened in outputs:
                opened.close()
    if not is_silent:
        early.finish()
        say_notes(outcome, outputs, options.display)
    if outcome.verdict is not None:
        note(outcome.verdict.line, prefix="")
    return end(outcome)


def _check_picture(picture: Output, output: Output, options: TraceOptions) -> None:
    """Raise UsageError if a picture would replace another file."""
    from soscope.instruments.trace.run import check_files, file_at

    record = options.settings.record
    check_files(
        options.settings,
        [
            ("--record", None if record is None else file_at(record)),
            ("-o", output.file),
            ("--svg", picture.file),
        ],
    )


def _run_alone(
    options: TraceOptions,
    listener: Listener,
    output: Output,
    tell: Callable[[str], None] | None,
) -> TraceOutcome:
    """Trace. If nothing else is printed on a terminal, show the progress there."""
    from soscope.instruments.trace.run import run_trace

    if os.isatty(_STDERR):
        from soscope.cli.liveline import is_wanted, run_with_line

        if is_wanted(options):
            return run_with_line(options, listener, output, tell)
    return run_trace(options.settings, listener, output, tell)


def end(outcome: Outcome) -> int:
    """Return the exit status of an observation, or die as its command did."""
    from soscope.cli.exits import leave

    if outcome.attached:
        return (
            1
            if outcome.not_attached or any(attachment.failure for attachment in outcome.attached)
            else 0
        )
    if outcome.verdict is not None and not outcome.verdict.is_same:
        return 1
    return leave(outcome.status, outcome.signal)


def say_notes(outcome: TraceOutcome, outputs: list[Output], display: Display) -> None:
    """Print which lines of outputs are missing, and the notes."""
    for output in outputs:
        if output.error is not None:
            reason = (output.error.strerror or "").lower()
            note(f"cannot write {output.name}: {reason}; {output.lost:,} lines are missing")
    if not display.quiet:
        from soscope.report.trace.notes import notes

        for line in notes(outcome, display):
            note(line)
