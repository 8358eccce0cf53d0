# SPDX-License-Identifier: Apache-2.0
"""Options as rows of a table, a parser that reads words by it, and rows that many verbs share."""

from __future__ import annotations

from soscope.errors import AmbiguousError, NoSuchProcess, UsageError
from soscope.report.output import FORMS, TEXT, Form
from soscope.report.output import JSON as JSON_FORM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, NoReturn

    from soscope.entry.remote.packets import RemoteAddress
    from soscope.select.filter import Selection


# A parser that reads words by a table of options, and options that many verbs share.

# Options as rows of a table, and how words are read by it, as getopt reads them. `help.py` makes
# the help and the messages about mistakes from the same rows.

FLAG = "flag"  # given or not
COUNT = "count"  # how often it is given
VALUE = "value"  # takes the next word; the last one counts
ONCE = "once"  # takes the next word, and may be given once
LIST = "list"  # takes the next word, a value or a list of them, each time it is given


class Option:
    """One option: its spelling, its value and its help.

    `flags` are its spellings, `aliases` are former ones, of which no help tells, and `dest` is the
    attribute that it sets, which has the name of the last flag unless another one is given.
    `convert` makes a value from a word, and `choices` are the words that are allowed. An option
    with a `metavar` or choices takes a word, unless `kind` says how many. A word that the metavar
    calls TIME, SIZE or N becomes ns, bytes or a number, unless `convert` makes something else. Only
    one of the options with the same `rivals` may be given. `group` is its heading in the help, None
    if `table` sets it.
    """

    def __init__(
        self,
        *flags: str,
        help: str,  # noqa: A002  as users call it
        group: str | None = None,
        dest: str = "",
        kind: str = "",
        metavar: str = "",
        default: Any = None,
        convert: Callable[[str], Any] | None = None,
        choices: tuple[str, ...] = (),
        rivals: str = "",
        aliases: tuple[str, ...] = (),
    ) -> None:
        self.flags = flags
        self.aliases = aliases
        self.dest = dest or flags[-1].lstrip("-").replace("-", "_")
        self.help = help
        self.group = group or ""
        self.is_grouped = group is not None
        self.metavar = metavar or "|".join(choices)
        self.kind = kind or (VALUE if self.metavar else FLAG)
        self.default = {FLAG: False, COUNT: 0}.get(self.kind, default)
        self.convert = convert or _READERS.get(self.metavar)
        self.choices = choices
        self.rivals = rivals

    @property
    def spellings(self) -> tuple[str, ...]:
        """Return everything that a user may type for it."""
        return self.flags + self.aliases

    @property
    def unset(self) -> Any:
        """Return its value if it is not given. A list is a new one each time."""
        return [] if self.kind == LIST else self.default

    @property
    def takes_word(self) -> bool:
        """Return whether a value follows."""
        return self.kind in (VALUE, ONCE, LIST)

    def value(self, word: str) -> Any:
        """Return the option's value for a word. Raises UsageError."""
        if self.choices and word not in self.choices:
            raise UsageError(f"{self.flags[-1]}: '{word}' is not one of {', '.join(self.choices)}")
        if self.convert is None:
            return word
        try:
            return self.convert(word)
        except UsageError as error:
            raise UsageError(
                f"{self.flags[-1]}: {error.message}", hint=error.hint, slug=error.slug
            ) from error


def table(*rows: str | Option) -> list[Option]:
    """Return options as a list. A text is the group of the options behind it that have none.

    >>> from soscope.verbs.options import Option, table
    >>> [option.group for option in table("where to", Option("-o", metavar="FILE", help="a file"))]
    ['where to']
    """
    options: list[Option] = []
    group = ""
    for row in rows:
        if isinstance(row, str):
            group = row
            continue
        if not row.is_grouped:
            row.group, row.is_grouped = group, True
        options.append(row)
    return options


