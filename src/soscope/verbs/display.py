# SPDX-License-Identifier: Apache-2.0
"""The options that trace and report share: which calls are printed, and how."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.instruments.trace.listener import Listener
from soscope.instruments.trace.settings import MODE_TRACE
from soscope.report.output import Form, Output
from soscope.report.trace import display as names
from soscope.report.trace.display import (
    COLOUR_AUTO,
    COLOURS,
    RESULT_COLUMN,
    TIME_EPOCH,
    Display,
    TableSettings,
)
from soscope.verbs.options import (
    COUNT,
    LIST,
    Option,
    Values,
    format_option,
    parse_count,
    parse_duration,
    table,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from soscope.control.flight import FlightSettings
    from soscope.instruments.trace.choice import Choice, Moment
    from soscope.select.filter import Selection


# The display options that trace and report share, and the listener that prints accordingly.


# Letters that mean something else in strace, recognised by the word behind them. In soscope `-n`
# and `-A` take a word, and in strace they take none. In soscope `-b` and `-S` take no word, and in
# strace they take one.

_INDENT = "-n N indents nested calls; strace's -n: --json has addresses, no numbers of system calls"
_ELEMENTS = "-A N shows N elements of arrays; strace's -A: -o -, and >> FILE of the shell"
_DETACH = "strace's -b execve: without -f, a process that executes another program is let go of"
_SORT = "strace's -S of -c is --sort KEY; -S shows functions that are system calls, too"
# The sort orders of strace. None of these words is a program that users trace.
_SORTED_BY = frozenset(
    """avg-time calls count errors error max-time min-time name none nothing syscall syscall-name
    time-avg time-max time-min time-total total total-time""".split()
)


def _count_or(hint: str) -> Callable[[str], int]:
    """Return a function that parses a number, with a hint in its UsageError."""

    def parse(text: str) -> int:
        try:
            return parse_count(text)
        except UsageError as error:
            raise UsageError(error.message, hint=hint, slug="number") from None

    return parse


def check_command(values: Values, command: list[str]) -> None:
    """Refuse a command that is strace's word for -b or -S, unless such a program exists."""
    word = command[0] if command else ""
    if values.no_signals and word == "execve":
        option, hint = "-b", _DETACH
    elif values.system_calls and word in _SORTED_BY:
        option, hint = "-S", _SORT
    else:
        return
    from shutil import which

    if which(word) is None:
        raise UsageError(f"{option} takes no word, and no program is called '{word}'", hint=hint)


# The options of the table of `-c`, which `soscope trace` and `soscope report` share.

_GROUP = "the table of -c"
_GROUP_DISPLAY = "how to show them"


def parse_column(word: str) -> str:
    """Return the column that a word denotes. Raises UsageError."""
    name = names.ALIASES.get(word.lower(), word.lower())
    if name not in names.COLUMNS:
        raise UsageError(
            f"'{word}' is no column of the table", hint=f"there are {', '.join(names.COLUMNS)}"
        )
    return name


def parse_columns(words: str) -> tuple[str, ...]:
    """Return the columns of a list of words separated by commas. Raises UsageError."""
    columns = tuple(parse_column(word.strip()) for word in words.split(","))
    for column in columns:
        if columns.count(column) > 1:
            raise UsageError(f"the column {column} is named twice")
    return columns


def _parse_top(word: str) -> int:
    """Return a number of rows. Raises UsageError."""
    count = parse_count(word)
    if not count:
        raise UsageError("0 is not a number of rows")
    return count


def top_option(*aliases: str) -> Option:
    """Return --top. `aliases` are spellings of which no help tells."""
    return Option(
        "--top",
        metavar="N",
        convert=_parse_top,
        group=_GROUP,
        help="the first N rows, and one for the rest",
        aliases=aliases,
    )


