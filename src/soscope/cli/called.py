# SPDX-License-Identifier: Apache-2.0
"""`soscope called`: which exported functions of libraries are called, and which never."""

from __future__ import annotations

from soscope.cli.main import Invocation, note
from soscope.verbs.called import CalledOptions, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.trace.called import CalledImage
    from soscope.instruments.trace.outcome import TraceOutcome


def run(invocation: Invocation) -> int:
    """Run the verb. Return 1 if a function that was asked for was called."""
    options = parse(invocation.words)
    invocation.debug |= options.debug
    invocation.wraps = False

    # Imported late, as --help and usage errors do not need it.
    from soscope.cli.output import show
    from soscope.instruments.trace.called import called_in
    from soscope.instruments.trace.listener import Listener
    from soscope.instruments.trace.run import run_trace
    from soscope.instruments.trace.settings import MODE_COUNT, TraceSettings
    from soscope.report import called
    from soscope.report.trace.display import Display, FunctionNames

    settings = TraceSettings(
        options.command,
        from_=["all"],
        mode=MODE_COUNT,
        follow=options.follow,
        duration_ns=options.duration_ns,
        pids=options.pids,
        wants_events=False,
        debug=options.debug,
    )
    outcome = run_trace(settings, Listener())
    images = called_in(outcome, options.images, options.select)
    notes = _notes(outcome, options, images)
    display = Display()
    names = FunctionNames(display)
    if options.json:
        shown = options.json.shaped(called.document(images, outcome, notes, names.full))
    else:
        shown = called.text(images, names.shown, never=options.never, asked=bool(options.select))
    notes += display.remarks
    was_shown = show(shown)
    if not options.quiet:
        for line in notes:
            note(line)
    if not outcome.programs:  # "not called" would be no answer
        return 1 if options.pids else 2
    failed = outcome.not_attached or any(process.failure for process in outcome.attached)
    was_called = bool(options.select) and any(image.called for image in images)
    return int(was_called or bool(failed) or not was_shown)


def _notes(outcome: TraceOutcome, options: CalledOptions, images: list[CalledImage]) -> list[str]:
    from soscope.control.cost import cost_lines
    from soscope.instruments.trace.called import unmatched
    from soscope.model.call import printable
    from soscope.proc.status import signal_name
    from soscope.report.remarks import attached_lines
    from soscope.report.trace.notes import unseen_lines, untraced_lines

    lines = [
        f"no image is called '{printable(pattern)}'"
        for pattern in unmatched(options.images, outcome)
    ]
    if outcome.command:
        if outcome.signal is not None:
            lines.append(f"the command died of {signal_name(outcome.signal)}")
        elif outcome.status:
            lines.append(f"the command ended with status {outcome.status}")
    lines += untraced_lines(outcome.untraced) + outcome.executed.lines()
    lines += attached_lines(outcome, verbose=False)
    if not outcome.programs:
        return lines
    if options.select and not any(image.functions for image in images):
        wanted = printable(", ".join(options.select))
        lines.append(f"no library that was loaded exports {wanted}")
    functions = [function for image in images for function in image.functions]
    if any(function.is_uncertain or function.is_lower_bound for function in functions):
        lines.append("+ and ?: its address is taken; calls through pointers are not seen")
    lines.append("not seen: calls inside one library")
    return [*lines, *unseen_lines(outcome), *cost_lines(outcome.cost, "counting")]
