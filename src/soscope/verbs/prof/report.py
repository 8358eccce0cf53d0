# SPDX-License-Identifier: Apache-2.0
"""`soscope prof report`: show a recorded profile."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.instruments.prof.views import BY_FUNCTION, BY_IMAGE, BY_THREAD, GROUPS
from soscope.report.output import Form
from soscope.verbs.main import Invocation
from soscope.verbs.options import (
    DEBUG,
    FORMAT,
    HOW,
    JSON,
    ROWS_LIMIT,
    Option,
    Values,
    Verb,
    output_option,
    table,
)
from soscope.verbs.prof.reading import BIASES, IMAGE, ProfFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.prof.model import Profile


USAGE = "soscope prof report [options] REC"
PERCENT = 0.5  # smaller parts of a tree are not shown

SHORT = f"""\
usage: {USAGE}

Show the profile that soscope prof run -o REC or attach -o REC has recorded, or that gprof or
LD_PROFILE has written.

  --tree
  --callers
  --callees
  --by
  --limit
  --image
  -o
  --json

  soscope prof report run.sosr
  soscope prof report --callers 'malloc@libc*' run.sosr
  soscope prof report /tmp/libz.so.1.profile

soscope prof report --help lists all options.
"""

DESCRIPTION = """\
Show the profile that soscope prof run -o REC or attach -o REC has recorded: functions by self time,
or by calls if nothing was timed.

A file of gprof or of glibc's LD_PROFILE is recognized by its content. LD_PROFILE counts functions
that begin in the same 32 bytes as one. The report lists these functions, and they have no number.
"""

EPILOG = """\
exit status: 0 fine, 1 REC is no recording of soscope prof or is not complete, or nothing in it is
called FUNCTION, 2 wrong usage.
"""

_WHAT = "what to show"


def parse_percent(text: str) -> float:
    """Return a number from 0 to 100. Raises UsageError."""
    try:
        percent = float(text.removesuffix("%"))
    except ValueError:
        percent = -1
    if not 0 <= percent <= 100:
        raise UsageError(f"'{text}' is not a percentage", hint="0 to 100, for example 0.5")
    return percent


OPTIONS = table(
    DEBUG,
    _WHAT,
    Option(
        "--tree",
        rivals="view",
        help="functions below their callers, with the time that they took there",
    ),
    Option(
        "--callers",
        metavar="FUNCTION",
        rivals="view",
        help="who calls FUNCTION, a pattern: NAME or NAME@IMAGE",
    ),
    Option("--callees", metavar="FUNCTION", rivals="view", help="what FUNCTION calls"),
    Option(
        "--by",
        choices=GROUPS,
        help="a row for each function, image or thread; --tree --by thread: a tree for each",
    ),
    HOW,
    Option(
        "--percent-limit",
        dest="percent",
        metavar="PERCENT",
        convert=parse_percent,
        help=f"of trees, rows of at least PERCENT of their tree ({PERCENT})",
    ),
    ROWS_LIMIT,
    JSON,
    FORMAT,
    output_option("OUT", "write to the file OUT"),
    IMAGE,
    *BIASES,
)

VERB = Verb(
    "prof report",
    OPTIONS,
    usage=USAGE,
    short=SHORT,
    description=DESCRIPTION,
    epilog=EPILOG,
    argument=("REC", "the recording"),
    least=1,
    most=1,
)


class ProfReportOptions:
    """The parsed options of `soscope prof report`.

    `callers` and `callees` are patterns of functions, and `limit` is a number of rows. They are
    None if not given. `percent` is the least part of shown call paths. If it is None, a document
    has all of them.
    """

    __slots__ = (
        "by",
        "callees",
        "callers",
        "debug",
        "file",
        "json",
        "limit",
        "output",
        "percent",
        "tree",
    )

    def __init__(self, values: Values, path: str) -> None:
        self.file = ProfFile(path, values)
        self.tree: bool = values.tree
        self.callers: str | None = values.callers
        self.callees: str | None = values.callees
        self.by: str = values.by or BY_FUNCTION
        self.percent: float | None = values.percent
        self.limit: int | None = values.rows
        self.json: Form = values.json
        self.output: str | None = values.output
        self.debug: bool = values.debug

    @property
    def is_tree(self) -> bool:
        """Return whether call paths are shown in place of rows of functions."""
        return self.tree or self.callers is not None or self.callees is not None


def parse(arguments: list[str]) -> ProfReportOptions:
    """Parse the words behind `soscope prof report`. Raises UsageError, or SystemExit for help."""
    values, (path,) = VERB.read(arguments)
    options = ProfReportOptions(values, path)
    if options.is_tree and (
        options.by == BY_IMAGE or (options.by == BY_THREAD and not options.tree)
    ):
        raise UsageError(f"--by {options.by} adds rows up, and a tree has call paths")
    if options.percent is not None and not options.is_tree:
        raise UsageError("--percent-limit is about trees", hint="--limit N shows N rows")
    return options


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if the recording is incomplete or printing failed."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.instruments.prof.model import COMPLETE
    from soscope.verbs.main import show
    from soscope.verbs.prof.reading import profile_at

    profile = profile_at(options.file, sample_lines=bool(options.json))  # text has no lines
    shown = _ways(profile, options) if options.is_tree else _rows(profile, options)
    shown = options.json.shaped(shown, options.file.path)
    was_shown = show(shown, options.output, not_over=options.file.path)
    return 0 if was_shown and profile.state == COMPLETE else 1


def _rows(profile: Profile, options: ProfReportOptions) -> str:
    if not options.json:
        from soscope.report.prof import text

        return text(profile, options.limit, options.by)
    from soscope.report.prof import document

    return document(profile, options.limit, options.by)


def _ways(profile: Profile, options: ProfReportOptions) -> str:
    from soscope.instruments.prof import views as contexts
    from soscope.report import proftree

    pattern = options.callers or options.callees
    if pattern is None:
        way = proftree.TREE
        views = contexts.trees_of(profile, threads=options.by == BY_THREAD)
    else:
        from soscope.instruments.prof.views import matcher, nothing_called

        way = proftree.CALLEES if options.callers is None else proftree.CALLERS
        make = contexts.callees_of if options.callers is None else contexts.callers_of
        views = make(profile, matcher(pattern))
        if not views:
            raise nothing_called(profile, pattern)
    if options.json:
        return proftree.tree_document(
            profile, views, way, pattern, options.percent or 0, options.limit
        )
    percent = PERCENT if options.percent is None else options.percent
    return proftree.text(profile, views, percent, options.limit)