SUMMARY = table(
    _GROUP,
    Option(
        "--sort",
        metavar="KEY",
        convert=parse_column,
        help="order of the rows: seconds (usual), total, calls, errors, min, max, name, …",
    ),
    Option(
        "--by",
        metavar="WHAT",
        choices=names.GROUPS,
        help="a row for each symbol, image that is called, or caller and symbol",
    ),
    Option(
        "-U",
        "--columns",
        metavar="COLUMNS",
        default=(),
        convert=parse_columns,
        help="these columns in this order: -U calls,p99,name",
    ),
    top_option(),
    Option("--inclusive", help="times include nested calls, as in ltrace"),
    Option("--histogram", help="how many calls took how long, and percentiles"),
)


# Grouping -> columns that it adds up over, and that the table does not have.
_LACKS = {
    names.BY_SYMBOL: (names.CALLER, names.CALLEE),
    names.BY_IMAGE: (names.CALLER,),
    names.BY_CALLER: (names.CALLEE,),
}


def table_from(values: Values) -> TableSettings:
    """Return the settings of the table. Raises UsageError."""
    by = values.by or ""
    columns, sort = values.columns, values.sort or ""
    for name in (*columns, sort):
        if name in _LACKS.get(by, ()):
            raise UsageError(
                f"--by {by}: a row sums up calls with several values of the column {name}",
                hint="without --by, -U caller,callee,name has a row for each of them",
            )
    if by == names.BY_IMAGE:  # the name of a row is the image
        columns = tuple(dict.fromkeys(map(_of_image, columns)))
        sort = _of_image(sort)
    return TableSettings(
        sort=sort,
        by=by,
        columns=columns,
        top=values.top,
        inclusive=values.inclusive,
        histogram=values.histogram,
        tree=values.tree and values.summary,
        graph=bool(values.graph or values.svg is not None),
        is_drawn_alone=not values.graph and values.svg is not None,
    )


def _of_image(column: str) -> str:
    return names.CALLEE if column == names.NAME else column


def check_both(values: Values, hint: str) -> None:
    """Raise UsageError if -C asks for calls and a table in one document. `hint` is for --json."""
    if values.both and values.json.is_markdown:
        raise UsageError(
            "-C and --format md: a page of the calls already lists their functions",
            hint="--format md for the calls, -c --format md for the table",
        )
    if values.both and values.json:
        raise UsageError(
            "-C and --json: calls are JSON Lines, and a table is one document", hint=hint
        )


def given(values: Values) -> str | None:
    """Return the first option of the table that was given, None if none was."""
    for option in SUMMARY:
        if option.dest == "top" and values.json.is_markdown:
            continue  # on a page, `top` is about its lists
        if getattr(values, option.dest) != option.default:
            return option.flags[-1]
    return None


# The options for other forms of a trace than lines, for `soscope trace` and `report`.

_FOR_ALL = {"top"}  # options of the table that also apply to call paths and images

VIEWS = table(
    _GROUP_DISPLAY,
    Option(
        "--tree",
        help="calls inside of calls, each with its time; with -c: sums for each way to a call",
    ),
    Option(
        "--graph",
        rivals="mode",
        help="at the end: which image calls which, how often and for how long",
    ),
    Option("--svg", metavar="FILE", help="that graph as a picture; without --graph, no text of it"),
)


def check_views(values: Values) -> None:
    """Raise UsageError for forms that cannot be combined."""
    _check_graph(values)
    if not values.tree:
        return
    if getattr(values, "count_only", False):
        raise UsageError(
            "--tree and --count-only: counters do not record which call made a call",
            hint="--tree -c for sums by call path",
        )
    is_summed = values.summary
    if values.json.is_markdown and not is_summed:
        raise UsageError(
            "--tree and --format md: a page has sums, and not each call",
            hint="--tree for the calls, --tree -c --format md for sums by call path",
        )
    if values.json and not is_summed:
        raise UsageError(
            "--tree and --json: each object of JSON Lines has its depth already",
            hint="--json for the calls, --tree -c --json for sums by call path",
        )
    if is_summed:
        _check_table(values, "rows of --tree -c are ways, the longest time first")


def _check_graph(values: Values) -> None:
    """Raise UsageError for options that cannot be combined with a graph.

    A graph is made from the same data as a table.
    """
    if not is_graph(values):
        return
    for option in ("summary", "both", "count_only", "entry_only", "tree"):
        if getattr(values, option, False):
            raise UsageError(
                f"{graph_option(values)} is a view of its own",
                hint="--record FILE, then each of them by soscope report",
            )
    _check_table(values, "rows of --graph are pairs of images, the most time of their own first")