class Values:
    """The values of the options: an attribute for each `dest`."""

    def __init__(self, options: list[Option]) -> None:
        for option in options:
            setattr(self, option.dest, option.unset)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

        def __setattr__(self, name: str, value: Any) -> None: ...

    def take(self, option: Option, word: str | None) -> None:
        """Take one option that was given, with its word if it takes one."""
        if word is not None:
            value = option.value(word)
            if option.kind == LIST:
                getattr(self, option.dest).extend(value if isinstance(value, list) else [value])
            elif option.kind == ONCE and getattr(self, option.dest) != option.default:
                raise UsageError(f"{option.flags[-1]}: it is given twice")
            else:
                setattr(self, option.dest, value)
        elif option.kind == COUNT:
            setattr(self, option.dest, getattr(self, option.dest) + 1)
        else:
            setattr(self, option.dest, True)


def scan(options: list[Option], words: list[str]) -> tuple[Values, list[str]] | None:
    """Read options up to the first word that is none. Return their values and the rest.

    An option with a value takes the next word, whatever it looks like. `--` ends the options and
    is left out. Return None if something is wrong or help is wanted, which `help.refuse` tells.
    Raises UsageError for an invalid value.
    """
    by_flag = {flag: option for option in options for flag in option.spellings}
    values = Values(options)
    rivals: dict[str, Option] = {}
    at = 0
    for flags, piece in pieces(by_flag, words):
        if not flags:
            break
        at += len(piece)
        for flag, word in flags:
            option = by_flag.get(flag)
            if option is None or option.takes_word != (word is not None):
                return None
            if option.rivals and rivals.setdefault(option.rivals, option) is not option:
                return None
            values.take(option, word)
    return values, words[at + 1 :] if words[at : at + 1] == ["--"] else words[at:]


def split(word: str, by_flag: dict[str, Option]) -> list[tuple[str, str | None]]:
    """Split `--name=value`, `-abc` or `-ovalue` into flags and attached values."""
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        return [(name, value if equals else None)]
    flags: list[tuple[str, str | None]] = []
    for index in range(1, len(word)):
        option = by_flag.get(f"-{word[index]}")
        if option is not None and option.takes_word:
            flags.append((option.flags[0], word[index + 1 :] or None))
            break
        flags.append((f"-{word[index]}", None))
    return flags


def permuted(options: list[Option], words: list[str]) -> list[str]:
    """Return the words with all options in front, for a verb that runs no command.

    Words behind `--` are no options. If the last word is an option that lacks its value, that
    option comes last, and the arguments are left out.
    """
    front: list[str] = []
    rest: list[str] = []
    by_flag = {flag: option for option in options for flag in option.spellings}
    for flags, piece in pieces(by_flag, words):
        (front if flags else rest).extend(piece[1:] if piece[0] == "--" else piece)
        if flags:
            flag, value = flags[-1]
            if value is None and flag in by_flag and by_flag[flag].takes_word:
                return front
    return [*front, "--", *rest]


def command_at(options: list[Option], words: list[str]) -> int:
    """Return the index of the first word that is no option, or that is `--`."""
    by_flag = {flag: option for option in options for flag in option.spellings}
    at = 0
    for flags, piece in pieces(by_flag, words):
        if not flags:
            break
        at += len(piece)
    return at


def flags_in(options: list[Option], words: list[str]) -> list[str]:
    """Return the flags before the first word that is no option, also unknown ones."""
    by_flag = {flag: option for option in options for flag in option.spellings}
    found: list[str] = []
    for flags, _ in pieces(by_flag, words):
        if not flags:
            break
        found += [flag for flag, _ in flags]
    return found


def names(options: list[Option], words: list[str], wanted: Option) -> bool:
    """Return whether an option is given before the first word that is no option."""
    return any(flag in wanted.spellings for flag in flags_in(options, words))


