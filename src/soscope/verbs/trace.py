# SPDX-License-Identifier: Apache-2.0
"""`soscope trace`: run a command and show its calls into shared libraries."""

from __future__ import annotations

import os

from soscope.control import settings as session
from soscope.control.settings import AUTO, ENGINES, ENTRIES
from soscope.errors import UsageError
from soscope.instruments.trace import settings
from soscope.instruments.trace.settings import TraceSettings
from soscope.model.record import Record
from soscope.report.trace.display import Display, TableSettings
from soscope.verbs.display import (
    DISPLAY,
    FILTERS,
    FLIGHT,
    ON_OFF,
    PATHS,
    PROTOTYPES,
    SUMMARY,
    TOGGLE,
    VIEWS,
    asked_of_calls,
    check_both,
    check_command,
    check_views,
    choice_from,
    display_from,
    flight_from,
    given,
    graph_option,
    is_graph,
    stacks_from,
    table_from,
    with_descriptors,
)
from soscope.verbs.display import make as listener_for
from soscope.verbs.main import Early, Invocation, leave, note, note_lost
from soscope.verbs.options import (
    COUNT,
    LIST,
    WHEN,
    Option,
    Values,
    Verb,
    duration_option,
    follow_option,
    names,
    output_option,
    parse_buffer,
    pids_option,
    remote_option,
    selection_options,
    size_text,
    understand,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from soscope.control.outcome import Outcome
    from soscope.instruments.trace.choice import Choice
    from soscope.instruments.trace.listener import Listener
    from soscope.instruments.trace.outcome import TraceOutcome
    from soscope.report.output import Output


def engine_from(values: Values) -> str | None:
    """Return the engine that is asked for. Raises UsageError for conflicting options."""
    engine: str | None = values.engine
    has_words = bool(values.select or values.from_ or values.to)
    if values.inside and not has_words and engine in (None, AUTO) and not values.check:
        engine = ENTRIES
    if engine == ENTRIES and not values.inside:
        raise UsageError("--engine entries: a function is missing", hint="-x SYMBOL")
    if engine == ENTRIES and values.check:
        raise UsageError("--check compares calls through slots, and --engine entries sees none")
    return engine


# The options of `soscope trace`: the words on the command line, and what they become.


def parse_variable(text: str) -> str:
    """Return a variable unchanged. Raises UsageError if it has no name."""
    if not text.partition("=")[0]:
        raise UsageError(f"'{text}' names no variable", hint="for example LANG=C")
    return text


_SYSTEM_CALLS, _OWN_CALLS = "%syscall", "*@MAIN"
_NOT_THE_KERNELS = (
    "-S shows the system calls that go through functions of the C library;"
    " strace shows all that the kernel sees"
)
_KEPT_OF_PATHS = 256  # bytes: -y shows opened paths in full, whatever -s is


class TraceOptions(Record):
    """The parsed options of `soscope trace`: what was `asked`, and what that means.

    `settings` is for the instrument, `display` for the report, and `table` for the table of -c.
    `choice` chooses the calls that are printed, or is None for all. `prints` tells whether anything
    but notes is printed, as --record alone prints nothing.
    """

    asked: Values
    settings: TraceSettings
    display: Display
    table: TableSettings
    choice: Choice | None
    prints: bool

    @property
    def tables_calls(self) -> bool:
        """Return whether the table is made from single calls of a recording."""
        counted = self.settings.mode == settings.MODE_TRACE
        return counted and (self.asked.both or self.table.needs_durations)


_WHICH = "which calls"
_WHAT = "what to keep of them"
_WHERE = "where to"
_COMMAND = "the command"

_PID = pids_option(
    group=_WHICH,
    about="a process that runs already, by number or name; several: -p A -p B, -p A,B",
)


VERB = Verb(
    "trace",
    _PID,
    *selection_options(
        _WHICH,
        select="calls that this filter expression chooses (repeatable: one of them)",
        from_="calls made by this image; all: every image",
        to="calls to functions of this image",
    ),
    "which calls",
    Option(
        "-S",
        "--system-calls",
        help="also functions of the C library that are system calls: -e %syscall",
    ),
    follow_option(
        _WHICH, "children, too; -ff -o FILE: a file for each process, FILE.PID", kind=COUNT
    ),
    _WHAT,
    Option("-c", "--summary", rivals="mode", help="calls, errors and times by function"),
    Option(
        "-C",
        "--summary-too",
        dest="both",
        rivals="mode",
        help="the calls, and at the end the table of -c",
    ),
    Option("--count-only", rivals="mode", help="calls by function: the cheapest"),
    Option("--entry-only", rivals="mode", help="no results and durations: half the cost"),
    _COMMAND,
    Option(
        "-E",
        "--env",
        dest="environ",
        kind=LIST,
        metavar="VAR=VALUE",
        convert=parse_variable,
        help="set a variable of the command's environment; -E VAR removes it (repeatable)",
    ),
    Option(
        "-u", "--user", metavar="USER", help="run the command as this user, with all their groups"
    ),
    "programs of other architectures",
    remote_option(),
    Option(
        "--sysroot",
        metavar="DIR",
        help="where the system of the command's machine lies (Debian's cross libraries)",
    ),
    Option(
        "--qemu",
        metavar="PATH",
        help="the emulator that runs the command (qemu-ARCH, by the command's machine)",
    ),
    Option(
        "--engine",
        metavar="NAME",
        choices=ENGINES,
        help="how its calls are seen: auto, poison (slots that fault), sites (breakpoints), slot",
    ),
    Option(
        "--check",
        help="see its calls by two engines: the last line compares, status 1 if they differ",
    ),
    Option(
        "-x",
        "--inside",
        kind=LIST,
        metavar="SYMBOL[@IMAGE]",
        help="calls of functions inside an image, by their entry points; * and ? may stand in it",
    ),
    duration_option(_WHAT, "stop recording after TIME; the command goes on"),
    *ON_OFF,
    TOGGLE,
    *FLIGHT,
    *FILTERS,
    PROTOTYPES,
    PROTOTYPES.group,
    Option(
        "--explain",
        metavar="SYMBOL",
        help="print what is known of a function, and from where; run nothing",
    ),
    *DISPLAY,
    "how to show them",
    Option(
        "--live",
        metavar="WHEN",
        default=WHEN[0],
        choices=WHEN,
        help="a line on the terminal while nothing else is printed: auto, always, never",
    ),
    PATHS,
    *VIEWS,
    *SUMMARY,
    output_option("FILE", "write to FILE; -: standard output", group=_WHERE),
    _WHERE,
    Option("--record", metavar="FILE", help="keep a recording (and print nothing, without -o)"),
    Option(
        "--buffer",
        metavar="SIZE",
        default=session.DEFAULT_BUFFER,
        convert=parse_buffer,
        help=f"memory between command and soscope ({size_text(session.DEFAULT_BUFFER)})",
    ),
    Option(
        "--max-size",
        metavar="SIZE",
        help="stop recording after SIZE bytes; the command goes on",
        aliases=("--limit",),
    ),
    Option(
        "--when-full",
        metavar="POLICY",
        choices=session.WHEN_FULL,
        help="when the buffer is full: block (the command waits; not with -p), drop (with -p),"
        " overwrite, stop",
    ),
    usage="soscope trace [options] {[--] COMMAND [ARGUMENT...] | -p PID | --remote ADDRESS}",
    short="""\
Run COMMAND and show the calls it makes into shared libraries; -p: of a process.

  -p
  -e
  --from
  -l
  -c
  -T
  -Z
  -f
  -o

  soscope trace -T -e 'open*,read,close' -- cat /etc/hostname
""",
    description="""\
Run COMMAND and show the calls that cross the boundary of its shared libraries, with
arguments and results, as they happen (or counted, with -c). The command's own output,
exit status and signals stay what they are; the trace goes to standard error, or to FILE
with -o.
""",
    epilog="""\
With -p PID, a process that runs already is traced, until --duration is over, Ctrl-C or
SIGTERM: then everything in it is restored. If soscope itself was killed, soscope detach -p
PID does that. -p PID,PID and several -p trace several; -p NAME traces the only process of
that name (as pgrep -x finds it).

EXPR is ltrace's filter expression: rules [+-]SYMBOL@CALLER one after the other; the last
one that matches a call decides. Patterns are globs for the whole name, or POSIX basic
regular expressions between slashes; a comma separates rules like a plus. After the @
follows the image that CALLS (MAIN is the program); -l names the image that is called.
%mem, %file, %desc, %stream, %net, %string, %thread, %process, %dl, %time, %signal and
%syscall are sets of functions.
Without -e, --from and -l, the calls of the program itself are shown.

CONDITION compares the arguments of a call (by their names in its declaration, or arg1,
arg2...), ret, errno, failed, duration, symbol, caller, callee, pid, tid and depth, with
numbers, 'texts' and CONSTANTS, by < <= > >= == != ~ !~ &; and, or, not join such tests.

IMAGE is a glob for the soname (or the file name, if there is none), a path, a /regex/,
MAIN or all. SIZE takes k, M, G and KiB, MiB, GiB (1024), kB, MB, GB (1000). TIME takes
ms, s, m, h.

exit status: COMMAND's, or soscope dies of the signal that killed it; 125 if soscope
itself failed or was misused, 126 if COMMAND cannot be executed, 127 if it was not found.

examples:
  soscope trace ls                                  what ls calls
  soscope trace -c --from all -- python3 -c 'import json'
  soscope trace -e 'malloc,free-@libc.so*' -- prog  but not libc's own
  soscope trace -e %desc -y --slower 1ms -p 4711    slow calls on descriptors
  soscope trace --record run.sosr -- prog           then: soscope report run.sosr
""",
    habits=True,
    runs_command=True,
)


def parse(arguments: list[str]) -> TraceOptions:
    """Parse the words behind `soscope trace`. Raises UsageError, or SystemExit for help."""
    values, command = VERB.read(arguments)
    understand(values)
    check_command(values, command)
    pids: list[int] = values.pids
    if values.remote is not None:
        _check_remote(values, command)
    elif values.explain is None or (pids and command):
        VERB.check_target(command, pids)
    check_sizes(values)
    _check_output(values.output)
    if pids and (values.environ or values.user is not None):
        raise UsageError(
            f"{'-E' if values.environ else '-u'} is for a command:"
            " a process that runs has its environment and user already"
        )
    check_views(values)
    values.summary |= is_graph(values)
    table = table_from(values)
    check_table(values)
    mode = settings.MODE_TRACE
    if values.summary and not table.needs_calls:  # the agent does not keep them
        mode = settings.MODE_SUMMARY
    elif values.count_only:
        mode = settings.MODE_COUNT
    if values.follow > 1:
        _check_separate(values.output, tables=values.summary or values.both or values.count_only)
    flight = flight_from(values)
    prints = values.record is None or values.output is not None or values.svg is not None
    _check_filters(values, mode, prints=prints)
    display = display_from(values, several=len(pids) > 1)
    if values.system_calls:
        display.remarks.append(_NOT_THE_KERNELS)
    if values.entry_only and display.durations:
        display.remarks.append("--entry-only records no ends of calls, so -T shows no durations")
    return TraceOptions(
        values,
        TraceSettings(
            command,
            select=_selected(values),
            from_=_callers(values),
            to=values.to,
            mode=mode,
            follow=bool(values.follow),
            entry_only=values.entry_only,
            string_limit=_kept_of_strings(values),
            prototypes=values.prototypes,
            duration_ns=values.duration,
            buffer=values.buffer,
            limit=values.max_size,
            when_full=values.when_full
            or ("overwrite" if flight is not None else "drop" if pids else "block"),
            record=values.record,
            pids=pids,
            environ=_environment(values.environ) if values.environ else None,
            user=values.user,
            wants_events=prints
            and flight is None
            and mode == settings.MODE_TRACE
            and (table.tree or not values.summary),
            debug=values.debug,
            on=values.on,
            off=values.off,
            toggle=values.toggle,
            flight=flight,
            remote=values.remote,
            sysroot=values.sysroot,
            qemu=values.qemu,
            engine=engine_from(values),
            check=values.check,
            inside=values.inside,
            stacks=stacks_from(values) if mode == settings.MODE_TRACE else 0,
        ),
        display,
        table,
        choice_from(values),
        prints,
    )


def _callers(values: Values) -> list[str]:
    """Return the calling images. By default, a graph has the calls of all images."""
    wanted: list[str] = values.from_
    if is_graph(values) and not (wanted or values.select or values.to):
        return ["all"]
    return wanted


def _selected(values: Values) -> list[str]:
    """Return the arguments of -e, including the one that -S stands for."""
    if not values.system_calls:
        return list(values.select)
    own = [] if values.select or values.from_ or values.to else [_OWN_CALLS]
    return [*values.select, *own, _SYSTEM_CALLS]


def _check_remote(values: Values, command: list[str]) -> None:
    """Refuse options that cannot be combined with the program of a stub."""
    if values.pids:
        raise UsageError("-p PID cannot be combined with --remote")
    if len(command) > 1:
        raise UsageError(
            f"'{command[1]}': the program of a stub has its arguments already",
            hint="soscope trace --remote ADDRESS -- PROGRAM",
        )
    flags = {"-E": values.environ, "-u": values.user, "--qemu": values.qemu}
    for flag, value in flags.items():
        if value:
            raise UsageError(f"{flag} is for a command that soscope starts, and not for --remote")


def _check_output(output: str | None) -> None:
    """Refuse a file name that strace would take for a command."""
    if output is not None and output[:1] in ("|", "!"):
        raise UsageError(
            f"-o '{output}' starts no command, as it does in strace",
            hint=f"-o /dev/fd/3 ... 3> >({output[1:]}); a file that is called so: -o './{output}'",
        )


def _environment(changes: list[str]) -> dict[str, str]:
    """Return our environment with changes: VAR=VALUE sets a variable, VAR removes it."""
    from soscope.control.command import inherited

    environ: dict[str, str] = {}
    for entry in inherited():
        name, equals, value = os.fsdecode(entry).partition("=")
        if equals:
            environ.setdefault(name, value)
    for change in changes:
        name, equals, value = change.partition("=")
        environ.pop(name, None)
        if equals:
            environ[name] = value
    return environ


def _kept_of_strings(values: Values) -> int:
    """Return how many bytes of a string to keep: enough for the paths of -P and -y."""
    longest = max((len(os.fsencode(path)) for path in values.paths), default=0)
    needed = min(longest + 1, settings.MOST_STRING_LIMIT) if longest else 0
    return max(int(values.string_limit), needed, _KEPT_OF_PATHS if values.show_paths else 0)


def _check_filters(values: Values, mode: str, *, prints: bool) -> None:
    """Refuse options that choose single calls if there are no single calls."""
    flags = asked_of_calls(values)
    if not flags:
        return
    shown = " ".join(flags)
    if mode != settings.MODE_TRACE:
        option = graph_option(values) or ("--count-only" if values.count_only else "-c")
        view = option if is_graph(values) else "-c"
        raise UsageError(
            f"{shown}: {option} adds up in the program, where single calls cannot be examined",
            hint=f"trace --record FILE, then: soscope report {view} {shown} ... FILE",
        )
    choice = choice_from(values)
    if values.entry_only and choice is not None and choice.asks_of_end:
        raise UsageError(
            f"{shown}: --entry-only records no ends of calls: no results, errors and durations",
            hint="leave out --entry-only; --count-only counts calls and is cheapest",
        )
    if not prints:
        raise UsageError(
            f"{shown}: a recording keeps all calls, and nothing is printed",
            hint=f"give it to soscope report, or print as well: -o FILE with {shown} ...",
        )


def check_table(values: Values) -> None:
    """Refuse options about a table if there is no table."""
    option = given(values)
    if option and not (values.summary or values.both or values.count_only):
        raise UsageError(
            f"{option} is about the table at the end", hint="add -c, or -C for calls and table"
        )
    if values.count_only and table_from(values).needs_durations:
        raise UsageError(f"{option} is about times, and --count-only takes none", hint="use -c")
    check_both(values, "--json --record FILE, then soscope report -c --json FILE")


def _check_separate(output: str | None, *, tables: bool) -> None:
    """Refuse -ff if there is nothing to write for each process, or no file."""
    if tables:
        raise UsageError(
            "-ff is for calls, and a table covers all processes", hint="-f follows children"
        )
    if output is None or output == "-":
        raise UsageError(
            "-ff writes a file for each process: -o FILE is missing",
            hint="-ff -o FILE writes FILE.PID; -f shows all processes in one trace",
        )


def check_sizes(values: Values) -> None:
    """Refuse sizes that cannot work."""
    if values.max_size is not None and values.record is None:
        raise UsageError(
            "--max-size is about the size of a recording",
            hint="add --record FILE; --top N limits the rows of a table",
        )
    if values.string_limit > settings.MOST_STRING_LIMIT:
        raise UsageError(f"-s: {values.string_limit} is more than {settings.MOST_STRING_LIMIT}")


_STDERR = 2


def run(invocation: Invocation) -> int:
    """Run the verb. Return the command's exit status, or die of its signal."""
    invocation.wraps = not names(VERB.options, invocation.words, _PID)
    options = parse(invocation.words)
    values = options.asked
    options.settings.debug |= invocation.debug
    invocation.debug = options.settings.debug
    invocation.wraps = not options.settings.pids

    if values.explain is not None:
        from soscope.verbs.prototype import explain

        invocation.wraps = False
        return explain(values.explain, options.settings, json=values.json)

    from soscope.instruments.trace.instrument import run_trace
    from soscope.instruments.trace.listener import Listener
    from soscope.report.output import Output

    picture = None if values.svg is None else Output.open(values.svg)

    def make(output: Output) -> Listener:
        return listener_for(
            options.settings.mode,
            output,
            options.display,
            json=values.json,
            table=options.table,
            picture=picture,
        )

    choice = with_descriptors(
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
    if values.follow > 1 and values.output is not None:
        from soscope.report.trace.adorned import SeparateListener

        separate = SeparateListener(values.output, make)
        separate.wants_callers = options.display.tree
        outputs = separate.failed
        outcome = run_trace(options.settings, chosen(separate), separate.destination, tell)
    else:
        output = Output.open(values.output)
        outputs += [output]
        if picture is not None:
            outputs += [picture]
            _check_picture(picture, output, options)
        if options.prints and (values.both or not options.tables_calls):
            listener = chosen(make(output))
        try:
            if options.settings.flight is not None:
                from soscope.verbs.scratch import run_with_flights

                outcome = run_with_flights(options, output, tell)
            elif options.prints and options.tables_calls:
                from soscope.verbs.scratch import run_with_table

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
    from soscope.instruments.trace.settings import check_files, file_at

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
    from soscope.instruments.trace.instrument import run_trace

    if os.isatty(_STDERR):
        from soscope.verbs.scratch import is_wanted, run_with_line

        if is_wanted(options):
            return run_with_line(options, listener, output, tell)
    return run_trace(options.settings, listener, output, tell)


def end(outcome: Outcome) -> int:
    """Return the exit status of an observation, or die as its command did."""
    if outcome.attached:
        failed = any(attachment.failure for attachment in outcome.attached)
        return 1 if outcome.not_attached or failed else 0
    if outcome.verdict is not None and not outcome.verdict.is_same:
        return 1
    return leave(outcome.status, outcome.signal)


def say_notes(outcome: TraceOutcome, outputs: list[Output], display: Display) -> None:
    """Print which lines of outputs are missing, and the notes."""
    for output in outputs:
        note_lost(output)
    if not display.quiet:
        from soscope.report.trace.text import notes

        note(*notes(outcome, display))