def is_graph(values: Values) -> bool:
    """Return whether the graph was asked for, as text or as a picture."""
    return bool(graph_option(values))


def graph_option(values: Values) -> str:
    """Return the option that asks for a graph, "" if there is none."""
    if values.graph:
        return "--graph"
    return "" if values.svg is None else "--svg"


def _check_table(values: Values, why: str) -> None:
    for option in SUMMARY:
        if getattr(values, option.dest) != option.default and option.dest not in _FOR_ALL:
            raise UsageError(
                f"{option.flags[-1]}: {why}",
                hint="--top N shows N of them; -c alone is a table",
            )


# The display options, which `soscope trace` and `soscope report` share.

_MOST_COLUMNS = 10_000
MOST_FRAMES = 64  # native frames, and as many of an interpreter

DISPLAY = table(
    _GROUP_DISPLAY,
    Option(
        "-t",
        "--time",
        kind=COUNT,
        help="begin lines with the time; -tt: with microseconds; -ttt: as seconds since 1970",
    ),
    Option("-r", "--relative", help="begin lines with the time since the one before"),
    Option("-T", "--durations", help="end lines with the time in the call"),
    Option(
        "-s",
        "--string-limit",
        metavar="N",
        default=32,
        convert=parse_count,
        help="bytes of a string to show (32)",
    ),
    Option("--no-demangle", help="names of C++ as they are linked"),
    Option(
        "-A",
        "--elements",
        metavar="N",
        convert=_count_or(_ELEMENTS),
        help="elements of an array to show (all that were kept)",
    ),
    Option(
        "-n",
        "--indent",
        metavar="N",
        default=0,
        convert=_count_or(_INDENT),
        help="indent by N columns for each call that a call is inside of",
    ),
    Option(
        "-a",
        "--align",
        dest="column",
        metavar="COLUMN",
        convert=parse_count,
        help=f"where the equals sign stands ({RESULT_COLUMN})",
    ),
    Option(
        "-i",
        "--instruction-pointer",
        dest="places",
        help="begin lines with where the call returns to: [image+0x1234]",
    ),
    Option(
        "-k",
        "--stack-traces",
        dest="has_stacks",
        help="below each line, the stack of the call: native, Python's and Ruby's frames",
    ),
    Option(
        "--stack-depth", metavar="N", help=f"frames of a stack at most, with -k ({MOST_FRAMES})"
    ),
    Option(
        "--color",
        dest="colour",
        metavar="WHEN",
        default=COLOUR_AUTO,
        choices=COLOURS,
        help="colours: auto (on a terminal, without NO_COLOR), always, never",
    ),
    Option("--json", help="JSON Lines, one for each event; with -c one document"),
    format_option(_GROUP_DISPLAY),
    Option("-q", "--quiet", rivals="volume", help="no notes at the end"),
    Option("-v", "--verbose", rivals="volume", help="more notes at the end"),
)

PROTOTYPES = Option(
    "-F",
    "--prototypes",
    kind=LIST,
    metavar="FILE",
    group="what to know of functions",
    help="declarations in C of functions to be shown by (repeatable)",
)

PATHS = Option(
    "-y",
    "--decode-fds",
    dest="show_paths",
    kind=COUNT,
    group=_GROUP_DISPLAY,
    help="what descriptors are of: 3</etc/hostname>",
)


def stacks_from(values: Values) -> int:
    """Return how many frames of a stack are wanted, 0 for none. Raises UsageError."""
    has_stacks, depth = getattr(values, "has_stacks", False), getattr(values, "stack_depth", None)
    if has_stacks and (values.summary or getattr(values, "count_only", False)):
        if is_graph(values):
            raise UsageError(
                "-k shows the stack of each call, and a graph has none",
                hint="-k --record FILE, then: soscope report --graph FILE",
            )
        raise UsageError(
            "-k shows the stack of each call, and a table has none",
            hint="-C -k shows calls and table",
        )
    if has_stacks and values.json.is_markdown:
        raise UsageError(
            "-k shows the stack of each call, and a page of --format md has none",
            hint="--json prints it as the member stack",
        )
    if depth is None:
        return MOST_FRAMES if has_stacks else 0
    if not has_stacks:
        raise UsageError("--stack-depth is about stacks", hint="add -k")
    if not 1 <= depth <= MOST_FRAMES:
        raise UsageError(f"--stack-depth: {depth} is not between 1 and {MOST_FRAMES}")
    return int(depth)