def pieces(
    by_flag: dict[str, Option], words: list[str]
) -> Iterator[tuple[list[tuple[str, str | None]], list[str]]]:
    """Yield each option as its flags with their values, and its words.

    A value of its own word is the value of the last flag. A word that is no option has no flags.
    `--` comes last, with everything that follows.
    """
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--":
            yield [], words[at:]
            return
        at += 1
        if len(word) < 2 or word[0] != "-":
            yield [], [word]
            continue
        flags = split(word, by_flag)
        flag, value = flags[-1]
        option = by_flag.get(flag)
        piece = [word]
        if option is not None and option.takes_word and value is None and at < len(words):
            piece.append(words[at])
            flags[-1] = (flag, words[at])
            at += 1
        yield flags, piece


# `--format`, of all verbs that report something, and its short form `--json`.


def format_option(group: str, *more: str) -> Option:
    """Return the option. `more` are forms that only this verb has."""
    names = (*FORMS, *more)
    return Option(
        "--format",
        dest="form",
        choices=names,
        group=group,
        help="md: Markdown, one fact a line; --json is --format json",
    )


def settle(values: Values) -> None:
    """Set `values.json` to the form that --json and --format ask for together.

    `values.form` stays the value of --format, TEXT if it was not given. Raises UsageError.
    """
    if not hasattr(values, "form"):
        return
    if values.json and values.form not in (None, JSON_FORM):
        raise UsageError(f"--json cannot be combined with --format {values.form}")
    if values.form is None:
        values.form = JSON_FORM if values.json else TEXT
    form = Form(values.form if values.form in FORMS else TEXT, getattr(values, "top", None))
    if form.is_markdown and hasattr(values, "rows"):
        form.most, values.rows = values.rows, None  # a page shows the sum of the other rows
    values.json = form


# When the line of progress of a trace is shown.

WHEN = _, ALWAYS, NEVER = "auto", "always", "never"


# The options that choose slots or calls: by symbol, by calling image, by called image.


def selection_options(
    group: str, *, select: str, from_: str, to: str
) -> tuple[Option, Option, Option]:
    """Return -e, --from and -l, with the given help texts."""
    return (
        Option("-e", "--select", kind=LIST, metavar="EXPR", group=group, help=select),
        Option("--from", dest="from_", kind=LIST, metavar="IMAGE", group=group, help=from_),
        Option("-l", "--to", kind=LIST, metavar="IMAGE", group=group, help=to),
    )


def selection_of(
    select: list[str], from_: list[str] | None = None, to: list[str] | None = None
) -> Selection:
    """Compile the values of -e, --from and -l. Raises UsageError for a faulty expression."""
    from soscope.prototypes import load
    from soscope.select.filter import compile_selection

    return compile_selection(select, from_, to, sets=lambda: load().groups())


def understand(values: Values) -> None:
    """Replace arguments of -e in strace's syntax by their meaning. Raises UsageError."""
    if any("=" in word or word.startswith("!") for word in values.select):
        from soscope.verbs import stracewords

        if stracewords.are_in(values.select):
            stracewords.translate(values)


# Numbers with units, as users write them: `16MiB`, `1g`, `250ms`, `2m`.

# k, m, g without B are powers of 1024, as in dd, head and most allocators' options. kB, MB, GB are
# powers of 1000, as in SI and coreutils.
_SIZES = {"": 1, "b": 1}
for _power, _letter in enumerate("kmgt", start=1):
    _SIZES[_letter] = _SIZES[f"{_letter}i"] = _SIZES[f"{_letter}ib"] = 1024**_power
    _SIZES[f"{_letter}b"] = 1000**_power

_DURATIONS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "ms": 1_000_000,
    "": 1_000_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "min": 60_000_000_000,
    "h": 3_600_000_000_000,
}

_MOST = 1 << 62  # fits every integer field that it may be written to


def parse_size(text: str) -> int:
    """Return bytes. A number without unit is bytes. Raises UsageError."""
    return _parse(text, _SIZES, "size", "64k, 16MiB or 1g")


def parse_duration(text: str) -> int:
    """Return nanoseconds. A number without unit is seconds. Raises UsageError."""
    return _parse(text, _DURATIONS, "time", "250ms, 10s or 2m")


