# SPDX-License-Identifier: Apache-2.0
"""`soscope prof report`: show a recorded profile."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.instruments.prof.views import BY_FUNCTION, BY_IMAGE, BY_THREAD, GROUPS
from soscope.verbs.main import Invocation, show
from soscope.verbs.options import (
    FORM,
    HOW,
    ROWS_LIMIT,
    Option,
    Values,
    Verb,
    output_option,
)
from soscope.verbs.prof.reading import BIASES, IMAGE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.prof.model import Profile


PERCENT = 0.5  # smaller parts of a tree are not shown


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


VERB = Verb(
    "prof report",
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
    *FORM,
    output_option("OUT", "write to the file OUT"),
    IMAGE,
    *BIASES,
    usage="soscope prof report [options] REC",
    short="""\
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
""",
    description="""\
Show the profile that soscope prof run -o REC or attach -o REC has recorded: functions by self time,
or by calls if nothing was timed.

A file of gprof or of glibc's LD_PROFILE is recognized by its content. LD_PROFILE counts functions
that begin in the same 32 bytes as one. The report lists these functions, and they have no number.
""",
    epilog="""\
exit status: 0 fine, 1 REC is no recording of soscope prof or is not complete, or nothing in it is
called FUNCTION, 2 wrong usage.
""",
    argument=("REC", "the recording"),
    least=1,
    most=1,
)


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if the recording is incomplete or printing failed."""
    values, (path,) = invocation.read(VERB)
    is_tree = values.tree or values.callers is not None or values.callees is not None
    by = values.by or BY_FUNCTION
    if is_tree and (by == BY_IMAGE or (by == BY_THREAD and not values.tree)):
        raise UsageError(f"--by {by} adds rows up, and a tree has call paths")
    if values.percent is not None and not is_tree:
        raise UsageError("--percent-limit is about trees", hint="--limit N shows N rows")

    from soscope.instruments.prof.model import COMPLETE
    from soscope.report.prof import document, text
    from soscope.verbs.prof.reading import profile_at

    profile = profile_at(path, values, sample_lines=bool(values.json))  # text has no lines
    if is_tree:
        shown = _ways(profile, values)
    else:
        make = document if values.json else text
        shown = make(profile, values.rows, by)
    was_shown = show(values.json.shaped(shown, path), values.output, not_over=path)
    return 0 if was_shown and profile.state == COMPLETE else 1


def _ways(profile: Profile, values: Values) -> str:
    from soscope.instruments.prof import views as contexts
    from soscope.report import proftree

    pattern = values.callers or values.callees
    if pattern is None:
        way = proftree.TREE
        views = contexts.trees_of(profile, threads=values.by == BY_THREAD)
    else:
        from soscope.instruments.prof.views import matcher, nothing_called

        way = proftree.CALLEES if values.callers is None else proftree.CALLERS
        make = contexts.callees_of if values.callers is None else contexts.callers_of
        views = make(profile, matcher(pattern))
        if not views:
            raise nothing_called(profile, pattern)
    if values.json:
        return proftree.tree_document(
            profile, views, way, pattern, values.percent or 0, values.rows
        )
    percent = PERCENT if values.percent is None else values.percent
    return proftree.text(profile, views, percent, values.rows)