def display_from(values: Values, *, several: bool = False) -> Display:
    """Return the display settings. `several`: more than one process is traced from the start."""
    column = values.column
    if column is None:
        column = 0 if getattr(values, "tree", False) else RESULT_COLUMN
    return Display(
        time=min(values.time, TIME_EPOCH),
        relative=values.relative,
        durations=values.durations,
        string_limit=values.string_limit,
        elements=values.elements,
        indent=min(values.indent, _MOST_COLUMNS),
        column=min(column, _MOST_COLUMNS),
        places=values.places,
        stacks=stacks_from(values),
        paths=bool(getattr(values, PATHS.dest, 0)),
        colour=values.colour,
        quiet=values.quiet,
        verbose=values.verbose,
        several=several,
        demangles=not values.no_demangle,
        tree=getattr(values, "tree", False),
    )


# Chooses the listener for a trace, live or read back. Only its module is imported.


def make(
    mode: str,
    output: Output,
    display: Display,
    *,
    json: Form,
    injected: dict[str, object] | None = None,
    table: TableSettings | None = None,
    picture: Output | None = None,
) -> Listener:
    """Return the listener that shows a trace of this mode on `output`.

    `injected` are the rules that were applied to its calls, None if there were none. `table` are
    the settings for -c, and `picture` is the output for the picture of a graph.
    """
    if table is not None and table.tree and mode == MODE_TRACE:
        from soscope.report.trace.tree import TreeJsonListener, TreeTableListener

        if json:
            return TreeJsonListener(output, display, json)
        return TreeTableListener(output, table, display)
    if table is not None and table.graph:
        from soscope.report.trace.graph import GraphListener

        text = None if table.is_drawn_alone else output
        return GraphListener(text, table, display, form=json, picture=picture)
    if mode != MODE_TRACE:
        if json:
            from soscope.report.trace.table import SummaryJsonListener

            return SummaryJsonListener(output, table, display, json)
        from soscope.report.trace.table import SummaryListener

        return SummaryListener(output, table, display)
    if injected is not None:
        from soscope.report.trace.json import make as make_injected

        return make_injected(output, display, lambda: injected, form=json)
    if json.is_markdown:
        from soscope.report.trace.json import PageListener

        return PageListener(output, display, json)
    if json:
        from soscope.report.trace.json import JsonLinesListener

        return JsonLinesListener(output, display)
    if display.tree:
        from soscope.report.trace.tree import TreeListener

        return TreeListener(output, display)
    from soscope.report.trace.text import TextListener

    return TextListener(output, display)


def with_descriptors(
    choice: Choice | None, display: Display, *, live: bool, starts: bool = False
) -> Choice | None:
    """Return a choice that knows the files of descriptors, if -y or -P needs that.

    `live` means that the processes can be examined, and `starts` that a command will be started.
    """
    if not display.paths and (choice is None or not choice.paths):
        return choice
    from soscope.instruments.trace.choice import Choice
    from soscope.instruments.trace.descriptors import Descriptors, inherited, of_process

    choice = choice or Choice()
    choice.descriptors = Descriptors(of_process if live else None, inherited() if starts else None)
    if display.paths:
        display.descriptors = choice.descriptors
    return choice


# The options that choose among calls, and the options that start and stop recording.

# The options that choose single calls, which `trace` and `report` share.

_GROUP_FILTERS = "which of them to show"
_SECOND = 1_000_000_000  # nanoseconds
_EPOCH = 1_000_000_000  # seconds: no trace takes so long, and every clock shows more


def parse_level(text: str) -> int:
    """Return how many levels of calls are wanted, at least one. Raises UsageError."""
    levels = parse_count(text)
    if not levels:
        raise UsageError("'0' levels show nothing", hint="1 shows only the outermost calls")
    return levels