def parse_buffer(text: str) -> int:
    """Return the bytes of a buffer for calls. Raises UsageError."""
    from soscope.control.settings import LEAST_BUFFER, MOST_BUFFER

    size = parse_size(text)
    if not LEAST_BUFFER <= size <= MOST_BUFFER:
        least, most = size_text(LEAST_BUFFER), size_text(MOST_BUFFER)
        raise UsageError(f"{size_text(size)} is not between {least} and {most}")
    return size


def parse_count(text: str) -> int:
    """Return a number of things, 0 or more. Raises UsageError."""
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise UsageError(f"'{text}' is not a number", slug="number")
    return int(text)


_READERS = {"TIME": parse_duration, "SIZE": parse_size, "N": parse_count}


def _parse(text: str, units: dict[str, int], what: str, examples: str) -> int:
    """Separate a positive number from its unit and multiply them."""
    stripped = text.strip()
    number = stripped.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZµ ")
    unit = units.get(stripped[len(number) :].strip().lower())
    whole, dot, part = number.partition(".")
    digits = whole + part
    if unit is None or not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
        raise UsageError(f"'{text}' is not a {what}", hint=f"for example {examples}", slug="unit")
    value = int(digits) * unit // 10 ** len(part) if dot else int(digits) * unit
    if not 0 < value < _MOST:
        raise UsageError(
            f"'{text}' is no possible {what}", hint=f"for example {examples}", slug="unit"
        )
    return value


def size_text(size: int) -> str:
    """Return a number of bytes as three digits and a unit."""
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.3g} {unit}" if unit != "B" else f"{size} B"
        value /= 1024
    return f"{value:.3g} TiB"


