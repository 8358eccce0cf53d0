# SPDX-License-Identifier: Apache-2.0
"""`soscope report`: show a recording."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.model.record import Record
from soscope.report.output import Form
from soscope.report.trace.display import Display, TableSettings
from soscope.verbs.display import (
    DISPLAY,
    FILTERS,
    LAST,
    ON_OFF,
    PATHS,
    PROTOTYPES,
    SUMMARY,
    VIEWS,
    check_both,
    check_views,
    choice_from,
    display_from,
    given,
    is_graph,
    make,
    table_from,
    top_option,
    with_descriptors,
)
from soscope.verbs.main import Invocation, note, note_lost, show
from soscope.verbs.options import (
    LIST,
    Option,
    Values,
    Verb,
    output_option,
    parse_pid,
    selection_of,
    selection_options,
    understand,
)
from soscope.verbs.prof.reading import BIASES, IMAGE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.trace.choice import Choice


class ReportOptions(Record):
    """The parsed options of `soscope report`: what was `asked`, and what that means.

    `path` is the recording. `choice` chooses the calls to show, or is None for all. `table` is for
    the table of -c. `of_calls` are the given options about calls, which profiles of gprof and
    LD_PROFILE do not have.
    """

    asked: Values
    path: str
    display: Display
    table: TableSettings
    choice: Choice | None
    of_calls: list[str]


# Options that also apply to a profile.
_OF_PROFILES = frozenset("debug quiet json form top output image load_bias program_bias".split())

VERB = Verb(
    "report",
    "what to show",
    Option(
        "-c",
        "--summary",
        rivals="mode",
        help="a table of calls, times and errors instead of the calls",
    ),
    Option(
        "-C",
        "--summary-too",
        dest="both",
        rivals="mode",
        help="the calls, and behind them the table of -c",
    ),
    *selection_options(
        "which calls",
        select="calls that this filter expression chooses (repeatable: one of them)",
        from_="calls made by this image; all: every image",
        to="calls to functions of this image",
    ),
    "which calls",
    Option(
        "-p",
        "--pid",
        dest="pids",
        kind=LIST,
        metavar="PID",
        convert=parse_pid,
        help="calls of this process (repeatable)",
    ),
    *ON_OFF,
    LAST,
    *FILTERS,
    PROTOTYPES,
    *DISPLAY,
    PATHS,
    *VIEWS,
    # Not in `trace`, of which --limit was the size of a recording.
    *[top_option("--limit") if option.dest == "top" else option for option in SUMMARY],
    IMAGE,
    *BIASES,
    output_option("FILE", "write to FILE"),
    usage="soscope report [options] FILE",
    short="""\
Show a recording that soscope trace --record made, as the trace would have been.

  -e
  -c
  -T
  -t
  -s
  --json

  soscope report -T run.sosr
""",
    description="""\
Show a recording on standard output: the calls as soscope trace prints them, or the table of
one that was made with -c or --count-only. With -c, the calls become a table, too. If a
recording is still being written, or ends in the middle, its complete part is shown.
""",
    epilog="""\
exit status: 0 fine, 1 the recording is damaged or not complete, 2 wrong usage.
""",
    argument=("FILE", "the recording"),
    least=1,
    most=1,
    habits=True,
)


def parse(arguments: list[str]) -> ReportOptions:
    """Parse the words behind `soscope report`. Raises UsageError, or SystemExit for help."""
    values, (path,) = VERB.read(arguments)
    of_calls = [
        option.flags[-1]
        for option in VERB.options
        if option.dest not in _OF_PROFILES and getattr(values, option.dest) != option.unset
    ]
    check_both(values, "--json for the calls, -c --json for the table")
    if not (values.both or is_graph(values)):
        values.summary |= given(values) is not None
    check_views(values)
    values.summary |= is_graph(values)
    understand(values)
    chosen = values.select or values.from_ or values.to
    choice = choice_from(
        values,
        selection=selection_of(values.select, values.from_, values.to) if chosen else None,
        pids=values.pids,
        on=selection_of(values.on) if values.on else None,
        off=selection_of(values.off) if values.off else None,
        last_ns=values.last,
    )
    return ReportOptions(values, path, display_from(values), table_from(values), choice, of_calls)


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if the recording is damaged or incomplete."""
    options = parse(invocation.words)
    values, display = options.asked, options.display
    invocation.debug |= values.debug

    from soscope.verbs.prof.reading import is_foreign

    if is_foreign(options.path):
        return _foreign(options)

    from soscope.instruments.trace.outcome import STOPPED_CUT
    from soscope.instruments.trace.replay import Replay
    from soscope.instruments.trace.settings import MODE_SUMMARY, MODE_TRACE, file_at
    from soscope.report.output import STDOUT, Output
    from soscope.report.trace.text import notes
    from soscope.verbs.scratch import summarize

    replay = Replay(options.path, values.prototypes)
    try:
        if values.image is not None or values.load_bias is not None:
            raise UsageError("--image and --load-bias are for profiles of gprof and LD_PROFILE")
        output = Output.open(values.output, STDOUT)
        picture = None if values.svg is None else Output.open(values.svg)
        display.several = replay.has_several
        try:
            if output.file == file_at(options.path):
                raise UsageError("-o names the recording itself")
            if picture is not None and picture.file == file_at(options.path):
                raise UsageError("--svg names the recording itself")
            if picture is not None and picture.file is not None and picture.file == output.file:
                raise UsageError("-o and --svg name the same file")
            output.begin()
            is_summary = values.summary and not options.table.tree
            mode = MODE_SUMMARY if is_summary else replay.mode
            if display.tree and not replay.has_calls:
                raise UsageError(
                    "--tree: the recording holds sums and no calls",
                    hint="record calls: soscope trace --record FILE without -c and --count-only",
                )
            choice = with_descriptors(options.choice, display, live=False)
            both = values.both and mode == MODE_TRACE
            listener = make(
                mode,
                output,
                display,
                json=values.json,
                injected=replay.injected,
                table=options.table,
                picture=picture,
            )
            if is_summary:
                outcome = replay.summarize(
                    listener,
                    lambda: output.is_read,
                    choice,
                    durations=options.table.needs_durations,
                )
            else:
                outcome = replay.run(listener, lambda: output.is_read, choice)
            if both and output.is_open:
                summarize(options.path, output, options, Form())
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
            note_lost(written)
            return 1
    if not display.quiet and options.table.needs_durations and not replay.has_calls:
        note("no durations of single calls: they were counted (-c), and not recorded")
    outcome.remarks += replay.lacks_shown(
        depth=display.stacks,
        string_limit=display.string_limit,
        has_durations=display.durations and not is_summary,
    )
    note(*notes(outcome, display))
    if replay.injected is not None and not display.quiet:
        from soscope.report.trace.json import rule_notes

        note(*rule_notes(replay.injected))
    return 1 if outcome.stopped == STOPPED_CUT else 0


def _foreign(options: ReportOptions) -> int:
    """Show a profile of gprof or LD_PROFILE. Return 0, or 1 if it was not written."""
    from soscope.report.prof import document, text
    from soscope.verbs.prof.reading import read_foreign

    values = options.asked
    if options.of_calls:
        raise UsageError(f"{options.of_calls[0]}: {options.path} is a profile, without calls")
    profile = read_foreign(options.path, values)
    shown = document(profile) if values.json else text(profile, values.json.most)
    shown = values.json.shaped(shown, options.path)
    return 0 if show(shown, values.output, not_over=options.path) else 1
