# SPDX-License-Identifier: Apache-2.0
"""`soscope report`: show a recording."""

from __future__ import annotations

from soscope.errors import UsageError
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
    check_views,
    choice_from,
    display_from,
    given,
    is_graph,
    table_from,
    top_option,
)
from soscope.verbs.main import Invocation, note
from soscope.verbs.options import (
    DEBUG,
    LIST,
    Option,
    Verb,
    output_option,
    parse_pid,
    selection_options,
    table,
    understand,
)
from soscope.verbs.prof.reading import BIASES, IMAGE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.trace.choice import Choice
    from soscope.select.filter import Selection


USAGE = "soscope report [options] FILE"

SHORT = f"""\
usage: {USAGE}

Show a recording that soscope trace --record made, as the trace would have been.

  -e
  -c
  -T
  -t
  -s
  --json

  soscope report -T run.sosr

soscope report --help lists all options.
"""

DESCRIPTION = """\
Show a recording on standard output: the calls as soscope trace prints them, or the table of
one that was made with -c or --count-only. With -c, the calls become a table, too. If a
recording is still being written, or ends in the middle, its complete part is shown.
"""

EPILOG = """\
exit status: 0 fine, 1 the recording is damaged or not complete, 2 wrong usage.
"""


class ReportOptions:
    """The parsed options of `soscope report`: the file and how to show it.

    `choice` chooses the calls to show, or is None for all. `summary` asks for a table, whose
    settings are `table`, and `both` for the calls, then the table. `svg` is a file for the
    picture of a graph. `image`, `load_bias` and `program_bias` are for profiles of gprof and
    LD_PROFILE, None if not given. `of_calls` are the given options about calls, which such
    profiles do not have.
    """

    __slots__ = (
        "both",
        "choice",
        "debug",
        "display",
        "image",
        "json",
        "load_bias",
        "of_calls",
        "output",
        "path",
        "program_bias",
        "prototypes",
        "summary",
        "svg",
        "table",
    )

    def __init__(
        self,
        path: str,
        display: Display,
        *,
        choice: Choice | None,
        summary: bool,
        both: bool,
        table: TableSettings,
        output: str | None,
        json: Form,
        debug: bool,
        prototypes: list[str],
        svg: str | None,
    ) -> None:
        self.svg = svg
        self.path = path
        self.display = display
        self.choice = choice
        self.summary = summary
        self.both = both
        self.table = table
        self.output = output
        self.json = json
        self.debug = debug
        self.prototypes = prototypes
        self.image: str | None = None
        self.load_bias: int | None = None
        self.program_bias: int | None = None
        self.of_calls: list[str] = []


OPTIONS = table(
    DEBUG,
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
)


# Options that also apply to a profile.
_OF_PROFILES = frozenset("debug quiet json form top output image load_bias program_bias".split())

VERB = Verb(
    "report",
    OPTIONS,
    usage=USAGE,
    short=SHORT,
    description=DESCRIPTION,
    epilog=EPILOG,
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
        for option in OPTIONS
        if option.dest not in _OF_PROFILES
        and getattr(values, option.dest) not in (option.default, None, [])
    ]
    if values.both and values.json.is_markdown:
        raise UsageError(
            "-C and --format md: a page of the calls already lists their functions",
            hint="--format md for the calls, -c --format md for the table",
        )
    if values.both and values.json:
        raise UsageError(
            "-C and --json: calls are JSON Lines, and a table is one document",
            hint="--json for the calls, -c --json for the table",
        )
    if not (values.both or is_graph(values)):
        values.summary |= given(values) is not None
    check_views(values)
    values.summary |= is_graph(values)
    understand(values)
    chosen = values.select or values.from_ or values.to
    options = ReportOptions(
        path,
        display_from(values),
        choice=choice_from(
            values,
            selection=_selection(values.select, values.from_, values.to) if chosen else None,
            pids=values.pids,
            on=_selection(values.on) if values.on else None,
            off=_selection(values.off) if values.off else None,
            last_ns=values.last,
        ),
        summary=values.summary,
        both=values.both,
        table=table_from(values),
        output=values.output,
        json=values.json,
        svg=values.svg,
        debug=values.debug,
        prototypes=values.prototypes,
    )
    options.image = values.image
    options.load_bias = values.load_bias
    options.program_bias = values.program_bias
    options.of_calls = of_calls
    return options


def _selection(
    select: list[str], from_: list[str] | None = None, to: list[str] | None = None
) -> Selection:
    """Compile a filter. Raises UsageError for a faulty one."""
    from soscope.prototypes import load
    from soscope.select.filter import compile_selection

    return compile_selection(select, from_, to, sets=lambda: load().groups())


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if the recording is damaged or incomplete."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    from soscope.verbs.prof.reading import is_foreign

    if is_foreign(options.path):
        return _foreign(options)

    # Imported late, as --help and usage errors do not need it.
    from soscope.instruments.trace.instrument import file_at
    from soscope.instruments.trace.outcome import STOPPED_CUT
    from soscope.instruments.trace.replay import Replay
    from soscope.instruments.trace.settings import MODE_SUMMARY, MODE_TRACE
    from soscope.report.output import STDOUT, Output
    from soscope.report.trace.text import notes
    from soscope.verbs import display as listeners
    from soscope.verbs.scratch import summarize

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
    from soscope.verbs.main import show
    from soscope.verbs.prof.reading import read_foreign

    if options.of_calls:
        raise UsageError(f"{options.of_calls[0]}: {options.path} is a profile, without calls")
    profile = read_foreign(
        options.path,
        options.image,
        load_bias=options.load_bias or 0,
        program_bias=options.program_bias or 0,
    )
    if options.json:
        from soscope.report.prof import document

        shown = options.json.shaped(document(profile), options.path)
    else:
        from soscope.report.prof import text

        shown = text(profile, options.json.most)
    return 0 if show(shown, options.output, not_over=options.path) else 1