def duration_text(ns: int) -> str:
    """Return a duration in the format of `parse_duration`, with three digits: `10s`, `1.25ms`."""
    for unit, size in (("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1000)):
        if ns >= size:
            return f"{float(f'{ns / size:.3g}'):g}{unit}"
    return f"{ns}ns"


# The options that choose a process, and further options of all verbs that have them.

_MOST_PROCESS = 1 << 31  # range of pid_t

HOW = "how to show it"
JSON = Option("--json", group=HOW, help="one JSON document")
FORMAT = format_option(HOW)
FORM = (JSON, FORMAT)


def pid_option(*, group: str = "what to look at", about: str = "it is not stopped") -> Option:
    """Return -p. `about` is its help about the process."""
    return Option(
        "-p",
        "--pid",
        kind=ONCE,
        metavar="PID",
        convert=parse_pid,
        group=group,
        help=f"the process; {about}" if about else "the process",
    )


def duration_option(group: str, about: str, *, kind: str = VALUE) -> Option:
    """Return --duration."""
    return Option(
        "--duration", kind=kind, metavar="TIME", group=group, help=about, aliases=("--for",)
    )


def output_option(metavar: str, about: str, *, group: str = "where to") -> Option:
    """Return -o. Its value is a path, None if it is not given."""
    return Option("-o", "--output", metavar=metavar, group=group, help=about)


def quiet_option(group: str = HOW, about: str = "no notes at the end") -> Option:
    """Return -q."""
    return Option("-q", "--quiet", group=group, help=about)


def follow_option(
    group: str, about: str = "children, too; without it they change nothing", *, kind: str = FLAG
) -> Option:
    """Return -f."""
    return Option("-f", "--follow-forks", dest="follow", kind=kind, group=group, help=about)


def pids_option(*, group: str, about: str) -> Option:
    """Return -p for several processes."""
    return Option(
        "-p",
        "--pid",
        dest="pids",
        kind=LIST,
        metavar="PID",
        convert=parse_processes,
        group=group,
        help=about,
    )


def parse_pid(text: str) -> int:
    """Return a pid. The process need not exist. Raises UsageError."""
    if "," in text:
        raise UsageError(f"'{text}': one process at a time")
    pid = parse_count(text)
    if not 0 < pid < _MOST_PROCESS:
        raise UsageError(f"{pid} is no process id")
    return pid


# `-p` for several processes: pids, and names that only one process has.

_MOST_SHOWN = 10  # candidates that are listed
_WIDEST = 80  # letters of each candidate


def parse_processes(text: str) -> list[int]:
    """Return the processes that a word denotes: `12`, `12,34` or `nginx`.

    Raises UsageError, NoSuchProcess if no process has the name, and AmbiguousError if several
    have.
    """
    return [_the_one(word) if _is_name(word) else parse_pid(word) for word in text.split(",")]


def _is_name(word: str) -> bool:
    return word != "" and not word.isdigit() and not word.startswith("-")


def _the_one(name: str) -> int:
    """Return the only process with a name."""
    # Only imported for names, as pids are part of every start.
    from soscope.model.call import printable
    from soscope.proc.status import command_line, processes_named

    pids = processes_named(name)
    if len(pids) == 1:
        return pids[0]
    shown = printable(name)
    if not pids:
        raise NoSuchProcess(f"no process is called '{shown}'")
    error = AmbiguousError(f"{len(pids)} processes are called '{shown}'", tuple(pids))
    lines = [f"-p {pid}  {printable(command_line(pid))[:_WIDEST]}" for pid in pids[:_MOST_SHOWN]]
    if len(pids) > _MOST_SHOWN:
        lines.append(f"and {len(pids) - _MOST_SHOWN} more")
    error.hint = "\n".join([f"all of them: -p {','.join(map(str, pids))}; one of them:", *lines])
    raise error


# `--remote`: programs that run under a stub of the GDB remote protocol.

ADDRESS = "unix:PATH|HOST:PORT"


def parse_address(text: str) -> RemoteAddress:
    """Return the address of a stub. Raises UsageError."""
    from soscope.entry.remote.packets import RemoteAddress  # not needed for a process

    return RemoteAddress(text)


def remote_option(group: str | None = None) -> Option:
    """Return --remote."""
    return Option(
        "--remote",
        kind=ONCE,
        metavar=ADDRESS,
        convert=parse_address,
        group=group,
        help="the program of a gdbserver or an emulator that waits there, on this machine; it is"
        " let go afterwards",
    )


def sysroot_option(group: str, about: str) -> Option:
    """Return --sysroot."""
    return Option("--sysroot", metavar="DIR", default="", group=group, help=about)


def without_program(words: list[str]) -> tuple[list[str], str]:
    """Remove PROGRAM from the words, which is behind `--` if --remote is given.

    Return the other words, and PROGRAM or "". Raises UsageError if `--` is the last word.
    """
    if "--" not in words:
        return words, ""
    at = words.index("--")
    if not any(word == "--remote" or word.startswith("--remote=") for word in words[:at]):
        return words, ""
    if at + 1 == len(words):
        raise UsageError("no program behind '--'")
    return words[:at] + words[at + 2 :], words[at + 1]


# What every verb takes. Verbs that have more to say or to leave out have options of their own.
_DEBUG = Option("--debug", group="", help="show tracebacks of soscope's own errors")
_HUSH = quiet_option("", "no notes on standard error")
_VERBOSE = Option("-v", "--verbose", group="", help="more notes, if this verb has more")


# A verb's table of options with its help, and the reading of the words behind the verb.
#
# Options may be at any place. If a verb runs a command, they end at the command.


class Verb:
    """The usage of one verb, and its table of options: `rows` as `table` takes them.

    All verbs have --debug, and -q and -v unless their own rows have them. `short` is the output of
    -h, in which a line with only an option stands for the option's row. `description` and `epilog`
    are before and after the options in --help. `argument` is (name in the help, its help), None if
    the verb takes only options. `least` and `most` are how many arguments there may be, None for
    any number. If a verb `runs_command`, all words from the command on belong to the command. If it
    `needs_pid`, -p must be given. With `habits`, options of ltrace and strace that the verb lacks
    are explained by a sentence each.
    """

    def __init__(
        self,
        name: str,
        *rows: str | Option,
        usage: str,
        short: str,
        description: str,
        epilog: str,
        argument: tuple[str, str] | None = None,
        least: int = 0,
        most: int | None = 0,
        runs_command: bool = False,
        needs_pid: bool = False,
        habits: bool = False,
    ) -> None:
        self.name = name
        own = table(*rows)
        taken = {flag for option in own for flag in option.flags}
        self.hushes = _HUSH.flags[0] not in taken
        rest = [each for each in (_HUSH, _VERBOSE) if each.flags[0] not in taken]
        self.options = [_DEBUG, *own, *rest]
        self.usage = usage
        self.short = short
        self.description = description
        self.epilog = epilog
        self.argument = argument
        self.least = least
        self.most = None if runs_command else most
        self.runs_command = runs_command
        self.needs_pid = needs_pid
        self.habits = habits

    def read(self, words: list[str]) -> tuple[Values, list[str]]:
        """Return the options' values and the verb's arguments, or the command that it runs.

        Raises UsageError, or SystemExit if help was printed.
        """
        ordered = words if self.runs_command else permuted(self.options, words)
        scanned = scan(self.options, ordered)
        count = 0 if scanned is None else len(scanned[1])
        if scanned is None or count < self.least or (self.most is not None and count > self.most):
            self._refuse(ordered)
        values, _ = scanned
        settle(values)
        if self.hushes and values.quiet:
            from soscope.verbs.main import hush

            hush()
        if self.needs_pid:
            self.check_pid(values)
        return scanned

    def wrong(self, message: str) -> UsageError:
        """Return an error whose hint is the usage."""
        return UsageError(message, hint=f"usage: {self.usage}")

    def check_target(self, command: list[str], pids: list[int] | None = None) -> None:
        """Raise UsageError unless there is either a command or a process."""
        if not command and not pids:
            raise self.wrong("no command to run")
        if command and pids:
            raise self.wrong("-p PID cannot be combined with a command")

    def check_pid(self, values: Values) -> None:
        """Raise UsageError if there is no -p."""
        if values.pid is None:
            raise self.wrong("no process: -p PID is missing")

    def _refuse(self, words: list[str]) -> NoReturn:
        """Raise UsageError for wrong words, or SystemExit with the help that they ask for."""
        if self.habits:
            from soscope.verbs.habits import explained

            known = {flag for option in self.options for flag in option.spellings}
            for flag in flags_in(self.options, words):
                if flag not in known and flag not in ("-h", "--help"):
                    error = explained(flag, self.name)
                    if error is not None:
                        raise error
        from soscope.verbs.help import refuse  # not needed for words that are right

        refuse(self, words)


# `-o FILE` of the verbs that draw a flame graph: a picture or a page, by the suffix.

SVG, HTML = ".svg", ".html"

PICTURE_OUTPUT = output_option(
    "FILE", "write FILE: .svg is a picture, .html a page that needs nothing else"
)


def flame_file(path: str | None, verb: Verb) -> str:
    """Return the file to draw into. Raises UsageError if there is none, or by its suffix."""
    if path is None:
        raise verb.wrong("no file to draw into")
    if not path.lower().endswith((SVG, HTML)):
        raise UsageError(f"'{path}' is neither a .svg nor a .html file")
    return path


def is_page(path: str) -> bool:
    """Return whether a page is wanted."""
    return path.lower().endswith(HTML)


# `-o` and `-q` of the verbs that make a recording and show it.

WHERE = "where to"

RECORDING_OUTPUT = output_option(
    "REC", "keep a recording in the file REC, in place of what it holds", group=WHERE
)
RECORDING_QUIET = quiet_option(WHERE, "no notes at the end")


def check_form(form: Form, output: str | None, family: str) -> None:
    """Raise UsageError if a form is given although the recording is kept and not shown."""
    if form and output is not None:
        raise UsageError(
            f"-o REC and --format {form.name}: with -o nothing is shown",
            hint=f"soscope {family} report --format {form.name} REC shows it",
        )


# The number of rows that verbs print of a recording of memory or of a profile.

ROWS_LIMIT = Option(
    "--limit",
    aliases=("--top",),
    dest="rows",
    metavar="N",
    group=HOW,
    help="only the N largest rows",
)
