# SPDX-License-Identifier: Apache-2.0
"""The options of `soscope resolve`."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.options.process import FORMAT, JSON, pid_option, the_pid
from soscope.options.remote import remote_option, sysroot_option, without_program
from soscope.options.units import parse_count
from soscope.options.verb import Verb
from soscope.report.output import Form
from soscope.verbs.display import DEBUG
from soscope.verbs.options import VALUE, Option, Values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.entry.remote.packets import RemoteAddress


USAGE = (
    "soscope resolve [options] -p PID QUERY…  or  soscope resolve --remote ADDRESS"
    " [-- PROGRAM] QUERY…"
)

SHORT = f"""\
usage: {USAGE}

Say where a symbol is in a running process, by the rules of its loader, and what an address is.

  -p PID         the process; it is only read, and never stopped
  --remote ADDR  the program of a gdbserver or an emulator that waits: unix:PATH or HOST:PORT
  NAME           what dlsym would return there; NAME@VERSION as dlvsym
  IMAGE!NAME     in this image and those that it needs
  0xADDR         the symbol that contains the address
  -              more queries on standard input, one a line
  --read FORMAT  and what is stored there: str, i32, u64, ptr, f64, 3i, hex:16, *str
  --why          how it was found
  --json         for programs

  soscope resolve -p 4711 --read 3i ruby_api_version

soscope resolve --help lists all options.
"""

DESCRIPTION = """\
Answers with the address that dlsym(RTLD_DEFAULT, NAME) would return in the process: by the
loader's own search list, with versions, interposition, copy relocations, IFUNCs and thread-local
variables. What no loader would find may still be a static symbol, and is marked as one. Where
several symbols could be meant, all are listed, and none is chosen.
"""

EPILOG = """\
exit status: 0 all found, 1 something was not found or is ambiguous, 2 wrong usage, 3 not
permitted, 4 no such process.
"""

_WHICH = "which one"
_SHOW = "how to show it"

OPTIONS = [
    DEBUG,
    pid_option(group=_WHICH, about="it is only read, and never stopped"),
    remote_option(_WHICH),
    sysroot_option(_WHICH, "where the system of a remote program lies"),
    Option(
        "--thread",
        dest="thread",
        kind=VALUE,
        metavar="TID",
        convert=parse_count,
        group=_WHICH,
        help="whose thread-local variables are meant (the first thread's)",
    ),
    Option(
        "--namespace",
        dest="namespace",
        kind=VALUE,
        metavar="N",
        convert=parse_count,
        group=_WHICH,
        help="the namespace, as dlmopen makes them (0)",
    ),
    Option(
        "--seen-from",
        dest="seen_from",
        kind=VALUE,
        metavar="IMAGE",
        group=_WHICH,
        help="what the slot of this image is bound to, instead of a look-up",
    ),
    Option(
        "--all",
        dest="all",
        group=_SHOW,
        help="every definition, in the loader's order; * marks the one that is found",
    ),
    Option(
        "--read",
        dest="read",
        kind=VALUE,
        metavar="FORMAT",
        group=_SHOW,
        help="read the value, too: str, i8 to u64, f32, f64, ptr, hex:N or letters of Python's "
        "struct; * before it follows a pointer first",
    ),
    Option("--why", dest="why", group=_SHOW, help="the steps that lead to the answer"),
    JSON,
    FORMAT,
]


class ResolveOptions:
    """The parsed options of `soscope resolve`: the process, the queries, how to show answers.

    `pid` is 0 if the program runs under the stub at `remote`. Then `program` is its path, "" if
    the stub has to tell, and its libraries are below `sysroot`.
    """

    __slots__ = (
        "all",
        "debug",
        "json",
        "namespace",
        "pid",
        "program",
        "queries",
        "read",
        "remote",
        "seen_from",
        "sysroot",
        "thread",
        "why",
    )

    def __init__(self, values: Values, queries: list[str], program: str) -> None:
        """Take the options from the parsed words. Raises UsageError."""
        self.remote: RemoteAddress | None = values.remote
        self.program = program
        self.sysroot: str = values.sysroot
        if self.remote is not None and values.pid is not None:
            raise UsageError("either -p or --remote")
        if self.remote is None and self.sysroot:
            raise UsageError("--sysroot is for programs of other machines (--remote)")
        self.pid = 0 if self.remote is not None else the_pid(values, USAGE)
        if not queries:
            raise UsageError("no query: a NAME or a 0xADDR", hint=f"usage: {USAGE}")
        self.thread: int | None = values.thread
        self.namespace: int | None = values.namespace
        self.seen_from: str | None = values.seen_from
        self.all: bool = values.all
        self.read: str | None = values.read
        self.why: bool = values.why
        self.json: Form = values.json
        self.debug: bool = values.debug
        self.queries = queries


VERB = Verb(
    "resolve",
    OPTIONS,
    usage=USAGE,
    short=SHORT,
    description=DESCRIPTION,
    epilog=EPILOG,
    argument=("QUERY", "a name or an address"),
    most=None,
)
make_parser = VERB.make_parser


def parse(arguments: list[str]) -> ResolveOptions:
    """Parse the words behind `soscope resolve`. Raises UsageError, or SystemExit for help."""
    words, program = without_program(arguments)
    return ResolveOptions(*VERB.read(words), program)
