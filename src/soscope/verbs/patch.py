# SPDX-License-Identifier: Apache-2.0
"""`soscope patch`: let calls of a symbol reach another function, in a process that runs."""

from __future__ import annotations

from soscope.control.patch import Replacement
from soscope.errors import UsageError
from soscope.instruments.patch.spec import parse_callers, parse_replacement
from soscope.report.output import Form
from soscope.verbs.main import Invocation
from soscope.verbs.options import DEBUG, FORMAT, JSON, LIST, Option, Verb, pid_option, the_pid
from soscope.wire.patches import Caller

# The options about replacements, of `soscope patch` and `soscope run`.

_GROUP = "what to replace"

REPLACE = Option(
    "--replace",
    dest="replace",
    kind=LIST,
    metavar="SYMBOL=LIB:FUNCTION",
    convert=parse_replacement,
    group=_GROUP,
    help="calls of SYMBOL reach FUNCTION of the library at LIB (repeatable)",
)
FROM = Option(
    "--from",
    dest="from_",
    kind=LIST,
    metavar="IMAGE",
    group=_GROUP,
    help="calls by this image alone: soname, file name, glob, /regex/, path or MAIN (repeatable)",
)
CHECK = Option(
    "--check",
    dest="check",
    group=_GROUP,
    help="refuse a FUNCTION whose types are not known to be those of SYMBOL",
)

ABOUT = """\
Every slot of SYMBOL leads to FUNCTION then, those of libraries that come later, too; not those of
LIB itself. FUNCTION takes what SYMBOL takes. LIB's own calls of SYMBOL reach the original; so does
a call through the pointer SYMBOL_original, if LIB exports one: it is set before the first call.
Where code takes SYMBOL's address, that slot stays as it is, and that is said.

The types of FUNCTION are read from LIB's debug information (cc -g), those of SYMBOL from soscope's
own declarations or from the debug information of the library that defines it. Where both are
known and cannot fit (the number of arguments, the size of one, int for double), nothing is
started or changed. Where they are not known FUNCTION is taken as it is, unless --check is given.
"""


USAGE = """\
soscope patch -p PID --replace SYMBOL=LIB:FUNCTION... [--from IMAGE]... [--check]
       soscope patch -p PID --undo [SYMBOL...]"""

SHORT = f"""\
usage: {USAGE}

Have the calls of a running process reach functions of one's own.

  -p PID                           the process
  --replace malloc=./mine.so:mine  calls of malloc reach mine, of ./mine.so
  --from IMAGE                     calls by this image alone
  --check                          refuse types that cannot be compared
  --undo [SYMBOL...]               everything is as it was, or these functions are
  --json                           for programs

soscope patch --help lists all options.
"""

DESCRIPTION = f"""\
Load a library into a running process, by the process's own loader, and have calls of a function
reach one of that library. That stands when patch returns, and goes on without soscope until
--undo gives each slot its old bytes and closes the library.

{ABOUT}"""

EPILOG = """\
A second --replace of a symbol takes the place of the first. One command applies all of its
--replace, or none. soscope trace -p and inject -p go on top of it, and leave it in place.
soscope detach undoes it, too.

exit status: 0 fine, 1 the library cannot be loaded, something could not be undone, or a living
soscope traces the process, 2 wrong usage, 3 not permitted, 4 no such process.

examples:
  soscope patch -p 4711 --replace gettimeofday=./clock.so:slow_clock
  soscope patch -p 4711 --replace malloc=./count.so:counting --from 'libssl*'
  soscope patch -p 4711 --undo
"""

_SHOWING = JSON.group

OPTIONS = [
    DEBUG,
    pid_option(about="it stands still for some milliseconds"),
    REPLACE,
    FROM,
    CHECK,
    Option(
        "--undo",
        dest="undo",
        group=REPLACE.group,
        help="give slots their old bytes, of all functions or of SYMBOL...",
    ),
    JSON,
    FORMAT,
    Option("-q", "--quiet", dest="quiet", group=_SHOWING, help="say nothing"),
]

VERB = Verb(
    "patch",
    OPTIONS,
    usage=USAGE,
    short=SHORT,
    description=DESCRIPTION,
    epilog=EPILOG,
    argument=("SYMBOL", "with --undo: the functions that are to be as they were"),
    most=None,
)
make_parser = VERB.make_parser


class PatchOptions:
    """The parsed options of `soscope patch`: `wanted`, for calls by `callers`, or `symbols`.

    Replacements of `symbols` are to be undone.
    """

    __slots__ = ("callers", "check", "debug", "json", "pid", "quiet", "symbols", "undo", "wanted")

    def __init__(
        self, pid: int, wanted: list[Replacement], callers: list[Caller], symbols: list[str]
    ) -> None:
        self.pid = pid
        self.wanted = wanted
        self.callers = callers
        self.symbols = symbols
        self.undo = False
        self.check = False
        self.json = Form()
        self.quiet = False
        self.debug = False


def parse(arguments: list[str]) -> PatchOptions:
    """Parse the words behind `soscope patch`. Raises UsageError, or SystemExit for help."""
    values, symbols = VERB.read(arguments)
    pid = the_pid(values, USAGE)
    hint = f"usage: {USAGE}"
    if values.undo and (values.replace or values.from_):
        raise UsageError("--undo and --replace are two things to do", hint=hint)
    if values.undo and values.check:
        raise UsageError("--check is for --replace", hint=hint)
    if not values.undo and not values.replace:
        raise UsageError("nothing to do: --replace or --undo is missing", hint=hint)
    if symbols and not values.undo:
        raise UsageError(f"'{symbols[0]}': SYMBOL is for --undo", hint=hint)
    options = PatchOptions(pid, values.replace, parse_callers(values.from_), symbols)
    options.undo, options.check = values.undo, values.check
    options.json, options.quiet, options.debug = values.json, values.quiet, values.debug
    return options


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if something could not be put in place or undone."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.control.patch import patch, undo
    from soscope.instruments.patch.spec import check_replacements
    from soscope.report.patch import document, text
    from soscope.verbs.main import show

    if options.undo:
        patched = undo(options.pid, options.symbols)
    else:
        check_replacements(options.wanted, pid=options.pid, is_asked=options.check)
        patched = patch(options.pid, options.wanted, options.callers)
    is_told = True
    if not options.quiet:
        is_told = show(options.json.shaped(document(patched)) if options.json else text(patched))
    return 0 if is_told and not patched.left and not patched.waiting else 1