def parse_moment(text: str) -> Moment:
    """Return a moment: `1.5s`, `12:34:56.789` or `1700000000.5`. Raises UsageError."""
    from soscope.instruments.trace import choice

    if ":" in text:
        return choice.Moment(choice.CLOCK, _of_day(text))
    seconds, _, part = text.partition(".")
    is_number = all(word.isascii() and word.isdigit() for word in (seconds, part or "0"))
    if is_number and len(seconds) <= 10 and len(part) <= 9:
        ns = int(seconds) * _SECOND + int(part.ljust(9, "0"))
        return choice.Moment(choice.EPOCH if int(seconds) >= _EPOCH else choice.AFTER, ns)
    try:
        return choice.Moment(choice.AFTER, parse_duration(text))
    except UsageError as error:
        raise UsageError(
            f"'{text}' is no moment",
            hint="2s after the beginning, 12:34:56.5, or seconds since 1970",
            slug="unit",
        ) from error


def _of_day(text: str) -> int:
    """Return the ns since midnight of `12:34`, `12:34:56` or `12:34:56.789`."""
    clock, _, part = text.partition(".")
    words = clock.split(":")
    if (
        len(words) not in (2, 3)
        or not all(word.isascii() and word.isdigit() and len(word) <= 2 for word in words)
        or (part and not (part.isascii() and part.isdigit()))
        or len(part) > 9
    ):
        raise UsageError(f"'{text}' is no time of the day", hint="for example 12:34:56.789")
    hours, minutes, seconds = map(int, [*words, "0"][:3])
    if hours > 23 or minutes > 59 or seconds > 60:
        raise UsageError(f"'{text}' is no time of the day", hint="for example 12:34:56.789")
    return ((hours * 60 + minutes) * 60 + seconds) * _SECOND + int(part.ljust(9, "0"))


FILTERS = table(
    _GROUP_FILTERS,
    Option("--slower", metavar="TIME", help="calls that take TIME or more: 5ms, 1s"),
    Option(
        "-z",
        "--successful-only",
        dest="successes",
        rivals="ends",
        help="calls that returned and did not fail",
    ),
    Option("-Z", "--failed-only", dest="failures", rivals="ends", help="calls that failed"),
    Option(
        "--where",
        kind=LIST,
        metavar="CONDITION",
        help="calls of which it holds: 'ret < 0', 'size > 1MiB' (repeatable: all of them)",
    ),
    Option(
        "-P",
        "--path",
        dest="paths",
        kind=LIST,
        metavar="PATH",
        help="calls that name this path (repeatable: one of them)",
    ),
    Option(
        "--depth",
        metavar="N",
        convert=parse_level,
        help="N levels of calls inside calls; 1: the outermost",
    ),
    Option(
        "--tid",
        dest="tids",
        kind=LIST,
        metavar="TID",
        convert=parse_count,
        help="calls of this thread (repeatable)",
    ),
    Option(
        "--since",
        metavar="WHEN",
        convert=parse_moment,
        help="calls from then on: 2s after the beginning, 12:34:56",
    ),
    Option("--until", metavar="WHEN", convert=parse_moment, help="calls up to then"),
    Option("-b", "--no-signals", help="no signals"),
)


def asked_of_calls(values: Values) -> list[str]:
    """Return the given options that need single calls, and so cannot be applied to sums."""
    return [
        option.flags[0]
        for option in FILTERS
        if option.dest != "no_signals" and getattr(values, option.dest) != option.unset
    ]


