# SPDX-License-Identifier: Apache-2.0
"""Show a recording of memory on standard output, as the verbs of `soscope mem` do."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.instruments.mem.model import COMPLETE
from soscope.instruments.mem.report import report_of
from soscope.recording.reader import RecordingFile
from soscope.report.mem import document, stats, text
from soscope.report.output import Form
from soscope.verbs import main
from soscope.verbs.options import DEBUG, VALUE, Option, Verb, format_option
from soscope.verbs.shown import FORMAT, HOW, JSON, LIMIT

# Options of the verbs that show a recording of memory.

STATS, TABLE = "stats", "table"
WAYS = ("line", "type", "image", "thread", "time")

_ANY_FORMAT = format_option(HOW, TABLE, STATS)
_ANY_FORMAT.help += "; stats: lines of COUNT FILE:LINE:TYPE and nothing else"


BY = Option(
    "--by",
    dest="by",
    kind=VALUE,
    metavar="line|type|image|thread|time",
    choices=WAYS,
    group=HOW,
    help="add rows up: by line, type, image or thread; or what was made and freed over time",
)


class ShowOptions:
    """The parsed options of such a verb: the recording, and how to show it.

    `limit` is None for all rows. `by` is how to add rows up, None if not at all.
    """

    __slots__ = ("by", "debug", "format", "json", "limit", "path")

    def __init__(self, path: str, *, form: str, json: Form, limit: int | None, debug: bool) -> None:
        self.path = path
        self.by: str | None = None
        self.format = form
        self.json = json
        self.limit = limit
        self.debug = debug


def make_verb(name: str, about: str, more: str = "") -> Verb:
    """Return the verb `soscope mem NAME`, which shows `about` of a recording."""
    usage = f"soscope mem {name} [options] REC"
    options = [DEBUG, JSON, LIMIT]
    options += [BY, _ANY_FORMAT] if name == "report" else [FORMAT]
    short = [
        f"usage: {usage}",
        "",
        f"Show {about} of a recording that soscope mem run -o REC has made.",
        "",
        "  --json     for programs",
        "  --limit N  the N largest rows alone",
        "",
        f"  soscope mem {name} run.sosr",
        "",
        f"soscope mem {name} --help lists all options.",
        "",
    ]
    return Verb(
        f"mem {name}",
        options,
        usage=usage,
        short="\n".join(short),
        description=f"Show {about} of a recording that soscope mem run -o REC has made.{more}\n",
        epilog="exit status: 0 fine, 1 REC is no recording of soscope mem, 2 wrong usage.\n",
        argument=("REC", "the recording"),
        least=1,
        most=1,
    )


def parse_show(verb: Verb, words: list[str]) -> ShowOptions:
    """Parse the words behind such a verb. Raises UsageError, or SystemExit for help."""
    values, (path,) = verb.read(words)
    form = values.form
    by = getattr(values, "by", None)
    if by is not None and form == STATS:
        raise UsageError("--by and --format stats are two forms")
    options = ShowOptions(path, form=form, json=values.json, limit=values.rows, debug=values.debug)
    options.by = by
    return options


# Shows a recording of memory on standard output, for the verbs of `soscope mem`.


def show(options: ShowOptions, native: str, *, older_ns: int = 0) -> int:
    """Show the rows of a recording that `native` chooses. Return 0, or 1 if it ends too early.

    If `older_ns` is set, live blocks are only shown if they are older than that. Raises
    FormatError or RecordingError if it is no recording of soscope mem.
    """
    with RecordingFile.open(options.path) as recording:
        report = report_of(recording, native, older_ns=older_ns)
    if options.by is not None:
        from soscope.instruments.mem.groups import groups_of
        from soscope.report.mem import text_of

        groups = groups_of(report, options.by)[: options.limit]
        if options.json:
            shown = document(report, options.limit, {"by": options.by, "rows": groups})
        else:
            shown = text_of(report, options.by, groups)
    elif options.json:
        shown = document(report, options.limit)
    elif options.format == STATS:
        shown = stats(report, options.limit)
    else:
        shown = text(report, options.limit)
    shown = options.json.shaped(shown, options.path)
    return 0 if main.show(shown) and report.state == COMPLETE else 1
