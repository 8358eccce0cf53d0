# SPDX-License-Identifier: Apache-2.0
"""`soscope report`: show a recording."""

from __future__ import annotations

from soscope.cli.main import Invocation, note
from soscope.errors import UsageError
from soscope.report.output import Form
from soscope.verbs.report import ReportOptions, parse


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if the recording is damaged or incomplete."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    from soscope.verbs.prof.reading import is_foreign

    if is_foreign(options.path):
        return _foreign(options)

    # Imported late, as --help and usage errors do not need it.
    from soscope.cli import listeners
    from soscope.cli.tabled import summarize
    from soscope.instruments.trace.outcome import STOPPED_CUT
    from soscope.instruments.trace.replay import Replay
    from soscope.instruments.trace.run import file_at
    from soscope.instruments.trace.settings import MODE_SUMMARY, MODE_TRACE
    from soscope.report.output import STDOUT, Output
    from soscope.report.trace.notes import notes

    replay = Replay(options.path, options.prototypes)
    try:
        if options.image is not None or options.load_bias is not None:
            raise UsageError("--image and --load-bias are for profiles of gprof and LD_PROFILE")
        output = Output.open(options.output, STDOUT)
        picture = None if options.svg is None else Output.open(options.svg)
        options.display.several = replay.has_several
        try:
            if output.file == file_at(options.path):
                raise UsageError("-o names the recording itself")
            if picture is not None and picture.file == file_at(options.path):
                raise UsageError("--svg names the recording itself")
            if picture is not None and picture.file is not None and picture.file == output.file:
                raise UsageError("-o and --svg name the same file")
            output.begin()
            is_summary = options.summary and not options.table.tree
            mode = MODE_SUMMARY if is_summary else replay.mode
            if options.display.tree and not replay.has_calls:
                raise UsageError(
                    "--tree: the recording holds sums and no calls",
                    hint="record calls: soscope trace --record FILE without -c and --count-only",
                )
            choice = listeners.with_descriptors(options.choice, options.display, live=False)
            both = options.both and mode == MODE_TRACE
            listener = listeners.make(
                mode,
                output,
                options.display,
                json=options.json,
                injected=replay.injected,
                table=options.table,
                picture=picture,
            )

            def is_heard() -> bool:
                return output.is_read

            if is_summary:
                outcome = replay.summarize(
                    listener, is_heard, choice, durations=options.table.needs_durations
                )
            else:
                outcome = replay.run(listener, is_heard, choice)
            if both and output.is_open:
                summarize(
                    options.path,
                    output,
                    options.display,
                    options.table,
                    json=Form(),
                    choice=options.choice,
                )
        finally:
            output.close()
            if picture is not None:
                picture.close()
    finally:
        replay.close()
    for written in (output, picture):
        if written is not None and written.error is not None:
            if isinstance(written.error, BrokenPipeError):
                raise written.error
            reason = (written.error.strerror or "").lower()
            note(f"cannot write {written.name}: {reason}; {written.lost:,} lines are missing")
            return 1
    if not options.display.quiet and options.table.needs_durations and not replay.has_calls:
        note("no durations of single calls: they were counted (-c), and not recorded")
    display = options.display
    outcome.remarks += replay.lacks_shown(
        depth=display.stacks,
        string_limit=display.string_limit,
        has_durations=display.durations and not is_summary,
    )
    for line in notes(outcome, options.display):
        note(line)
    if replay.injected is not None and not options.display.quiet:
        from soscope.report.trace.json import rule_notes

        for line in rule_notes(replay.injected):
            note(line)
    return 1 if outcome.stopped == STOPPED_CUT else 0


def _foreign(options: ReportOptions) -> int:
    """Show a profile of gprof or LD_PROFILE. Return 0, or 1 if it was not written."""
    from soscope.verbs.prof.reading import read_foreign, show

    if options.of_calls:
        raise UsageError(f"{options.of_calls[0]}: {options.path} is a profile, without calls")
    profile = read_foreign(
        options.path,
        options.image,
        load_bias=options.load_bias or 0,
        program_bias=options.program_bias or 0,
    )
    top, output = options.json.most, options.output
    return 0 if show(profile, options.json, top, output, not_over=options.path) else 1