def choice_from(
    values: Values,
    *,
    selection: Selection | None = None,
    pids: list[int] | None = None,
    on: Selection | None = None,
    off: Selection | None = None,
    last_ns: int | None = None,
) -> Choice | None:
    """Return the choice of the options, or None for everything.

    `selection`, `pids`, `on`, `off` and `last_ns` are further conditions: see `Choice`.
    """
    others = [each for each in (selection, pids or None, on, off, last_ns) if each is not None]
    if not (values.no_signals or asked_of_calls(values) or others):
        return None
    from soscope.instruments.trace import choice

    ends = choice.ANY
    if values.successes:
        ends = choice.SUCCESSES
    elif values.failures:
        ends = choice.FAILURES
    where = None
    if values.where:
        from soscope.select.where import Condition

        for text in values.where:
            Condition(text)  # parsed separately, so that an error shows what the user wrote
        where = Condition(" and ".join(f"({text})" for text in values.where))
    return choice.Choice(
        selection=selection,
        pids=pids,
        tids=values.tids,
        since=values.since,
        until=values.until,
        depth=values.depth,
        slower_ns=values.slower,
        ends=ends,
        where=where,
        paths=[name for path in values.paths for name in _spelled(path)],
        signals=not values.no_signals,
        on=on,
        off=off,
        last_ns=last_ns,
    )


def _spelled(path: str) -> list[str]:
    """Return paths by which programs may denote a file: as given, absolute, without links."""
    from os.path import abspath, normpath, realpath

    return [path, normpath(path), abspath(path), realpath(path)]


# The options that switch recording on and off. `trace` and `report` share most of them.

_GROUP_TRIGGERS = "from when to when"
_SIGNALS = ("SIGUSR1", "SIGUSR2")  # signals without another meaning for soscope


def parse_signal(text: str) -> int:
    """Return the number of a signal that soscope can get for this purpose. Raises UsageError."""
    from soscope.proc.status import signal

    name = text.upper()
    name = name if name.startswith("SIG") else f"SIG{name}"
    if name not in _SIGNALS:
        raise UsageError(
            f"'{text}' is not a signal to switch with", hint=f"one of {', '.join(_SIGNALS)}"
        )
    return int(getattr(signal, name))


ON_OFF = table(
    _GROUP_TRIGGERS,
    Option(
        "--on",
        kind=LIST,
        metavar="EXPR",
        help="recording begins with a call that EXPR chooses (repeatable)",
    ),
    Option(
        "--off",
        kind=LIST,
        metavar="EXPR",
        help="recording ends with a call that EXPR chooses; --on begins it again (repeatable)",
    ),
)

TOGGLE = Option(
    "--toggle",
    metavar="SIGNAL",
    convert=parse_signal,
    group=_GROUP_TRIGGERS,
    help="SIGUSR1 or SIGUSR2: sent to soscope, it switches recording on and off",
)

LAST = Option(
    "--last",
    metavar="TIME",
    group=_GROUP_TRIGGERS,
    help="calls of the last TIME before the end: 10s",
)

FLIGHT = table(
    _GROUP_TRIGGERS,
    Option(
        "--last",
        metavar="TIME",
        help="only the calls of the last TIME before the end, or before a trigger",
    ),
    Option("--on-crash", help="with --last: when a signal has killed a process"),
    Option(
        "--on-symbol",
        kind=LIST,
        metavar="EXPR",
        help="with --last: when a process makes a call that EXPR chooses (repeatable)",
    ),
)

# Options that a ring of the newest calls does not support, by the name of the value.
_RIVALS = {
    "on": "--on",
    "off": "--off",
    "toggle": "--toggle",
    "graph": "--graph",
    "svg": "--svg",
    "summary": "-c",  # also needed for a graph
    "both": "-C",
    "count_only": "--count-only",
    "duration": "--duration",
    "max_size": "--max-size",
    "when_full": "--when-full",
}


def flight_from(values: Values) -> FlightSettings | None:
    """Return the settings of the flight recorder, None if it is off. Raises UsageError."""
    if values.last is None:
        if values.on_crash or values.on_symbol:
            option = "--on-crash" if values.on_crash else "--on-symbol"
            raise UsageError(f"{option} is a trigger of --last", hint="add --last 10s")
        return None
    for name, flag in _RIVALS.items():
        if getattr(values, name):
            raise UsageError(
                f"--last cannot be combined with {flag}",
                hint="trace --record FILE, then: soscope report --last TIME FILE",
            )
    if values.follow > 1:
        raise UsageError("--last writes all processes together", hint="-f follows children")
    from soscope.control.flight import FlightSettings

    return FlightSettings(values.last, on_crash=values.on_crash, on_symbol=values.on_symbol)
